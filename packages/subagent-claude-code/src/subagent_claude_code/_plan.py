"""The list of things to do, which the engine keeps by calls of its tools.

Models get one of two families: `TodoWrite`, whose call is the whole list (only read: 2.1.332 offers it to no model that
was tried), and `TaskCreate`, `TaskUpdate`, `TaskList`, of which each tells one entry and the engine gives the number
(observed). A call counts once it has succeeded. Sub-agents' lists are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from subagents import PlanEntry, PlanEvent
from subagents.backend.values import JsonObject, object_in, objects_in, text_in


class Plan:
    """What the engine wants to do, as far as its calls tell."""

    def __init__(self) -> None:
        self._calls: dict[str, JsonObject] = {}
        self._entries: dict[str, PlanEntry] = {}

    def called(self, block: JsonObject) -> None:
        """A `tool_use` block of the main conversation."""
        if text_in(block, "name") in _TOOLS:
            self._calls[text_in(block, "id")] = block

    def answered(self, block: JsonObject, result: JsonObject) -> PlanEvent | None:
        """The list, when the `tool_result` block ends a call that changed it.

        Args:
            block: the outcome as the model sees it.
            result: the `tool_use_result` beside it.
        """
        call = self._calls.pop(text_in(block, "tool_use_id"), None)
        if call is None or block.get("is_error") is True:
            return None
        before = dict(self._entries)
        _TOOLS[text_in(call, "name")](self._entries, object_in(call, "input"), result)
        return PlanEvent(tuple(self._entries.values())) if self._entries != before else None


def _whole(entries: dict[str, PlanEntry], listed: list[JsonObject], name: str) -> None:
    entries.clear()
    for number, entry in enumerate(listed):
        ident = text_in(entry, "id") or str(number)
        entries[ident] = PlanEntry(text_in(entry, name), _status(text_in(entry, "status")))


def _written(entries: dict[str, PlanEntry], given: JsonObject, _: JsonObject) -> None:
    _whole(entries, objects_in(given, "todos"), "content")


def _listed(entries: dict[str, PlanEntry], _: JsonObject, result: JsonObject) -> None:
    _whole(entries, objects_in(result, "tasks"), "subject")


def _created(entries: dict[str, PlanEntry], given: JsonObject, result: JsonObject) -> None:
    if ident := text_in(object_in(result, "task"), "id"):
        entries[ident] = PlanEntry(text_in(given, "subject"))


def _updated(entries: dict[str, PlanEntry], given: JsonObject, result: JsonObject) -> None:
    ident, status = text_in(given, "taskId"), text_in(given, "status")
    entry = entries.get(ident)
    if entry is None or result.get("success") is not True:
        return
    if status == "deleted":
        del entries[ident]
        return
    entries[ident] = PlanEntry(text_in(given, "subject") or entry.content, _status(status) if status else entry.status)


_TOOLS: Final[dict[str, Callable[[dict[str, PlanEntry], JsonObject, JsonObject], None]]] = {
    "TodoWrite": _written,
    "TaskCreate": _created,
    "TaskUpdate": _updated,
    "TaskList": _listed,
}


def _status(word: str) -> Literal["pending", "in_progress", "completed"]:
    return word if word in ("in_progress", "completed") else "pending"
