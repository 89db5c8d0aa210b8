"""The engine's messages in, events and one outcome out. Pure: it waits for nothing, and nothing raises.

A `result` ends a turn and not always the run: a message that was sent meanwhile gets a turn of its own, and so does the
end of a sub-agent in the background. The engine says `idle` when it owes no further turn; that, behind a result, is the
end. An engine that says no states ends with its result, and so does an error.

Costs and `modelUsage` are sums over the process, and with them over the run (observed, 2.1.332); `usage` is of one turn
and leaves sub-agents out, so that it is not used.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from subagent_claude_code import _tools
from subagent_claude_code._failures import Ending, ending_of
from subagents import Event, Evidence, NoticeEvent, Result, TextEvent, ThoughtEvent, ToolEvent, Usage, UsageEvent
from subagents.backend.values import JsonObject, number_in, object_in, objects_in, one_line, text_in

_QUIET: Final = frozenset(
    """
    status thinking_tokens compact_boundary hook_started hook_progress hook_response files_persisted
    task_started task_updated task_progress task_notification background_tasks_changed
    """.split()  # noqa: SIM905  # one word beside the other is easier to read
)
"""Of `system` messages: what says nothing to a follower that the steps do not say."""
_DELTAS: Final = {"text_delta": "text", "thinking_delta": "thinking"}
_TOKENS: Final = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")


class Turn:
    """What is known of one run.

    Attributes:
        session: the engine's name of the conversation.
        model: that answers.
        accepted: the engine has taken the task.
        results: how many turns have ended.
        heard: how many messages have come.
        over: no further turn is owed.
    """

    def __init__(
        self,
        emit: Callable[[Event], object],
        *,
        accepted: Callable[[], object],
        ended: Callable[[], object],
        over: Callable[[], object],
        asked_tools: tuple[str, ...] = (),
    ) -> None:
        """`accepted`, `over`: told once each; `ended`: at each result. `asked_tools`: what the task wants to use."""
        self._emit, self._tell_accepted, self._tell_ended, self._tell_over = emit, accepted, ended, over
        self._asked_tools = asked_tools
        self.session: str | None = None
        self.model: str | None = None
        self.accepted = self.over = False
        self.results = self.heard = 0
        self._sent = 1  # messages of ours
        self._state = ""
        self._result: JsonObject = {}
        self._word = ""
        self._reset: float | None = None
        self._message = ""  # id of the one that is streamed
        self._streamed: set[str] = set()
        self._steps: dict[str, ToolEvent] = {}
        self._denied: set[str] = set()
        self._notes: tuple[str, ...] = ()
        self._unknown: set[str] = set()

    @property
    def usage(self) -> Usage:
        """Tokens so far; what was read from a cache or written to one counts as input too."""
        found = object_in(self._result, "modelUsage")
        models = [object_in(found, name) for name in found]
        if not models:
            return Usage()

        def total(*names: str) -> int:
            return sum(number_in(model, name) or 0 for model in models for name in names)

        return Usage(
            total(*_TOKENS), total("outputTokens"), total("cacheReadInputTokens"), total("cacheCreationInputTokens"),
            total("thinkingTokens"),
        )  # fmt: skip

    @property
    def cost(self) -> float | None:
        """US dollars so far, as the engine reckons."""
        value = self._result.get("total_cost_usd")
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def sent(self) -> None:
        """A further message went out."""
        self._sent += 1

    @property
    def pending(self) -> bool:
        """A message of ours has had no turn yet."""
        return self.results < self._sent

    def finish(self, note: str = "") -> None:
        """Nothing more comes; `note` is for the evidence."""
        if note:
            self._notes += (note,)
        if not self.over:
            self.over = True
            self._tell_over()

    def told(self, message: JsonObject) -> None:
        """One message of the engine."""
        self.heard += 1
        kind = text_in(message, "type")
        handler = {
            "system": self._system,
            "stream_event": self._delta,
            "assistant": self._assistant,
            "user": self._user,
            "result": self._ended,
            "rate_limit_event": self._rate,
        }.get(kind)
        if handler is None:
            self._not_known(kind)
        else:
            handler(message)

    def outcome(self, now: datetime) -> Result:
        """The verdict of the last result; `now` is aware, in the zone in which the engine writes clock times."""
        result = self._result
        ending = self.ending(now)
        failed = result.get("is_error") is True
        reason = text_in(result, "terminal_reason")
        refused = len(self._denied)
        refusals = (f"{refused} step{'' if refused == 1 else 's'} refused",) if refused else ()
        return Result(
            ending.stop,
            "" if failed else text_in(result, "result"),  # of an error it is the engine's words, and no answer
            None if failed else result.get("structured_output"),
            ending.failure,
            self.usage,
            self.cost,
            self.session,
            self.model,
            evidence=Evidence(
                terminal=f"result/{text_in(result, 'subtype')} {reason}".rstrip(), notes=(*refusals, *self._notes)
            ),
        )

    def ending(self, now: datetime) -> Ending:
        """Why it ended."""
        return ending_of(self._result, word=self._word, reset=self._reset, now=now)

    # -- one kind each -------------------------------------------------------------------------------------------------

    def _system(self, message: JsonObject) -> None:
        subtype = text_in(message, "subtype")
        if subtype == "init":
            self._begun(message)
        elif subtype == "session_state_changed":
            self._changed(text_in(message, "state"))
        elif subtype == "api_retry":
            attempt, most = number_in(message, "attempt"), number_in(message, "max_retries")
            why = text_in(message, "error") or "an error"
            self._emit(NoticeEvent(f"attempt {attempt} of {most} failed: {one_line(why)}", "retry", "warning"))
        elif subtype == "permission_denied":
            self._denied.add(text_in(message, "tool_use_id"))
            why = text_in(message, "decision_reason") or text_in(message, "message")
            self._emit(NoticeEvent(one_line(f"{text_in(message, 'tool_name')} was refused: {why}"), "refused"))
        elif subtype == "informational":
            self._emit(NoticeEvent(one_line(text_in(message, "content")), subtype))
        elif subtype not in _QUIET:
            self._not_known(f"system/{subtype}")

    def _begun(self, message: JsonObject) -> None:
        if self.accepted:  # again at every turn
            return
        self.accepted = True
        self.session, self.model = text_in(message, "session_id") or None, text_in(message, "model") or None
        self._tell_accepted()
        offered = message.get("tools")
        if isinstance(offered, list) and (missing := [tool for tool in self._asked_tools if tool not in offered]):
            names = ", ".join(missing)
            self._emit(NoticeEvent(f"Claude Code does not offer to this model: {names}", "tools", "warning"))

    def _changed(self, state: str) -> None:
        self._state = state
        if state == "idle" and self.results and not self.pending:
            self.finish()

    @property
    def resting(self) -> bool:
        """The engine owes no turn, although a message of ours may be on its way."""
        return self._state == "idle" and self.results > 0

    def _delta(self, message: JsonObject) -> None:
        event = object_in(message, "event")
        if text_in(event, "type") == "message_start":
            self._message = text_in(object_in(event, "message"), "id")
        delta = object_in(event, "delta")
        if (name := _DELTAS.get(text_in(delta, "type"))) is None or not (text := text_in(delta, name)):
            return
        self._streamed.add(self._message)
        kind = TextEvent if name == "text" else ThoughtEvent
        self._emit(kind(text, self._message, _parent(message)))

    def _assistant(self, message: JsonObject) -> None:
        said, parent = object_in(message, "message"), _parent(message)
        if word := text_in(message, "error"):
            self._word = word
            return  # written by the engine and not by a model: never an answer
        name = text_in(said, "id")
        for block in objects_in(said, "content"):
            kind = text_in(block, "type")
            if kind == "tool_use":
                step = self._steps[text_in(block, "id")] = _tools.begun(block, parent)
                self._emit(step)
                if (plan := _tools.plan_of(block)) is not None and parent is None:
                    self._emit(plan)
            elif name not in self._streamed and (text := text_in(block, kind)):
                if kind == "text":
                    self._emit(TextEvent(text, name, parent))
                elif kind == "thinking":
                    self._emit(ThoughtEvent(text, name, parent))

    def _user(self, message: JsonObject) -> None:
        for block in objects_in(object_in(message, "message"), "content"):
            step = self._steps.pop(text_in(block, "tool_use_id"), None)
            if step is not None and text_in(block, "type") == "tool_result":
                self._emit(_tools.ended(step, block))
        for meta in objects_in(message, "tool_result_meta"):
            if text_in(object_in(meta, "permission_decision"), "decision") == "reject":
                self._denied.add(text_in(meta, "id"))

    def _rate(self, message: JsonObject) -> None:
        info = object_in(message, "rate_limit_info")
        status, resets = text_in(info, "status"), number_in(info, "resetsAt")
        if status == "rejected" and info.get("isUsingOverage") is not True:
            self._reset = None if resets is None else float(resets)
        if status not in ("", "allowed"):
            limit = text_in(info, "rateLimitType") or "usage"
            self._emit(NoticeEvent(one_line(f"the {limit} limit: {status}"), "rate-limit", "warning", dict(info)))

    def _ended(self, message: JsonObject) -> None:
        self.results += 1
        self._result = message
        self.session = self.session or text_in(message, "session_id") or None
        self._emit(UsageEvent(self.usage, self.cost))
        self._tell_ended()
        if message.get("is_error") is True or self._state == "" or (self._state == "idle" and not self.pending):
            self.finish()

    def _not_known(self, name: str) -> None:
        if name not in self._unknown and len(self._unknown) < 100:
            self._unknown.add(name)
            self._emit(NoticeEvent(f"Claude Code said something of the unknown kind {one_line(name)}", "unknown"))


def _parent(message: JsonObject) -> str | None:
    return text_in(message, "parent_tool_use_id") or None
