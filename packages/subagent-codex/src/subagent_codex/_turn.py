"""One turn of one thread: notifications in, events and one outcome out. No I/O and no event loop.

What ends a turn is `turn/completed` of this turn, and nothing else: not an `error`, not an idle thread, not a final
answer. The answer is the last message whose phase is `final_answer`, else the last without a phase (older models give
none), else the last; the engine names the same in `turn/completed` (observed, 0.163.0 and 0.171.0).

Traps:

- Threads of sub-agents speak on the same wire: their events have a `parent`, and never are the answer.
- A stream that is cut is repeated: the partial message is completed once per attempt, each time as a new item. The
  earlier ones were told, and are no candidates for the answer any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final, Literal

from subagent_codex._failures import failure_of_turn
from subagent_codex._notices import NOTICES, PASSED, Limits, notice, retry_notice
from subagent_codex._said import Said, Text
from subagent_codex._steps import Steps
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
    Usage,
    UsageEvent,
)
from subagents.backend.values import JsonObject, object_in, objects_in, one_line, text_in, texts_in

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
        self._emit, self._on_accepted, self._on_ended = emit, accepted, ended
        self._outcome: Result | None = None
        self._said, self._meter, self._limits = Said(), Meter(), Limits()
        self._steps = Steps(emit, cwd)
        self._model: str | None = None  # only where it is another one than was asked for
        self._error: JsonObject = {}  # the last one that was said
        self._retrying = False
        self._last: Text | None = None
        self._last_item = ""
        self._handlers: dict[str, Callable[[JsonObject, str | None], bool]] = {
            "item/started": self._item_started,
            "item/completed": self._item_completed,
            "item/reasoning/summaryTextDelta": self._thought,
            "item/reasoning/textDelta": self._thought,
            "item/reasoning/summaryPartAdded": self._thought_part,
            "item/commandExecution/outputDelta": self._steps.output,
            "item/mcpToolCall/progress": self._steps.progress,
            "item/fileChange/patchUpdated": self._steps.patched,
            "rawResponseItem/completed": self._steps.raw,
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
        if method == _DELTA:  # the one that comes by the thousand: nothing is done twice for it
            item, delta, text = params.get("itemId"), params.get("delta"), self._last
            if type(item) is not str or type(delta) is not str:
                self._strange(method)
                return
            if text is None or item != self._last_item:
                text = self._last = self._said.open(TextEvent, item, self._parent(params))
                self._last_item = item
            text.parts.append(delta)
            self._emit(TextEvent(delta, text.id, text.parent))
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
    def busy(self) -> bool:
        """A step is being taken, or the model is speaking: silence is then not that of a request to the model."""
        return self._steps.busy or self._said.speaking

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
        found = list(self._steps.notes)
        if self._error and not self.ended:
            said = redact(one_line(": ".join(filter(None, (text_in(self._error, n) for n in _WORDS)))))
            found.append(f"the engine {'was repeating a request' if self._retrying else 'reported an error'}: {said}")
        return tuple(found)

    def escalates(self, item_id: str) -> bool:
        """Whether a command that is asked about may go beyond the sandbox.

        True unless the raw call of that id is known, and plain: only that tells the two apart (observed: both are
        asked about with the same parameters). A command inside the script of code mode has no raw call of its own.
        """
        return self._steps.escalates(item_id)

    def change_paths(self, item_id: str) -> tuple[str, ...]:
        """The files of a `fileChange` that was started, as the engine wrote them; empty when they are not known."""
        return self._steps.change_paths(item_id)

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
            if text_in(item, "type") == "agentMessage" and text_in(item, "id"):  # normally told long ago
                self._message_over(item, None)
        self._steps.end()
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

    def _recovered(self) -> None:
        if self._retrying:
            self._error, self._retrying = {}, False

    # -- items -----------------------------------------------------------------------------------------------------

    def _item_started(self, params: JsonObject, parent: str | None) -> bool:
        item = object_in(params, "item")
        kind, name = text_in(item, "type"), text_in(item, "id")
        if not name or not kind:
            return False
        if parent is None:
            self._recovered()
        if kind == "agentMessage":
            self._said.open(TextEvent, name, parent, text_in(item, "phase"))
        elif kind not in _SILENT and kind not in ("reasoning", "plan", "contextCompaction"):
            self._steps.item(item, parent, over=False)
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
            self._steps.item(item, parent, over=True)
        return True

    def _message_over(self, item: JsonObject, parent: str | None) -> None:
        name, whole = text_in(item, "id"), text_in(item, "text")
        self._tell(self._said.close(TextEvent, name, parent, whole, text_in(item, "phase")))
        self._last = None

    def _tell(self, event: Event | None) -> None:
        if event is not None:
            self._emit(event)

    def _thought(self, params: JsonObject, parent: str | None) -> bool:
        item, delta = text_in(params, "itemId"), params.get("delta")
        if not item or not isinstance(delta, str):
            return False
        self._emit(self._said.open(ThoughtEvent, item, parent).piece(delta))
        return True

    def _thought_part(self, params: JsonObject, parent: str | None) -> bool:
        text = self._said.find(text_in(params, "itemId"), parent)
        if text is not None and text.parts:
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

    # -- the rest --------------------------------------------------------------------------------------------------

    def _used(self, params: JsonObject, parent: str | None) -> bool:
        usage = object_in(params, "tokenUsage")
        other = self.id is not None and text_in(params, "turnId") not in ("", self.id)
        earlier = parent is None and (other or not self.accepted)
        if parent is None:
            self._said.responded()
            self._recovered()
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
        return self._steps.maker_of(thread) if isinstance(thread, str) else "?"

    def _strange(self, method: str) -> None:
        if method not in self.unknown and len(self.unknown) >= _UNKNOWN:
            method = "…"
        self.unknown[method] += 1
        if self.unknown[method] == 1:
            text = one_line(f"a notification that is not known in this shape: {method}")
            self._emit(NoticeEvent(text, "unknown", data={"method": method[:200]}))


_WORDS: Final = ("message", "additionalDetails")
