"""An item of a thread as a `ToolEvent`: one function for each type of item, in one table.

The words of an item (its type, its status, its kinds) are Codex's, from the schema of 0.163.0; those of the event are
the Agent Client Protocol's. A status that is not known never says that something was done: an edit that completed is
evidence of a result.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable
from typing import Final

from subagents import ToolEvent, ToolKind, ToolStatus
from subagents.backend.values import (
    JsonObject,
    listed,
    number_in,
    object_in,
    objects_in,
    one_line,
    tail,
    text_in,
    texts_in,
)

_STATUS: Final[dict[str, ToolStatus]] = {
    "inProgress": "in_progress",
    "completed": "completed",
    "failed": "failed",
    "declined": "failed",
    "interrupted": "failed",
}
_ACTIONS: Final[dict[str, ToolKind]] = {"read": "read", "listFiles": "search", "search": "search"}
_WEB: Final[dict[str, ToolKind]] = {"openPage": "fetch", "findInPage": "fetch"}
_AGENT: Final[dict[str, ToolStatus]] = {"completed": "completed", "interrupted": "failed"}


def step(item: JsonObject, *, over: bool, cwd: str, parent: str | None) -> ToolEvent:
    """The event of an item that is no message.

    Args:
        item: as `item/started` and `item/completed` carry it.
        over: it came with `item/completed`.
        cwd: the working folder, for shorter titles.
        parent: the step whose sub-agent took this one.
    """
    kind = text_in(item, "type")
    make = _STEPS.get(kind)
    word = item.get("status")
    if word is None:  # the item has none: being told that it is over says it
        status: ToolStatus = "completed" if over else "in_progress"
    else:
        status = _STATUS.get(word, "failed" if over else "in_progress") if isinstance(word, str) else "failed"
    if make is None:
        return ToolEvent(text_in(item, "id"), one_line(kind), "other", status, parent=parent)
    return make(item, status, cwd, parent)


def paths_of(item: JsonObject) -> tuple[str, ...]:
    """The files that a `fileChange` touches, both ends of a move included."""
    found: dict[str, None] = {}
    for change in objects_in(item, "changes"):
        for path in (text_in(change, "path"), text_in(object_in(change, "kind"), "move_path")):
            if path:
                found[path] = None
    return tuple(found)


def short_path(path: str, cwd: str) -> str:
    """A path below the working folder without it."""
    front = cwd.rstrip(os.path.sep) + os.path.sep
    return path.removeprefix(front) or path


def _command(item: JsonObject, status: ToolStatus, cwd: str, parent: str | None) -> ToolEvent:
    actions = objects_in(item, "commandActions")
    kinds = {_ACTIONS.get(text_in(action, "type")) for action in actions}
    kind: ToolKind = "execute" if None in kinds or not kinds else "read" if kinds == {"read"} else "search"
    command = text_in(item, "command")
    # One action holds the script itself; `command` is the shell that runs it.
    script = text_in(actions[0], "command") if len(actions) == 1 else command
    paths = tuple(dict.fromkeys(filter(None, (text_in(action, "path") for action in actions))))
    return ToolEvent(
        text_in(item, "id"), one_line(script or command) or "a command", kind, status, command or None, paths,
        tail(text_in(item, "aggregatedOutput")), number_in(item, "exitCode"), parent,
    )  # fmt: skip


def _change(item: JsonObject, status: ToolStatus, cwd: str, parent: str | None) -> ToolEvent:
    kinds = [object_in(change, "kind") for change in objects_in(item, "changes")]
    kind: ToolKind = "edit"
    if kinds and all(text_in(found, "type") == "delete" for found in kinds):
        kind = "delete"
    elif kinds and all(text_in(found, "move_path") for found in kinds):
        kind = "move"
    paths = paths_of(item)
    title = one_line(f"{kind} {listed(short_path(path, cwd) for path in paths) or 'files'}")
    return ToolEvent(text_in(item, "id"), title, kind, status, paths=paths, parent=parent)


def _mcp(item: JsonObject, status: ToolStatus, cwd: str, parent: str | None) -> ToolEvent:
    said = [text_in(part, "text") for part in objects_in(object_in(item, "result"), "content")]
    output = text_in(object_in(item, "error"), "message") or "\n".join(said)
    title = one_line(f"{text_in(item, 'server')}: {text_in(item, 'tool')}")
    return ToolEvent(text_in(item, "id"), title, "other", status, output=tail(output), parent=parent)


def _dynamic(item: JsonObject, status: ToolStatus, cwd: str, parent: str | None) -> ToolEvent:
    output = "\n".join(text_in(part, "text") for part in objects_in(item, "contentItems"))
    if item.get("success") is False:
        status = "failed"
    title = one_line(text_in(item, "tool")) or "a tool of the client"
    return ToolEvent(text_in(item, "id"), title, "other", status, output=tail(output), parent=parent)


def _collaboration(item: JsonObject, status: ToolStatus, cwd: str, parent: str | None) -> ToolEvent:
    prompt = text_in(item, "prompt")
    title = one_line(f"{text_in(item, 'tool') or 'agent'}{': ' if prompt else ''}{prompt}")
    said = [text_in(object_in(object_in(item, "agentsStates"), name), "message") for name in agents_of(item)]
    return ToolEvent(
        text_in(item, "id"), title, "other", status, output=tail("\n".join(filter(None, said))), parent=parent
    )


def _activity(item: JsonObject, status: ToolStatus, cwd: str, parent: str | None) -> ToolEvent:
    # It has no status: its kind is one. The step is the agent, not the single piece of news about it.
    word = text_in(item, "kind")
    title = one_line(f"agent {text_in(item, 'agentPath')}")
    agent = text_in(item, "agentThreadId") or text_in(item, "id")
    return ToolEvent(agent, title, "other", _AGENT.get(word, "in_progress"), parent=parent)


def _web(item: JsonObject, status: ToolStatus, cwd: str, parent: str | None) -> ToolEvent:
    action = object_in(item, "action")
    what = text_in(action, "url") or text_in(action, "query") or text_in(item, "query")
    what = what or listed(texts_in(action, "queries"))
    kind = _WEB.get(text_in(action, "type"), "search")
    return ToolEvent(text_in(item, "id"), one_line(what) or "the web", kind, status, parent=parent)


def _image(item: JsonObject, status: ToolStatus, cwd: str, parent: str | None) -> ToolEvent:
    path = text_in(item, "path")
    title = one_line(f"look at {short_path(path, cwd)}")
    return ToolEvent(text_in(item, "id"), title, "read", status, paths=(path,) if path else (), parent=parent)


def _picture(item: JsonObject, status: ToolStatus, cwd: str, parent: str | None) -> ToolEvent:
    path, failure = text_in(item, "savedPath"), object_in(item, "failure")
    title = one_line(f"make an image: {text_in(item, 'revisedPrompt')}")
    return ToolEvent(
        text_in(item, "id"), title, "other", "failed" if failure else status, paths=(path,) if path else (),
        output=text_in(failure, "type"), parent=parent,
    )  # fmt: skip


def _sleep(item: JsonObject, status: ToolStatus, cwd: str, parent: str | None) -> ToolEvent:
    return ToolEvent(text_in(item, "id"), f"wait {(number_in(item, 'durationMs') or 0) / 1000:g} s", "other", status)


def _output(item: JsonObject, status: ToolStatus, cwd: str, parent: str | None) -> ToolEvent:
    title = one_line(text_in(item, "name")) or "a tool"
    return ToolEvent(text_in(item, "id"), title, "other", status, output=tail(output_text(item)), parent=parent)


_STEPS: Final[dict[str, Callable[[JsonObject, ToolStatus, str, str | None], ToolEvent]]] = {
    "commandExecution": _command,
    "fileChange": _change,
    "mcpToolCall": _mcp,
    "dynamicToolCall": _dynamic,
    "collabAgentToolCall": _collaboration,
    "subAgentActivity": _activity,
    "webSearch": _web,
    "imageView": _image,
    "imageGeneration": _picture,
    "sleep": _sleep,
    "functionCallOutput": _output,
}


def agents_of(item: JsonObject) -> list[str]:
    """The threads of the sub-agents that an item is about."""
    thread = text_in(item, "agentThreadId")
    return [thread] if thread else texts_in(item, "receiverThreadIds")


def output_text(item: JsonObject) -> str:
    """The `output` of a call: a text, or an array of which the texts are taken."""
    return text_in(item, "output") or "\n".join(text_in(part, "text") for part in objects_in(item, "output"))
