"""The files of an answer written, and what became of each told.

A stop lands before the writing begins, or waits for its end: it is milliseconds, in a thread. Whichever verdict the run
has by then, its evidence says of each file that it was written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import anyio
from anyio import to_thread

from subagent_local._files.rewrite import Change, Unusable, read_change
from subagent_local._files.syntax import check_syntax
from subagent_workspace import (
    PathsRefused,
    Rewrite,
    Sources,
    TextFile,
    WorkspaceError,
    WriteFailed,
    Written,
    write_files,
)
from subagents import Event, Failure, Link, NoticeEvent, Result, TextEvent, ToolEvent, ToolStatus, visible

_NOTES: Final = 2000  # characters of the model's own words
_LEFT: Final = "it was not tried"
_PATIENCE: Final = 10.0  # seconds for a thread that writes while the event loop ends around it
_NEWS: Final = 1.0  # seconds between two words about how far the answer is


class Progress:
    """Tells how far an answer is that nobody wants to read: JSON of whole files."""

    def __init__(self, emit: Callable[[Event], None], expected: int) -> None:
        """`expected` is about how many characters will come."""
        self._emit, self._expected = emit, expected
        self._done, self._next = 0, 0.0

    def __call__(self, event: Event) -> None:
        """Take the place of `emit`."""
        if not isinstance(event, TextEvent):
            self._emit(event)
            return
        self._done += len(event.text)
        if anyio.current_time() >= self._next:
            self._next = anyio.current_time() + _NEWS
            data = {"done": self._done, "total": max(self._expected, self._done + 1), "unit": "characters"}
            self._emit(NoticeEvent("the model writes", "progress", data=data))


async def carry_out(result: Result, sources: Sources, boundary: str, link: Link, *, folder: str) -> Result:
    """Write what a whole answer says.

    Args:
        result: with the answer as its output; one that is not `completed` gets a failure that says so.
        sources: the files as the model saw them.
        folder: the working folder that they were read from.
        boundary: of the tags in the prompt.
        link: is told of each file.

    Returns:
        The result with the notes and a line for each file as its output, or an `error` that says what was written; the
        output is then what the model said.
    """
    if not result.ok:  # half of a JSON text is no answer to show
        return result if result.failure else replace(result, output="", failure=_cut_off(result))
    try:
        # In a thread, and left there by a stop: a long answer takes long to read.
        change = await to_thread.run_sync(read_change, result.output, sources.write, boundary, abandon_on_cancel=True)
        await check_syntax(change.rewrites)
    except Unusable as error:
        why = f"the answer was refused, and nothing was written: {error}"
        return replace(result, stop_reason="error", failure=Failure("output", "run", why))
    for rewrite in change.rewrites:
        link.emit(_step(rewrite.file.path))
    try:
        written = await _write(folder, change.rewrites, link)
    except WorkspaceError as error:
        return _broken_off(result, change.rewrites, error, link)
    output = _summary(change, written, sources)
    link.emit(TextEvent(output))
    return replace(result, output=output)


def _cut_off(result: Result) -> Failure:
    if result.stop_reason != "max-tokens":
        return Failure("policy", "run", "the model server withheld the answer: nothing was written")
    tokens = "" if result.usage.output_tokens is None else f" ({result.usage.output_tokens:,})"
    why = f"the answer reached the most tokens{tokens} before its end, and nothing was written"
    advice = "ask for less, or raise max_tokens, and context where prompt and answer fill it"
    return Failure("output", "run", f"{why}: {advice}")


async def _write(folder: str, rewrites: tuple[Rewrite, ...], link: Link) -> tuple[Written, ...]:
    """Write in a thread, or not at all when a cancellation comes before it has begun, and tell what was written.

    Once the thread has begun, the cancellation of a scope waits for it. That of an asyncio task (the end of its loop,
    or somebody else's `Task.cancel`) comes through, and then the thread is waited for without the loop, for at most
    `_PATIENCE`. Nobody hears the error then, nor the end of a thread that takes longer: a note tells of both.

    Raises:
        WorkspaceError: of the writer.
    """
    claim, over = threading.Lock(), threading.Event()  # whoever gets the claim decides whether it begins
    outcome: list[tuple[Written, ...] | WorkspaceError] = []

    def body() -> None:
        if claim.acquire(blocking=False):
            try:
                outcome.append(write_files(folder, rewrites))
            except WorkspaceError as error:
                outcome.append(error)
            finally:
                over.set()

    try:
        await to_thread.run_sync(body)
    except BaseException:
        if not claim.acquire(blocking=False) and not over.wait(_PATIENCE):
            paths = ", ".join(rewrite.file.path for rewrite in rewrites)
            link.note(f"files were still being written when the program ended: look at {paths}")
        for found in outcome:
            if isinstance(found, WriteFailed):
                link.note(str(found))
        raise
    finally:
        for found in outcome:
            if not isinstance(found, WorkspaceError):
                _tell(found, link)
            elif isinstance(found, WriteFailed):
                _tell(found.written, link)
    (found,) = outcome
    if isinstance(found, WorkspaceError):
        raise found
    return found


def _tell(written: Iterable[Written], link: Link) -> None:
    for done in written:
        line = _line(done)
        link.emit(_step(done.path, "completed", title=line, output=done.diff))
        for warning in done.warnings:
            link.emit(NoticeEvent(f"{done.path}: {warning}", "rewrite", level="warning"))
        # A note too: when the run was stopped meanwhile, its verdict stands, and events come too late.
        link.note("; ".join([f"written {line}", *done.warnings]))


def _broken_off(result: Result, rewrites: Iterable[Rewrite], error: WorkspaceError, link: Link) -> Result:
    reasons: dict[str, str] = {}
    if isinstance(error, PathsRefused):
        reasons = error.reasons
    elif isinstance(error, WriteFailed):
        reasons = {**error.not_written, **error.unknown}
    written = {done.path for done in error.written} if isinstance(error, WriteFailed) else set[str]()
    for rewrite in rewrites:
        if (path := rewrite.file.path) not in written:
            link.emit(_step(path, "failed", title=f"{path}: {reasons.get(path, _LEFT)}"))
    # A file that changed meanwhile is a matter of this moment; what a disk says is not.
    changed = not isinstance(error, WriteFailed)
    link.note(str(error))
    failure = Failure("policy" if changed else "unknown", "write", str(error), retryable=changed)
    return replace(result, stop_reason="error", failure=failure)


def _step(path: str, status: ToolStatus = "in_progress", *, title: str = "", output: str = "") -> ToolEvent:
    return ToolEvent(f"write {path}", title or path, "edit", status, paths=(path,), output=output)


def _line(done: Written) -> str:
    if done.status == "added":
        return f"{done.path}: new, {done.lines_after} line{'s' * (done.lines_after != 1)}"
    return f"{done.path}: {done.lines_before} -> {done.lines_after} lines"


def _summary(change: Change, written: Iterable[Written], sources: Sources) -> str:
    """The notes, and a line for each file, indented: in Markdown that is text as it stands, `__init__.py` too."""
    notes = visible(change.notes.strip()[: _NOTES + 1])
    notes = notes if len(notes) <= _NOTES else f"{notes[: _NOTES - 1]}…"
    lines = {done.path: _line(done) for done in written}
    told = [f"    {lines.get(file.path) or _left(file)}" for file in sources.write]
    return "\n".join([*([notes, ""] if notes else []), *told])


def _left(file: TextFile) -> str:
    return f"{file.path}: {'unchanged' if file.exists else 'not made'}"
