"""The steps of a turn: out of items, and out of the raw calls that never become one.

Raw calls and items come in any order. A call is told from its raw output only when no item of that id was seen; an
item that comes after that goes on with the same step, for both have one id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from subagent_codex._calls import CALLS, OUTPUTS, Answer, Call, answer_of, call_of
from subagent_codex._items import agents_of, paths_of, step
from subagent_process import redact
from subagents import ToolEvent
from subagents.backend.values import JsonObject, object_in, one_line, tail, text_in

# A command that the sandbox stopped is an item only when it took its time (observed: some 50 ms); then these words, of
# the kernel and not of the engine, are all that tells it from one that failed by itself.
_STOPPED: Final = "Read-only file system"


class Steps:
    """What the agents of a turn do. Each method that takes a notification says whether it had the known shape."""

    def __init__(self, emit: Callable[[ToolEvent], object], cwd: str) -> None:
        self._emit, self._cwd = emit, cwd
        self._running: dict[str, ToolEvent] = {}
        self._items: set[str] = set()
        self._changes: dict[str, tuple[str, ...]] = {}
        self._agents: dict[str, str] = {}  # thread of a sub-agent to the step that made it
        self._calls: dict[str, Call] = {}
        self._unanswered: dict[str, str | None] = {}  # calls without an output or an item, and their parent
        self._answers: set[str] = set()  # calls with an output
        self._refused: dict[str, str] = {}  # by the engine: call to what it was
        self._declined: set[str] = set()  # by whoever was asked

    # -- what is known ---------------------------------------------------------------------------------------------

    def maker_of(self, thread: str) -> str:
        """The step whose sub-agent has that thread; the thread itself, when it is not known."""
        return self._agents.get(thread, thread)

    def escalates(self, item_id: str) -> bool:
        """Whether a command that is asked about may go beyond the sandbox."""
        call = self._calls.get(item_id)
        return call is None or not call.plain

    def change_paths(self, item_id: str) -> tuple[str, ...]:
        """The files of a `fileChange`."""
        return self._changes.get(item_id, ())

    @property
    def busy(self) -> bool:
        """The engine takes a step; a command that it left running in the background, and has told of, is none."""
        return bool(self._unanswered) or not self._running.keys() <= self._answers

    @property
    def notes(self) -> tuple[str, ...]:
        """What was refused, declined, or is not over; one sentence each."""
        found: list[str] = []
        if self._refused:
            last = next(reversed(self._refused.values()))
            found.append(f"{_count(self._refused)} refused by the engine, its sandbox or its rules; the last: {last}")
        if self._declined:
            found.append(f"{_count(self._declined)} declined when the engine asked for permission")
        if self._running:
            found.append(f"{_count(self._running)} still running")
        return tuple(found)

    # -- items -----------------------------------------------------------------------------------------------------

    def item(self, item: JsonObject, parent: str | None, *, over: bool) -> None:
        """An item that is no message, when it begins and when it is over."""
        event, name = step(item, over=over, cwd=self._cwd, parent=parent), text_in(item, "id")
        self._items.add(name)
        self._unanswered.pop(name, None)
        self._refused.pop(name, None)
        if text_in(item, "type") == "fileChange":
            self._changes[name] = paths_of(item)
        for agent in agents_of(item):
            self._agents.setdefault(agent, event.id)
        if over:
            self._running.pop(event.id, None)
        else:
            self._running[event.id] = event
        if item.get("status") == "declined":
            self._declined.add(name)
        elif event.exit_code and event.status == "failed" and _STOPPED in event.output:
            self._refuse(name, event.title, event.output)
        self._emit(event)

    def output(self, params: JsonObject, parent: str | None) -> bool:
        """More output of a running command."""
        delta = params.get("delta")
        if not isinstance(delta, str):
            return False
        event = self._running.get(text_in(params, "itemId"))
        if event is not None:
            event = self._running[event.id] = replace(event, output=tail(event.output + delta))
            self._emit(event)
        return True

    def progress(self, params: JsonObject, parent: str | None) -> bool:
        """News of a running tool, a line of its output."""
        return self.output({**params, "delta": f"{text_in(params, 'message')}\n"}, parent)

    def patched(self, params: JsonObject, parent: str | None) -> bool:
        """The files of a running change, as they are now."""
        name = text_in(params, "itemId")
        if name:
            self._changes[name] = paths_of(params)
        return bool(name)

    # -- raw calls -------------------------------------------------------------------------------------------------

    def raw(self, params: JsonObject, parent: str | None) -> bool:
        """A raw item of the conversation: a call, an output, or something else."""
        item = object_in(params, "item")
        kind, name = text_in(item, "type"), text_in(item, "call_id")
        if kind in CALLS and name:
            call, before = call_of(item), self._calls.get(name)
            # Said twice, it is as plain as the less plain of the two.
            self._calls[name] = call if before is None or before.plain else before
            if name not in self._items:
                self._unanswered[name] = parent
        elif kind in OUTPUTS:
            self._answers.add(name)
            self._output(name, item)
        return bool(kind)

    def _output(self, name: str, item: JsonObject) -> None:
        if name in self._unanswered:
            self._answered(name, self._unanswered.pop(name), answer_of(item))
        elif name in self._running and name in self._calls:
            # A command that was asked about is begun as an item, and never ended when the sandbox stops it (observed).
            answer = answer_of(item)
            if self._calls[name].shell and answer.status == "failed":
                self._answered(name, self._running.pop(name).parent, answer)

    def _answered(self, name: str, parent: str | None, answer: Answer) -> None:
        call = self._calls[name]
        if answer.refusal == "caller":
            self._declined.add(name)
        elif answer.refusal == "engine" or (call.shell and answer.exit_code):
            self._refuse(name, call.title, answer.output)
        self._emit(call.event(name, answer.status, answer.output, answer.exit_code, parent))

    def _refuse(self, name: str, title: str, output: str) -> None:
        self._refused[name] = redact(f"{title}: {one_line(output)}")

    def end(self) -> None:
        """The turn is over: calls that nobody answered failed."""
        for name, parent in self._unanswered.items():
            self._emit(self._calls[name].event(name, "failed", "", None, parent))
        self._unanswered.clear()


def _count(steps: dict[str, str] | dict[str, ToolEvent] | set[str]) -> str:
    return "1 step was" if len(steps) == 1 else f"{len(steps)} steps were"
