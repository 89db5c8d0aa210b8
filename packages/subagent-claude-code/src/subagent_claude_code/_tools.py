"""A tool that the engine names, in the seam's words: its kind, a line for a person, the files that it is about."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from subagents import ToolEvent, ToolKind
from subagents.backend.values import JsonObject, object_in, objects_in, one_line, tail, text_in

_KINDS: Final[dict[str, ToolKind]] = {
    "Bash": "execute",
    "Monitor": "execute",
    "Read": "read",
    "Write": "edit",
    "Edit": "edit",
    "NotebookEdit": "edit",
    "Glob": "search",
    "Grep": "search",
    "ToolSearch": "search",
    "WebSearch": "fetch",
    "WebFetch": "fetch",
    "Task": "think",
    "Agent": "think",
    "TodoWrite": "think",
    "TaskCreate": "think",
    "TaskUpdate": "think",
    "TaskList": "think",
}
_PATHS: Final = ("file_path", "notebook_path", "path")
_SHOWN: Final = ("command", "file_path", "notebook_path", "url", "query", "pattern", "description", "path")
_EXIT: Final = re.compile(r"Exit code (\d{1,9})\b")
_ERROR: Final = re.compile(r"</?tool_use_error>")


class Step(NamedTuple):
    """What a call of a tool is about."""

    title: str
    kind: ToolKind
    command: str | None
    paths: tuple[str, ...]


def step_of(name: str, given: JsonObject) -> Step:
    """A call in the seam's words."""
    shown = next((text for key in _SHOWN if (text := text_in(given, key))), "")
    kind = _KINDS.get(name, "other")
    command = text_in(given, "command") or None if kind == "execute" else None
    paths = tuple(path for key in _PATHS if (path := text_in(given, key)))
    return Step(one_line(shown if kind == "execute" and shown else f"{name} {shown}"), kind, command, paths)


def begun(block: JsonObject, parent: str | None) -> ToolEvent:
    """The event for a `tool_use` block."""
    title, kind, command, paths = step_of(text_in(block, "name"), object_in(block, "input"))
    return ToolEvent(text_in(block, "id"), title, kind, "in_progress", command, paths, parent=parent)


def ended(event: ToolEvent, block: JsonObject) -> ToolEvent:
    """The event for the `tool_result` block of a step that has begun."""
    output = text_in(block, "content") or "\n".join(text_in(part, "text") for part in objects_in(block, "content"))
    output = _ERROR.sub("", output)
    failed = block.get("is_error") is True
    found = _EXIT.match(output) if failed and event.kind == "execute" else None
    return ToolEvent(
        event.id,
        event.title,
        event.kind,
        "failed" if failed else "completed",
        event.command,
        event.paths,
        tail(output),
        int(found[1]) if found else None,
        event.parent,
    )
