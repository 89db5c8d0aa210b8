"""One turn of one thread: notifications in, events and one outcome out. No I/O and no event loop.

What ends a turn is `turn/completed` of this turn, and nothing else: not an `error`, not an idle thread, not a final
answer. The answer is the last message whose phase is `final_answer`, else the last without a phase (older models give
none), else the last; the engine names the same in `turn/completed` (observed, 0.163.0 and 0.171.0).

Traps:

- Threads of sub-agents speak on the same wire: their events have a `parent`, and never are the answer.
- A stream that is cut is repeated: the partial message is completed once per attempt, each time as a new item. The
  earlier ones were told, and are no candidates for the answer any more.
- Raw calls and items come in any order. A call is told from its raw output only when no item of that id was seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final, Literal

from subagent_codex._calls import CALLS, OUTPUTS, Call, answer_of, call_of
from subagent_codex._failures import failure_of_turn
from subagent_codex._items import agents_of, paths_of, step
from subagent_codex._messages import JsonObject, object_in, objects_in, one_line, tail, text_in, texts_in
from subagent_codex._notices import NOTICES, PASSED, Limits, notice, retry_notice
from subagent_codex._said import Said, Text
from subagent_codex._usage import Meter
from subagent_process import redact
from subagents import (
    Event,
    Evidence,
    Failure,
    NoticeEvent,
    PlanEntry,
    PlanEvent,
    Result,
    TextEvent,
    ThoughtEvent,
    ToolEvent,
    Usage,
    UsageEvent,
)

_PLAN: Final[dict[str, Literal["in_progress", "completed"]]] = {"inProgress": "in_progress", "completed": "completed"}
_SILENT: Final = frozenset({"userMessage", "hookPrompt", "enteredReviewMode", "exitedReviewMode"})
_UNKNOWN: Final = 32  # different methods of which a notice is given
_DELTA: Final = "item/agentMessage/delta"


class Turn:
    """The turn of a run.

    Attributes:
        thread: the id of its thread, set by whoever opened that; notifications of others are those of sub-agents.
        id: of the turn, from `turn/started` or the answer to `turn/start`, whichever came first.
        accepted: the engine has taken the task.
        ended: `turn/completed` has come, and there is an `outcome`.
        unknown: how often which notification came that is not known here, or not in this shape.
    """

    def __init__(
        self,
        emit: Callable[[Event], object],
        *,
        accepted: Callable[[], object],
        ended: Callable[[], object],
        cwd: str,
    ) -> None:
        """`accepted` and `ended` are called once each, when the attribute of that name turns true."""
        self.thread: str | None = None
        self.id: str | None = None
        self.accepted = self.ended = False
        self.unknown: Counter[str] = Counter()
        self._emit, self._on_accepted, self._on_ended, self._cwd = emit, accepted, ended, cwd
        self._outcome: Result | None = None
        self._said, self._meter, self._limits = Said(), Meter(), Limits()
        self._model: str | None = None  # only where it is another one than was asked for
        self._error: JsonObject = {}  # the last one that was said
        self._retrying = False
        self._steps: dict[str, ToolEvent] = {}  # those that run
        self._items: set[str] = set()  # ids of all items that were no messages
        self._changes: dict[str, tuple[str, ...]] = {}
        self._calls: dict[str, Call] = {}
        self._unanswered: dict[str, str | None] = {}  # calls without an output, and their parent
        self._agents: dict[str, str] = {}  # thread of a sub-agent to the step that made it
        self._refused: dict[str, str] = {}  # by the engine: call to what it was
        self._declined: set[str] = set()  # by whoever was asked
        self._last: Text | None = None
        self._last_item = ""
        self._handlers: dict[str, Callable[[JsonObject, str | None], bool]] = {
            "item/started": self._item_started,
            "item/completed": self._item_completed,
            "item/reasoning/summaryTextDelta": self._thought,
            "item/reasoning/textDelta": self._thought,
            "item/reasoning/summaryPartAdded": self._thought_part,
            "item/commandExecution/outputDelta": self._output,
            "item/mcpToolCall/progress": self._progress,
            "item/fileChange/patchUpdated": self._patched,
            "rawResponseItem/completed": self._raw,
            "thread/tokenUsage/updated": self._used,
            "turn/plan/updated": self._planned,
            "turn/started": self._started,
            "turn/completed": self._completed,
            "error": self._failed,
            "model/rerouted": self._rerouted,
            "account/rateLimits/updated": self._limited,
        }

    # -- what the session says -------------------------------------------------------------------------------------

    def begin(self, turn_id: str) -> None:
        """The answer to `turn/start`: the engine has taken the task. It may come after the end of the turn."""
        if not self.ended and turn_id:
            self.id = turn_id
        self._accept()

    def notified(self, method: str, params: JsonObject) -> None:
        """Take one notification. Never raises, whatever its values are."""
        if method == _DELTA:  # the one that comes by the thousand
            item, delta = params.get("itemId"), params.get("delta")
            if type(item) is not str or type(delta) is not str:
                self._strange(method)
                return
            if item != self._last_item or self._last is None:
                self._last = self._said.open(TextEvent, item, self._parent(params))
                self._last_item = item
            self._emit(self._last.piece(delta))
            return
        handler = self._handlers.get(method)
        if handler is not None:
            if not handler(params, self._parent(params)):
                self._strange(method)
        elif method in NOTICES or method in ("hook/completed", "mcpServer/startupStatus/updated"):
            told = notice(method, params)
            if told is not None:
                self._emit(told)
        elif method not in PASSED:
            self._strange(method)

    # -- what the session asks -------------------------------------------------------------------------------------

    def outcome(self) -> Result:
        """The verdict of `turn/completed`; `completed` also without an answer, which others judge."""
        assert self._outcome is not None, "the turn has not ended"
        return self._outcome

    @property
    def text(self) -> str:
        """The answer as far as it came, for an ending from elsewhere."""
        return self._said.so_far

    @property
    def usage(self) -> Usage:
        """Tokens of the turn so far, its sub-agents included."""
        return self._meter.usage

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the verdict should know, one sentence each."""
        found: list[str] = []
        if count := len(self._refused):
            last = next(reversed(self._refused.values()))
            found.append(f"{_steps(count)} refused by the engine, its sandbox or its rules; the last: {last}")
        if count := len(self._declined):
            found.append(f"{_steps(count)} declined when the engine asked for permission")
        if self._error and not self.ended:
            said = redact(one_line(": ".join(filter(None, (text_in(self._error, n) for n in _WORDS)))))
            found.append(f"the engine {'was repeating a request' if self._retrying else 'reported an error'}: {said}")
        return tuple(found)

    def escalates(self, item_id: str) -> bool:
        """Whether a command that is asked about may go beyond the sandbox.

        True unless the raw call of that id is known, and plain: only that tells the two apart (observed: both are
        asked about with the same parameters). A command inside the script of code mode has no raw call of its own.
        """
        call = self._calls.get(item_id)
        return call is None or not call.plain

    def change_paths(self, item_id: str) -> tuple[str, ...]:
        """The files of a `fileChange` that was started, as the engine wrote them; empty when they are not known."""
        return self._changes.get(item_id, ())

    # -- the turn --------------------------------------------------------------------------------------------------

    def _started(self, params: JsonObject, parent: str | None) -> bool:
        if parent is None:
            self.id = self.id or text_in(object_in(params, "turn"), "id") or None
            self._accept()
        return True

    def _accept(self) -> None:
        if not self.accepted:
            self.accepted = True
            self._on_accepted()

    def _completed(self, params: JsonObject, parent: str | None) -> bool:
        turn = object_in(params, "turn")
        named = turn.get("id")
        if parent is not None or self.ended or (None not in (self.id, named) and self.id != named):
            return True
        if not turn:
            return False
        self.id = self.id or text_in(turn, "id") or None
        self._accept()
        for item in objects_in(turn, "items"):
            if text_in(item, "type") == "agentMessage":  # normally told long ago
                self._message_over(item, None)
        self._leave_calls()
        self.ended = True
        self._outcome = self._verdict(turn)
        self._on_ended()
        return True

    def _verdict(self, turn: JsonObject) -> Result:
        status, error = text_in(turn, "status"), object_in(turn, "error") or self._error
        evidence = Evidence(terminal="turn/completed", notes=self.notes)
        if status == "completed":
            return self._result(Result.completed(self._said.answer, evidence=evidence))
        if status == "interrupted":
            if said := redact(one_line(text_in(error, "message"))):
                evidence = replace(evidence, notes=(*evidence.notes, f"the engine said: {said}"))
            return self._result(Result("aborted", self.text, evidence=evidence))
        if status == "failed":
            ending = failure_of_turn(error, now=datetime.now().astimezone(), reset=self._limits.reset)
            return self._result(Result(ending.stop, self.text, failure=ending.failure, evidence=evidence))
        reason = (
            f"codex ended the turn with the status {status[:80]!r}, which is not known. To do: use the tested version."
        )
        return self._result(Result.error(Failure("protocol", "run", reason), output=self.text, evidence=evidence))

    def _result(self, result: Result) -> Result:
        return replace(result, usage=self.usage, session=self.thread, model=self._model)

    def _failed(self, params: JsonObject, parent: str | None) -> bool:
        error = object_in(params, "error")
        if params.get("willRetry") is True:
            if parent is None:
                self._said.retried()
                self._last = None
                self._error, self._retrying = error, True
            self._emit(retry_notice(error))
        elif parent is None:
            self._error, self._retrying = error, False
        else:
            self._emit(replace(retry_notice(error), code="error"))
        return bool(error)

    # -- items -----------------------------------------------------------------------------------------------------

    def _item_started(self, params: JsonObject, parent: str | None) -> bool:
        item = object_in(params, "item")
        kind, name = text_in(item, "type"), text_in(item, "id")
        if not name or not kind:
            return False
        if kind == "agentMessage":
            self._said.open(TextEvent, name, parent, text_in(item, "phase"))
        elif kind not in _SILENT and kind not in ("reasoning", "plan", "contextCompaction"):
            self._step(item, parent, over=False)
        return True

    def _item_completed(self, params: JsonObject, parent: str | None) -> bool:
        item = object_in(params, "item")
        kind = text_in(item, "type")
        if not text_in(item, "id") or not kind:
            return False
        if kind == "agentMessage":
            self._message_over(item, parent)
        elif kind == "reasoning":
            whole = "\n\n".join(texts_in(item, "summary") or texts_in(item, "content"))
            self._tell(self._said.close(ThoughtEvent, text_in(item, "id"), parent, whole, ""))
        elif kind == "plan":
            lines = (line.strip().lstrip("-*").strip() for line in text_in(item, "text").splitlines())
            self._emit(PlanEvent(tuple(PlanEntry(one_line(line)) for line in lines if line)))
        elif kind == "contextCompaction":
            self._emit(NoticeEvent("the engine replaced the conversation so far by a summary", "compacted"))
        elif kind not in _SILENT:
            self._step(item, parent, over=True)
        return True

    def _message_over(self, item: JsonObject, parent: str | None) -> None:
        name, whole = text_in(item, "id"), text_in(item, "text")
        self._tell(self._said.close(TextEvent, name, parent, whole, text_in(item, "phase")))
        self._last = None

    def _tell(self, event: Event | None) -> None:
        if event is not None:
            self._emit(event)

    def _step(self, item: JsonObject, parent: str | None, *, over: bool) -> None:
        event = step(item, over=over, cwd=self._cwd, parent=parent)
        name = text_in(item, "id")
        self._items.add(name)
        self._unanswered.pop(name, None)
        self._refused.pop(name, None)
        if text_in(item, "type") == "fileChange":
            self._changes[name] = paths_of(item)
        for agent in agents_of(item):
            self._agents.setdefault(agent, event.id)
        if over:
            self._steps.pop(event.id, None)
            if item.get("status") == "declined":
                self._declined.add(name)
        else:
            self._steps[event.id] = event
        self._emit(event)

    def _output(self, params: JsonObject, parent: str | None) -> bool:
        event, delta = self._steps.get(text_in(params, "itemId")), params.get("delta")
        if event is not None and isinstance(delta, str):
            event = self._steps[event.id] = replace(event, output=tail(event.output + delta))
            self._emit(event)
        return isinstance(delta, str)

    def _progress(self, params: JsonObject, parent: str | None) -> bool:
        return self._output({**params, "delta": f"{text_in(params, 'message')}\n"}, parent)

    def _patched(self, params: JsonObject, parent: str | None) -> bool:
        if name := text_in(params, "itemId"):
            self._changes[name] = paths_of(params)
        return bool(name)

    def _thought(self, params: JsonObject, parent: str | None) -> bool:
        item, delta = text_in(params, "itemId"), params.get("delta")
        if not item or not isinstance(delta, str):
            return False
        self._emit(self._said.open(ThoughtEvent, item, parent).piece(delta))
        return True

    def _thought_part(self, params: JsonObject, parent: str | None) -> bool:
        text = self._said.find(text_in(params, "itemId"))
        if text is not None and text.whole:
            self._emit(text.piece("\n\n"))
        return True

    def _planned(self, params: JsonObject, parent: str | None) -> bool:
        entries = (
            PlanEntry(text_in(entry, "step"), _PLAN.get(text_in(entry, "status"), "pending"))
            for entry in objects_in(params, "plan")
        )
        if parent is None:
            self._emit(PlanEvent(tuple(entries)))
        return isinstance(params.get("plan"), list)

    # -- raw calls -------------------------------------------------------------------------------------------------

    def _raw(self, params: JsonObject, parent: str | None) -> bool:
        item = object_in(params, "item")
        kind, name = text_in(item, "type"), text_in(item, "call_id")
        if kind in CALLS and name:
            call, before = call_of(item), self._calls.get(name)
            # Said twice, it is as plain as the less plain of both.
            self._calls[name] = call if before is None or before.plain or not call.plain else before
            if name not in self._items:
                self._unanswered[name] = parent
        elif kind in OUTPUTS and name in self._unanswered:
            self._answered(name, self._unanswered.pop(name), item)
        return bool(kind)

    def _answered(self, name: str, parent: str | None, item: JsonObject) -> None:
        call, answer = self._calls[name], answer_of(item)
        if answer.refusal == "caller":
            self._declined.add(name)
        elif answer.refusal == "engine" or (call.shell and answer.exit_code):
            self._refused[name] = redact(f"{call.title}: {one_line(answer.output)}")
        self._emit(call.event(name, answer.status, answer.output, answer.exit_code, parent))

    def _leave_calls(self) -> None:
        for name, parent in self._unanswered.items():
            self._emit(self._calls[name].event(name, "failed", "", None, parent))
        self._unanswered.clear()

    # -- the rest --------------------------------------------------------------------------------------------------

    def _used(self, params: JsonObject, parent: str | None) -> bool:
        usage = object_in(params, "tokenUsage")
        earlier = parent is None and not self.accepted
        if parent is None:
            self._said.responded()
        if self._meter.read(text_in(params, "threadId"), usage, earlier=earlier):
            self._emit(UsageEvent(self.usage))
        return bool(usage)

    def _rerouted(self, params: JsonObject, parent: str | None) -> bool:
        model = text_in(params, "toModel")
        if model and parent is None:
            self._model = model
        reason = (
            f"the model {model} answers in the place of {text_in(params, 'fromModel')}: {text_in(params, 'reason')}"
        )
        self._emit(NoticeEvent(one_line(reason), "model/rerouted", "warning"))
        return bool(model)

    def _limited(self, params: JsonObject, parent: str | None) -> bool:
        self._tell(self._limits.read(params))
        return True

    def _parent(self, params: JsonObject) -> str | None:
        """The step whose sub-agent speaks; None when it is the thread of the run itself."""
        thread = params.get("threadId")
        if thread is None or self.thread is None or thread == self.thread:
            return None
        return self._agents.get(thread, thread) if isinstance(thread, str) else "?"

    def _strange(self, method: str) -> None:
        if method not in self.unknown and len(self.unknown) >= _UNKNOWN:
            method = "…"
        self.unknown[method] += 1
        if self.unknown[method] == 1:
            text = one_line(f"a notification that is not known in this shape: {method}")
            self._emit(NoticeEvent(text, "unknown", data={"method": method[:200]}))


_WORDS: Final = ("message", "additionalDetails")


def _steps(count: int) -> str:
    return "1 step was" if count == 1 else f"{count} steps were"
