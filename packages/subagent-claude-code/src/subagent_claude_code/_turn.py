"""The engine's messages in, events and one outcome out. Pure: it waits for nothing, and nothing raises.

A `result` ends a turn and not always the run: a message that was sent meanwhile may get a turn of its own, and so does
the end of a sub-agent in the background (`_owed`). The engine says `idle` when it owes no further turn; that, behind a
result and with no message unanswered, is the end. An engine that says no states ends with the result of the last
message, and an error ends the run: nothing that comes behind it counts.

`modelUsage` and `total_cost_usd` are sums over the session, earlier runs of a resumed one included (observed, 2.1.332);
what this run took is the sum of `model_usage_since_last_result`. `usage` is of one turn and leaves sub-agents out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import ClassVar, Final

from subagent_claude_code import _tools
from subagent_claude_code._failures import Ending, ending_of, has_failed
from subagent_claude_code._names import present_name, server_of
from subagent_claude_code._owed import Owed
from subagent_claude_code._plan import Plan
from subagents import Event, Evidence, NoticeEvent, Result, TextEvent, ThoughtEvent, ToolEvent, Usage, UsageEvent
from subagents.backend.values import (
    JsonObject,
    amount_in,
    number_in,
    object_in,
    objects_in,
    one_line,
    text_in,
    texts_in,
)

_QUIET: Final = frozenset(
    """
    status thinking_tokens compact_boundary command_lifecycle hook_started hook_progress hook_response files_persisted
    task_started task_updated task_progress task_notification background_tasks_changed
    """.split()  # noqa: SIM905  # one word beside the other is easier to read
)
"""Kinds of messages, and of `system` ones, that say nothing to a follower that the steps do not say."""
_WORK: Final = frozenset({"stream_event", "assistant", "user"})
"""Messages that a turn is made of."""
_DELTAS: Final = {"text_delta": "text", "thinking_delta": "thinking"}
_WELL: Final = frozenset({"connected", "disabled"})
"""Of the states of MCP servers: none to tell of. One that is `pending` when a turn begins has not answered in time."""
_TOKENS: Final = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")


class Turn:
    """What is known of one run.

    Attributes:
        session: the engine's name of the conversation.
        model: that answers.
        accepted: the engine has taken the task.
        owed: which turns it owes us.
        heard: how many messages have come.
        over: no further turn is owed.
    """

    def __init__(
        self,
        emit: Callable[[Event], object],
        *,
        accepted: Callable[[], object],
        ended: Callable[[], object],
        rests: Callable[[], object],
        over: Callable[[], object],
        asked_tools: tuple[str, ...] = (),
        asked_servers: tuple[str, ...] = (),
    ) -> None:
        """Nothing has come yet.

        Args:
            emit: what is to be told.
            accepted: told once.
            ended: told at each result.
            rests: told when the engine is at nothing, although a message of ours has no answer yet.
            over: told when no further turn is owed; again after `sent`.
            asked_tools: what the task wants to use.
            asked_servers: MCP servers that it was told of.
        """
        self._emit, self._tell_accepted, self._tell_ended = emit, accepted, ended
        self._tell_rests, self._tell_over = rests, over
        self._asked_tools, self._asked_servers = asked_tools, asked_servers
        self.session: str | None = None
        self.model: str | None = None
        self.accepted = self.over = self._final = False
        self.heard = 0
        self.owed = Owed()
        self._result: JsonObject = {}
        self._models: list[JsonObject] | None = []  # what each result says of each model; None: they do not say it
        self._word = ""
        self._reset: object = None  # `resetsAt`, as it came
        self._message = ""  # id of the one that is streamed
        self._streamed: set[str] = set()
        self._steps: dict[str, ToolEvent] = {}
        self._plan = Plan()
        self._denied: set[str] = set()
        self._unknown: set[str] = set()

    @property
    def usage(self) -> Usage:
        """Tokens so far; what was read from a cache or written to one counts as input too."""
        models = _each(self._result, "modelUsage") if self._models is None else self._models
        if not self.owed.results:
            return Usage()

        def total(*names: str) -> int:
            return sum(max(0, number_in(model, name) or 0) for model in models for name in names)

        return Usage(
            total(*_TOKENS), total("outputTokens"), total("cacheReadInputTokens"), total("cacheCreationInputTokens"),
            total("thinkingTokens"),
        )  # fmt: skip

    @property
    def cost(self) -> float | None:
        """US dollars so far, as the engine reckons."""
        if self._models is not None and self.owed.results:
            costs = [amount_in(model, "costUSD") for model in self._models]
            return float(sum(cost for cost in costs if cost is not None))
        return amount_in(self._result, "total_cost_usd")

    def sent(self, name: str) -> None:
        """A message of ours goes out under this name; a run that only had nothing to do goes on."""
        self.owed.sent(name)
        if self.over and not self._final:
            self.over = False

    @property
    def answered(self) -> bool:
        """The last result is the verdict."""
        return has_failed(self._result) or self.owed.settled

    @property
    def answer(self) -> str:
        """What the last result answered."""
        return "" if has_failed(self._result) else text_in(self._result, "result")

    def finish(self) -> None:
        """Nothing more comes."""
        self._final = True
        self._end()

    def give_up(self) -> None:
        """What the engine has not answered by now is not waited for."""
        self.owed.give_up()
        self._end()

    def _end(self) -> None:
        if not self.over:
            self.over = True
            self._tell_over()

    def told(self, message: JsonObject) -> None:
        """One message of the engine."""
        self.heard += 1
        kind = text_in(message, "type")
        if self.over:
            if kind == "result":
                self._tell_ended()
            return
        if not self.owed.asked and not has_failed(message):
            return  # a turn that the engine began by itself, before it had our task
        if kind in _WORK:
            self.owed.busy = True
        handler = self._HANDLERS.get(kind)
        if handler is not None:
            handler(self, message)
        elif kind not in _QUIET:
            self._not_known(kind)

    def outcome(self, now: datetime) -> Result:
        """The verdict of the last result; `now` is aware, in the zone in which the engine writes clock times."""
        result = self._result
        ending = self.ending(now)
        failed = has_failed(result)
        reason = text_in(result, "terminal_reason")
        return Result(
            ending.stop,
            self.answer,  # of an error it is the engine's words, and no answer
            None if failed else result.get("structured_output"),
            ending.failure,
            self.usage,
            self.cost,
            self.session,
            self.model,
            evidence=Evidence(terminal=f"result/{text_in(result, 'subtype')} {reason}".rstrip(), notes=self.notes),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the verdict should know."""
        refused, unheard = len(self._denied), self.owed.lost
        refusals = (f"{refused} step{'' if refused == 1 else 's'} refused",) if refused else ()
        lost = (f"{unheard} message{'' if unheard == 1 else 's'} got no answer",) if unheard else ()
        return (*refusals, *lost)

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
        elif subtype == "task_notification" and (status := text_in(message, "status")) not in ("", "completed"):
            text = f"a sub-agent or command in the background {status}: {text_in(message, 'summary')}"
            self._emit(NoticeEvent(one_line(text), "background", "warning"))
        elif subtype == "informational":
            self._emit(NoticeEvent(one_line(text_in(message, "content")), subtype))
        elif subtype not in _QUIET:
            self._not_known(f"system/{subtype}")

    def _begun(self, message: JsonObject) -> None:
        self.owed.busy = True
        if self.accepted:  # again at every turn
            return
        self.accepted = True
        self.session, self.model = text_in(message, "session_id") or None, text_in(message, "model") or None
        self._tell_accepted()
        self._told_tools(frozenset(map(present_name, texts_in(message, "tools"))))
        servers = objects_in(message, "mcp_servers")
        for name in sorted(set(self._asked_servers) - {text_in(server, "name") for server in servers}):
            self._emit(NoticeEvent(f"Claude Code did not take the MCP server {name}", "mcp-server", "warning"))
        for server in servers:
            if (status := text_in(server, "status")) not in _WELL:
                text = f"the MCP server {text_in(server, 'name')} is not there: {status}"
                self._emit(NoticeEvent(one_line(text), "mcp-server", "warning"))

    def _told_tools(self, offered: frozenset[str]) -> None:
        asked = [tool for tool in self._asked_tools if server_of(tool) is None]  # the others are told with their server
        if missing := [tool for tool in asked if present_name(tool) not in offered]:
            names = ", ".join(missing)
            self._emit(NoticeEvent(f"Claude Code does not offer to this model: {names}", "tools", "warning"))

    def _changed(self, state: str) -> None:
        self.owed.state(state)
        self._rest()

    def _rest(self) -> None:
        if not self.owed.resting:
            return
        if self.owed.pending:
            self._tell_rests()
        else:
            self._end()

    def _delta(self, message: JsonObject) -> None:
        event = object_in(message, "event")
        delta = object_in(event, "delta")
        if (name := _DELTAS.get(text_in(delta, "type"))) is None:
            if text_in(event, "type") == "message_start":
                self._message = text_in(object_in(event, "message"), "id")
        elif text := text_in(delta, name):
            self._streamed.add(self._message)
            kind = TextEvent if name == "text" else ThoughtEvent
            self._emit(kind(text, self._message, _parent(message)))

    def _assistant(self, message: JsonObject) -> None:
        said, parent = object_in(message, "message"), _parent(message)
        if word := text_in(message, "error"):
            if parent is None:
                self._word = word
            return  # written by the engine and not by a model: never an answer
        name = text_in(said, "id")
        for block in objects_in(said, "content"):
            kind = text_in(block, "type")
            if kind == "tool_use":
                step = self._steps[text_in(block, "id")] = _tools.begun(block, parent)
                self._emit(step)
                if parent is None:
                    self._plan.called(block)
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
                if (plan := self._plan.answered(block, object_in(message, "tool_use_result"))) is not None:
                    self._emit(plan)
        for meta in objects_in(message, "tool_result_meta"):
            if text_in(object_in(meta, "permission_decision"), "decision") == "reject":
                self._denied.add(text_in(meta, "id"))

    def _rate(self, message: JsonObject) -> None:
        info = object_in(message, "rate_limit_info")
        status, limit = text_in(info, "status"), text_in(info, "rateLimitType")
        if status in ("allowed", "allowed_warning"):  # also behind a `rejected`: another model goes on
            self._reset = None
        elif status == "rejected" and info.get("isUsingOverage") is not True:
            self._reset = info.get("resetsAt")
        if status not in ("", "allowed"):  # `rejected` without a type is no quota's: the server has too much to do
            what = f"the {limit} limit: {status}" if limit else f"requests are limited: {status}"
            self._emit(NoticeEvent(one_line(what), "rate-limit", "warning", dict(info)))

    def _ended(self, message: JsonObject) -> None:
        self._result = message
        self.owed.answered(message)
        since = message.get("model_usage_since_last_result")
        if self._models is not None:
            told = isinstance(since, dict)
            self._models = [*self._models, *_each(message, "model_usage_since_last_result")] if told else None
        self.session = self.session or text_in(message, "session_id") or None
        self._emit(UsageEvent(self.usage, self.cost))
        self._tell_ended()
        if has_failed(message):
            self.owed.give_up()
            self.finish()
        self._rest()

    def _not_known(self, name: str) -> None:
        if name not in self._unknown and len(self._unknown) < 100:
            self._unknown.add(name)
            self._emit(NoticeEvent(f"Claude Code said something of the unknown kind {one_line(name)}", "unknown"))

    _HANDLERS: ClassVar[Mapping[str, Callable[..., None]]] = {
        "system": _system,
        "stream_event": _delta,
        "assistant": _assistant,
        "user": _user,
        "result": _ended,
        "rate_limit_event": _rate,
    }  # one table, and not one a message: this runs for every token


def _each(message: JsonObject, name: str) -> list[JsonObject]:
    """The objects in the object of that name."""
    found = object_in(message, name)
    return [object_in(found, key) for key in found]


def _parent(message: JsonObject) -> str | None:
    return text_in(message, "parent_tool_use_id") or None
