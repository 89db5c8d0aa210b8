"""What is handed over: `Task`, checked before anything starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypedDict, cast

from subagents._result import JsonSchema
from subagents._wire import Wire
from subagents.errors import TaskError, Unsupported

StrPath: TypeAlias = str | os.PathLike[str]

SEAM_FIELDS: Final = frozenset({"prompt", "cwd", "deadline", "idle_limit", "label", "changes", "isolation"})
"""The fields that the seam itself takes care of, whatever the provider."""


@dataclass(frozen=True, slots=True)
class Task(Wire):
    """A self-contained piece of work for another agent.

    Attributes:
        prompt: what to do, in words.
        cwd: the folder to work in; None is the current one of the caller.  `drive` sees it absolute and resolved.
        model: the model, as the provider names it.
        effort: how hard to think, in the engine's word.
        output_schema: JSON Schema that the answer must satisfy; `Result.structured` holds the value.
        read: files that a provider without tools is shown, relative to `cwd`.
        write: files that it may rewrite or make, relative to `cwd`: the task is a change then, not a question.
        tools: the tools that the child may use; None leaves it to the engine.
        max_turns: the most model turns.
        budget: the most to spend, in US dollars.
        deadline: seconds from entering the run, start-up included, after which it fails with kind `timeout`.
        idle_limit: seconds without any event after which it fails with kind `timeout`; a person being asked does not
            count.
        resume: the `Result.session` of an earlier run to go on with.
        label: a name for people; nothing depends on it.
        instructions: text beside the prompt, in the place where the engine takes system instructions.
        changes: whether `Result.changes` tells what the run did to the folder: None in a git repository, True also
            elsewhere (its files are read before and after), False never.
        isolation: `worktree`: the run works in a fresh git worktree that begins at HEAD of `cwd`; `Result.worktree`
            says what became of it. None: in `cwd` itself.
    """

    prompt: str
    cwd: StrPath | None = None
    model: str | None = None
    effort: str | None = None
    output_schema: JsonSchema | None = None
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    max_turns: int | None = None
    budget: float | None = None
    deadline: float | None = None
    idle_limit: float | None = None
    resume: str | None = None
    label: str | None = None
    instructions: str | None = None
    changes: bool | None = None
    isolation: Literal["worktree"] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.cwd, os.PathLike):
            object.__setattr__(self, "cwd", os.fspath(self.cwd))
        for name in ("read", "write", "tools"):
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        for name in ("prompt", "cwd", "model", "effort", "resume", "label", "instructions"):
            check_text(name, getattr(self, name), required=name == "prompt")
        for name in ("budget", "deadline", "idle_limit"):
            _check_positive(name, getattr(self, name))
        _check_count("max_turns", self.max_turns)
        # Callers without a type checker give anything.
        if self.changes is not None and not isinstance(self.changes, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TaskError(f"changes is True, False or None, not {self.changes!r}")
        if self.isolation not in (None, "worktree"):
            raise TaskError(f"isolation is 'worktree' or None, not {self.isolation!r}")


class TaskFields(TypedDict, total=False):
    """The fields of a Task as keywords, without the prompt."""

    cwd: StrPath | None
    model: str | None
    effort: str | None
    output_schema: JsonSchema | None
    read: tuple[str, ...]
    write: tuple[str, ...]
    tools: tuple[str, ...] | None
    max_turns: int | None
    budget: float | None
    deadline: float | None
    idle_limit: float | None
    resume: str | None
    label: str | None
    instructions: str | None
    changes: bool | None
    isolation: Literal["worktree"] | None


def _names(name: str, value: object) -> tuple[str, ...] | None:
    if value is None and name == "tools":
        return None
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TaskError(f"{name} is a list of names, not {type(value).__name__}")
    items = tuple(os.fspath(v) if isinstance(v, os.PathLike) else v for v in cast("Iterable[str]", value))
    for item in items:
        check_text(f"an entry of {name}", item, required=True)
    return items


def check_text(name: str, value: object, *, required: bool) -> None:
    """Refuse what no engine takes as text.

    Raises:
        TaskError: it is none, empty, holds a null character or half of a surrogate pair.
    """
    if value is None and not required:
        return
    if not isinstance(value, str):
        raise TaskError(f"{name} is text, not {type(value).__name__}")
    if not value.strip():
        raise TaskError(f"{name} is empty")
    if "\0" in value:
        raise TaskError(f"{name} holds a null character, which no engine takes")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise TaskError(f"{name} holds half of a surrogate pair, which cannot be written as UTF-8") from None


def _check_count(name: str, value: object) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise TaskError(f"{name} is a whole number from 1, not {value!r}")


def _check_positive(name: str, value: object) -> None:
    if value is None:
        return
    right = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= sys.float_info.max
    if not right:
        raise TaskError(f"{name} is a number above 0, not {value!r}")


def changed_fields(task: Task) -> frozenset[str]:
    """The names of the fields that differ from their defaults, the prompt left out."""
    return frozenset(f.name for f in fields(task) if f.name != "prompt" and getattr(task, f.name) != f.default)


def prepare(task: Task | str, more: Mapping[str, Any], capabilities: frozenset[str], provider: str) -> Task:
    """The task that `drive` will see: fields merged, checked against the provider, `cwd` resolved.

    Raises:
        TaskError: it cannot be right.
        Unsupported: a field that the provider does not do.
    """
    if unknown := more.keys() - TaskFields.__annotations__.keys():
        known = ", ".join(TaskFields.__annotations__)
        raise TaskError(f"a Task has no field {', '.join(sorted(unknown))} beside its prompt; it has {known}")
    if isinstance(task, str):
        given: dict[str, Any] = dict(more)
        task = Task(task, **given)
    elif isinstance(task, Task):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without a type checker
        task = replace(task, **more)
    else:
        raise TaskError(f"a task is a Task or text, not {type(task).__name__}")
    if refused := changed_fields(task) - SEAM_FIELDS - capabilities:
        does = ", ".join(sorted(capabilities - {"send"})) or "none beyond " + ", ".join(sorted(SEAM_FIELDS))
        raise Unsupported(f"{provider} does not support {', '.join(sorted(refused))} (it supports: {does})")
    settled: dict[str, Any] = {"cwd": _folder(task.cwd)}
    if task.isolation is not None and not _in_repository(settled["cwd"]):
        raise TaskError(f"isolation='worktree' needs a git repository, and {settled['cwd']} is in none")
    if task.output_schema is not None:
        from subagents._schema import checked_schema

        settled["output_schema"] = checked_schema(task.output_schema)
    return replace(task, **settled)


def _in_repository(folder: str) -> bool:
    """Whether it looks like it; git itself is asked when the run is entered."""
    marks = (place / ".git" for place in (Path(folder), *Path(folder).parents))
    return any(
        mark.is_file() or (mark / "HEAD").exists() for mark in marks
    )  # sandboxes leave empty folders of the name


def _folder(cwd: StrPath | None) -> str:
    try:
        path = Path(os.getcwd() if cwd is None else cwd).expanduser().resolve(strict=True)
    except (OSError, ValueError, RuntimeError) as exc:
        raise TaskError(f"cwd {str(cwd or '.')!r} cannot be resolved: {exc}") from None
    if not path.is_dir():
        raise TaskError(f"cwd {str(path)!r} is not a directory")
    if not os.access(path, os.X_OK | os.R_OK):
        raise TaskError(f"cwd {str(path)!r} cannot be entered: permission denied")
    return str(path)
