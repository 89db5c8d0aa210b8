"""The files that a task names: what is refused before anything starts, and what the run reads.

Everything is refused with a reason for each path, and all of them at once.  The same files are read twice: at `start`,
so that a wrong path costs no time, and when the run begins, since that is what the model sees, and what is checked
again before anything is written.  In a worktree of its own the files are there only then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, cast

from anyio import to_thread

from subagent_local._asking.room import Window
from subagent_local._files.marks import find_mark
from subagent_local._files.prompt import Prompt, compose, unseen
from subagent_local.models import MODELS
from subagent_workspace import FilesRefused, Limits, Sources, TextFile, WorkspaceError, check_paths, read_files
from subagent_workspace.protection import PROTECTED, SECRET
from subagents import Failure, StartError, Task, TaskError

if TYPE_CHECKING:
    from subagent_local.options import LocalOptions

LONGEST_TASK: Final = 8_000
"""Characters of a task that comes with files."""
MOST_WRITTEN: Final = 6
MOST_READ: Final = 12
NO_FILES: Final = Sources((), ())

# Characters that a token stands for at most: JSON of code has 2.3 to 4.1 for each by the tokenizers of both models of
# the table, but deep indentation 9, tables 9, rules of dashes 11.5.  So what is refused by an estimate does not fit,
# and what may is counted later.
_PER_TOKEN: Final = 12


def check_files(task: Task, options: LocalOptions) -> None:
    """Refuse a task whose files the model cannot be given.

    Raises:
        TaskError: with every reason; its cause is the error of the workspace where a file is one.
    """
    wrong, cause = list(_too_much(task)), None
    try:
        if task.isolation is not None:
            check_paths([*task.write, *task.read])
        elif len(task.read) <= MOST_READ and len(task.write) <= MOST_WRITTEN:
            prompt = compose(task, _read(task, options))
            # Of a server it is known only when the run begins how much fits.
            known = options.url is None and not wrong
            if known and (reason := _no_room(prompt, task, options)):
                wrong.append(reason)
    except WorkspaceError as error:
        wrong.append(_told(error))
        cause = error
    if wrong:
        raise TaskError("; ".join(wrong)) from cause


async def load_files(task: Task, options: LocalOptions) -> tuple[Sources, Prompt]:
    """The files as the model will see them, and the question with them; without files only that.

    All is judged again: who calls `drive` for a task of their own has not called `check_files`.

    Raises:
        StartError: of kind `policy`: a file may not be read or written (any more), or it is too much; of kind `model`:
            it does not fit.
    """
    if not (task.read or task.write):
        return NO_FILES, compose(task, NO_FILES)
    if wrong := "; ".join(_too_much(task)):
        raise StartError(Failure("policy", "start", wrong))
    try:
        sources = await to_thread.run_sync(_read, task, options)
    except WorkspaceError as error:
        raise StartError(Failure("policy", "start", _told(error))) from error
    prompt = await to_thread.run_sync(compose, task, sources)
    if options.url is None and (reason := _no_room(prompt, task, options)):  # a server says it when the run begins
        raise StartError(Failure("model", "start", reason))
    return sources, prompt


def _too_much(task: Task) -> Iterator[str]:
    if (length := len(task.prompt)) > LONGEST_TASK:
        yield f"a task with files has at most {LONGEST_TASK:,} characters, not {length:,}: put the rest in a file"
    for paths, most, use in ((task.write, MOST_WRITTEN, "write"), (task.read, MOST_READ, "read")):
        if len(paths) > most:
            yield f"{len(paths)} files to {use} are too many for one task ({most} at most): give it in parts"
    if task.write and task.output_schema is not None:
        yield "a task that writes files answers with these files: leave out output_schema, or write"


def _read(task: Task, options: LocalOptions) -> Sources:
    limits = Limits(protected=(*PROTECTED, *options.protected), secret=(*SECRET, *options.secret))
    sources = read_files(cast("str", task.cwd), task.read, task.write, limits=limits)
    refused = {file.path: why for file in sources.write if (why := _unwritable(file))}
    refused |= {
        file.path: f"its name holds a mark of a chat template ({mark})"
        for file in (*sources.read, *sources.write)
        if (mark := find_mark(file.path))
    }
    if refused:
        raise FilesRefused(refused)
    return sources


def _unwritable(file: TextFile) -> str | None:
    if (c := unseen(file.text)) is not None:
        what = f"a character that does not show (U+{ord(c):04X})"
    elif (mark := find_mark(file.text)) is not None:
        what = f"a mark of a chat template ({mark})"
    else:
        return None
    return f"it holds {what}, which the model is not shown and would not write again"


def _told(error: WorkspaceError) -> str:
    text = str(error).removesuffix(".")
    return f"{text}. The options protected and secret say what is protected" if "it is protected" in text else text


def _no_room(prompt: Prompt, task: Task, options: LocalOptions) -> str | None:
    known = MODELS.get(str(task.model or options.model))
    window = Window(
        prompt.characters // _PER_TOKEN,
        min(options.context, known.context) if known else options.context,
        len(prompt.expected) // _PER_TOKEN,
        least=0,
    )
    return window.refusal(options.max_tokens)
