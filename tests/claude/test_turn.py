"""Messages of the engine in, events and one outcome out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from subagent_claude_code._turn import Turn
from subagents import (
    Event,
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

NOW = datetime(2026, 11, 30, 22, 0, tzinfo=UTC)


class Watched:
    """A turn, what it told, and how often."""

    def __init__(self, *messages: dict[str, Any], tools: tuple[str, ...] = ()) -> None:
        self.events: list[Event] = []
        self.calls: list[str] = []
        self.turn = Turn(
            self.events.append,
            accepted=lambda: self.calls.append("accepted"),
            ended=lambda: self.calls.append("ended"),
            rests=lambda: self.calls.append("rests"),
            over=lambda: self.calls.append("over"),
            asked_tools=tools,
        )
        self.turn.sent("task")
        self.told(*messages)

    def told(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            self.turn.told(message)

    @property
    def result(self) -> Result:
        return self.turn.outcome(NOW)


INIT: dict[str, Any] = {"type": "system", "subtype": "init", "session_id": "s", "model": "m", "tools": ["Read"]}


def state(word: str) -> dict[str, Any]:
    return {"type": "system", "subtype": "session_state_changed", "state": word}


def result(text: str = "done", **more: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": text, "session_id": "s", **more}


def assistant(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": "msg", "content": list(blocks)}, **more}


def delta(kind: str, text: str, **more: Any) -> dict[str, Any]:
    name = kind.removesuffix("_delta")
    return {
        "type": "stream_event",
        "event": {"type": "content_block_delta", "delta": {"type": kind, name: text}},
        **more,
    }


START = {"type": "stream_event", "event": {"type": "message_start", "message": {"id": "msg"}}}


def call(name: str, given: dict[str, Any], ident: str = "t") -> dict[str, Any]:
    return {"type": "tool_use", "id": ident, "name": name, "input": given}


def answer(content: object, ident: str = "t", **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": ident, "content": content, **more}
    return {"type": "user", "message": {"content": [block]}}


def test_the_first_init_accepts_and_the_idle_behind_a_result_ends() -> None:
    seen = Watched(INIT, state("running"), INIT, result())
    assert seen.calls == ["accepted", "ended"]
    seen.told(state("idle"), state("idle"))
    assert seen.calls == ["accepted", "ended", "over"]
    assert (seen.result.stop_reason, seen.result.output) == ("completed", "done")
    assert (seen.result.session, seen.result.model) == ("s", "m")


def test_an_engine_that_is_idle_already_or_says_no_states_ends_with_its_result() -> None:
    assert Watched(INIT, result()).turn.over
    assert Watched(INIT, state("idle"), result()).turn.over


def test_a_sub_agent_in_the_background_keeps_the_run_open() -> None:
    seen = Watched(INIT, state("running"), result("started it"), result("it is done"), state("idle"))
    assert seen.result.output == "it is done"


def test_a_message_that_was_sent_is_waited_for() -> None:
    seen = Watched(INIT, state("running"))
    seen.turn.sent("b")
    seen.told(result("one"), state("idle"))
    assert not seen.turn.over
    assert seen.calls[-1] == "rests"
    seen.told(state("running"), result("two"), state("idle"))
    assert seen.turn.over
    assert seen.result.output == "two"


def test_a_result_answers_the_messages_that_it_names() -> None:
    seen = Watched(INIT, state("running"))
    seen.turn.sent("b")
    seen.told(result("both", user_message_uuids=["task", "b"]), state("idle"))
    assert seen.turn.over
    assert seen.result.evidence.notes == ()


def test_a_turn_that_nobody_asked_for_answers_no_message() -> None:
    seen = Watched(INIT, state("running"))
    seen.turn.sent("b")
    seen.told(
        result("one", user_message_uuids=["task"]), result("bg", origin={"kind": "task-notification"}), state("idle")
    )
    assert not seen.turn.over
    seen.told(state("running"), INIT, result("two", user_message_uuids=["b"]), state("idle"))
    assert seen.turn.over
    assert seen.result.output == "two"


def test_an_engine_that_names_what_it_answers_answers_nothing_without_a_name() -> None:
    seen = Watched(INIT, state("running"))
    seen.turn.sent("b")
    seen.told(result("one", user_message_uuids=["task"]), result("bg"), state("idle"))
    assert not seen.turn.over
    seen.told(state("running"), result("two", user_message_uuids=["b"]), state("idle"))
    assert seen.result.output == "two"


def test_a_result_is_no_verdict_once_a_further_turn_has_begun() -> None:
    seen = Watched(INIT, state("running"), result("one"))
    assert seen.turn.answered
    seen.told(state("running"))
    assert not seen.turn.answered
    assert seen.turn.answer == "one"


def test_what_comes_behind_an_error_does_not_count() -> None:
    seen = Watched(INIT, state("running"))
    seen.turn.sent("b")
    seen.told(result("no", is_error=True, user_message_uuids=["task"]), result("two", user_message_uuids=["b"]))
    assert seen.result.stop_reason == "error"
    assert seen.result.evidence.notes == ("1 message got no answer",)
    assert seen.calls.count("ended") == 2


def test_a_message_into_an_engine_at_nothing_reopens_the_run_and_one_into_an_end_does_not() -> None:
    seen = Watched(INIT, state("running"), result("one"), state("idle"))
    assert seen.turn.over
    seen.turn.sent("late")
    assert not seen.turn.over
    seen.told(state("running"), result("two"), state("idle"))
    assert seen.result.output == "two"
    seen.turn.finish()
    seen.turn.sent("too late")
    assert seen.turn.over


def test_a_turn_that_the_engine_began_before_it_had_the_task_does_not_count() -> None:
    seen = Watched(INIT, tools=())
    early = Turn(
        seen.events.append,
        accepted=lambda: seen.calls.append("accepted early"),
        ended=bool,
        rests=bool,
        over=lambda: seen.calls.append("over early"),
    )
    for message in (state("running"), INIT, result("of a cron"), state("idle")):
        early.told(message)
    assert not {"accepted early", "over early"} & set(seen.calls)
    early.sent("task")
    for message in (state("running"), INIT, result("ours"), state("idle")):
        early.told(message)
    assert early.outcome(NOW).output == "ours"


def test_a_resumed_session_that_took_nothing_costs_nothing() -> None:
    total = {"m": {"inputTokens": 400, "outputTokens": 80, "costUSD": 2.0}}
    more = {"modelUsage": total, "total_cost_usd": 2.0, "model_usage_since_last_result": {}}
    found = Watched(INIT, result("no", is_error=True, **more)).result
    assert (found.usage.input_tokens, found.cost_usd) == (0, 0.0)


def test_a_sub_agent_that_failed_in_the_background_is_told() -> None:
    ended = {"type": "system", "subtype": "task_notification", "status": "failed", "summary": "zero tools"}
    seen = Watched(INIT, ended, {**ended, "status": "completed"})
    notices = [e for e in seen.events if isinstance(e, NoticeEvent)]
    assert [(e.code, e.text) for e in notices] == [
        ("background", "a sub-agent or command in the background failed: zero tools")
    ]


def test_a_server_that_the_engine_did_not_take_is_told() -> None:
    events: list[Event] = []
    turn = Turn(events.append, accepted=bool, ended=bool, rests=bool, over=bool, asked_servers=("db", "ide"))
    turn.sent("task")
    turn.told({**INIT, "mcp_servers": [{"name": "db", "status": "connected"}]})
    assert [e.text for e in events if isinstance(e, NoticeEvent)] == ["Claude Code did not take the MCP server ide"]


def test_what_a_resumed_session_took_before_is_not_counted() -> None:
    since = {"m": {"inputTokens": 100, "outputTokens": 20, "costUSD": 0.5}}
    total = {"m": {"inputTokens": 400, "outputTokens": 80, "costUSD": 2.0}}
    more = {"modelUsage": total, "total_cost_usd": 2.0, "model_usage_since_last_result": since}
    seen = Watched(INIT, state("running"), result("one", **more), result("two", **more), state("idle"))
    assert seen.result.usage.input_tokens == 200
    assert seen.result.cost_usd == 1.0


@pytest.mark.parametrize("cost", [10**400, float("inf"), float("nan"), -1, True, "1"])
def test_a_cost_that_is_none_is_not_told(cost: Any) -> None:
    assert Watched(INIT, result(total_cost_usd=cost)).result.cost_usd is None


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"subtype": "error_max_turns"}, "budget"),
        ({"subtype": "error_max_turns", "terminal_reason": "max_turns"}, "budget"),
        ({"terminal_reason": "budget_exhausted"}, "budget"),
    ],
)
def test_an_older_engine_says_a_failure_in_the_subtype_alone(more: dict[str, Any], kind: str) -> None:
    found = Watched(INIT, result("partial", **more)).result
    assert found.stop_reason == "error"
    assert found.output == ""
    assert found.failure is not None
    assert found.failure.kind == kind


def test_an_error_ends_the_run_at_once_and_its_words_are_no_answer() -> None:
    seen = Watched(
        INIT,
        state("running"),
        assistant({"type": "text", "text": "API Error: 529"}, error="overloaded"),
        result("API Error: 529", is_error=True, terminal_reason="api_error"),
    )
    assert seen.turn.over
    assert seen.result.output == ""
    assert seen.result.failure is not None
    assert seen.result.failure.kind == "overload"
    assert not [event for event in seen.events if event.type == "text"]


def test_streamed_text_is_told_once() -> None:
    seen = Watched(
        START,
        delta("thinking_delta", "hm"),
        delta("text_delta", "Hel"),
        delta("text_delta", ""),
        delta("signature_delta", "x"),
        assistant({"type": "thinking", "thinking": "hm"}),
        delta("text_delta", "lo"),
        assistant({"type": "text", "text": "Hello"}),
    )
    assert seen.events == [ThoughtEvent("hm", "msg"), TextEvent("Hel", "msg"), TextEvent("lo", "msg")]


def test_what_was_not_streamed_is_told_whole() -> None:
    blocks = ({"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hi"}, {"type": "image", "image": "x"})
    assert Watched(assistant(*blocks)).events == [ThoughtEvent("hm", "msg"), TextEvent("Hi", "msg")]


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("Bash", {"command": "ls\n -l"}, ("ls -l", "execute", "ls\n -l", ())),
        ("Write", {"file_path": "/a", "content": "x"}, ("Write /a", "edit", None, ("/a",))),
        ("NotebookEdit", {"notebook_path": "/n"}, ("NotebookEdit /n", "edit", None, ("/n",))),
        ("Read", {"file_path": "/a"}, ("Read /a", "read", None, ("/a",))),
        ("WebFetch", {"url": "http://x"}, ("WebFetch http://x", "fetch", None, ())),
        ("Task", {"description": "d"}, ("Task d", "think", None, ())),
        ("mcp__a__b", {}, ("mcp__a__b", "other", None, ())),
        ("Bash", {"command": 7}, ("Bash", "execute", None, ())),
    ],
)
def test_a_call_is_told_in_the_words_of_the_seam(name: str, given: dict[str, Any], expected: tuple[Any, ...]) -> None:
    (event,) = Watched(assistant(call(name, given), parent_tool_use_id="p")).events
    assert isinstance(event, ToolEvent)
    assert (event.title, event.kind, event.command, event.paths) == expected
    assert (event.id, event.status, event.parent) == ("t", "in_progress", "p")


@pytest.mark.parametrize(
    ("content", "more", "expected"),
    [
        ("fine", {}, ("completed", "fine", None)),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], {}, ("completed", "a\nb", None)),
        ("Exit code 3\nno", {"is_error": True}, ("failed", "Exit code 3\nno", 3)),
        ("<tool_use_error>no</tool_use_error>", {"is_error": True}, ("failed", "no", None)),
        (None, {}, ("completed", "", None)),
    ],
)
def test_an_outcome_is_told_of_its_step(content: object, more: dict[str, Any], expected: tuple[Any, ...]) -> None:
    seen = Watched(assistant(call("Bash", {"command": "x"})), answer(content, **more), answer("again"))
    last = seen.events[-1]
    assert isinstance(last, ToolEvent)
    assert (last.status, last.output, last.exit_code) == expected
    assert len(seen.events) == 2


def test_a_list_of_things_to_do_is_a_plan_once_the_engine_has_taken_it() -> None:
    todos = [{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}, {"content": "c"}]
    step = assistant(call("TodoWrite", {"todos": todos}))
    entries = (PlanEntry("a", "completed"), PlanEntry("b", "in_progress"), PlanEntry("c"))
    assert Watched(step, answer("fine")).events[-1] == PlanEvent(entries)
    assert Watched(step).events[-1].type == "tool"
    assert Watched(step, answer("no", is_error=True)).events[-1].type == "tool"


def test_a_plan_of_a_sub_agent_is_not_that_of_the_run() -> None:
    step = assistant(call("TodoWrite", {"todos": [{"content": "a"}]}), parent_tool_use_id="p")
    assert [event.type for event in Watched(step, answer("fine")).events] == ["tool", "tool"]


def test_a_server_that_is_not_there_is_told() -> None:
    states = ("connected", "failed", "needs-auth", "pending", "disabled")
    seen = Watched({**INIT, "mcp_servers": [{"name": f"s-{state}", "status": state} for state in states]})
    assert [e.text for e in seen.events if isinstance(e, NoticeEvent)] == [
        "the MCP server s-failed is not there: failed",
        "the MCP server s-needs-auth is not there: needs-auth",
        "the MCP server s-pending is not there: pending",
    ]


def test_a_tool_is_known_by_its_former_name_too_and_those_of_servers_are_told_with_them() -> None:
    assert Watched({**INIT, "tools": ["Task"]}, tools=("Agent", "Task", "mcp__db")).events == []


def test_only_the_word_of_the_runs_own_error_counts() -> None:
    failed = result("boom", is_error=True, terminal_reason="api_error")
    blocks = ({"type": "text", "text": "no credit"},)
    seen = Watched(INIT, assistant(*blocks, error="billing_error", parent_tool_use_id="p"), failed)
    assert seen.result.failure is not None
    assert seen.result.failure.kind == "unknown"


def test_tokens_and_cost_are_those_of_all_models() -> None:
    models = {
        "a": {"inputTokens": 1, "outputTokens": 2, "cacheReadInputTokens": 3, "cacheCreationInputTokens": 4},
        "b": {"inputTokens": 10, "outputTokens": 20, "thinkingTokens": 5},
    }
    seen = Watched(INIT, result(modelUsage=models, total_cost_usd=0.5))
    expected = Usage(18, 22, 3, 4, 5)
    assert seen.events[-1] == UsageEvent(expected, 0.5)
    assert (seen.result.usage, seen.result.cost_usd) == (expected, 0.5)
    assert Watched(result(total_cost_usd=True)).result.cost_usd is None


def test_refusals_are_counted_once_each() -> None:
    meta = [{"id": "t", "permission_decision": {"decision": "reject"}}, {"id": "u", "permission_decision": None}]
    denied = {
        "type": "system",
        "subtype": "permission_denied",
        "tool_name": "Write",
        "tool_use_id": "t",
        "message": "no",
    }
    seen = Watched(denied, {**answer("no"), "tool_result_meta": meta}, result())
    assert seen.result.evidence.notes == ("1 step refused",)
    assert seen.events[0] == NoticeEvent("Write was refused: no", "refused")


def test_a_used_up_quota_is_told_and_remembered() -> None:
    info = {"status": "rejected", "resetsAt": int(NOW.timestamp()) + 60, "rateLimitType": "five_hour"}
    failed = result("API Error: 429", is_error=True, api_error_status=429, terminal_reason="api_error")
    seen = Watched({"type": "rate_limit_event", "rate_limit_info": info}, failed)
    assert seen.events[0] == NoticeEvent("the five_hour limit: rejected", "rate-limit", "warning", info)
    assert seen.result.failure is not None
    assert (seen.result.failure.kind, seen.result.failure.retry_at) == ("limit", NOW.timestamp() + 60)
    allowed = Watched({"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}}, failed)
    assert allowed.result.failure is not None
    assert allowed.result.failure.kind == "overload"
    extra = Watched({"type": "rate_limit_event", "rate_limit_info": {**info, "isUsingOverage": True}}, failed)
    assert extra.result.failure is not None
    assert extra.result.failure.kind == "overload"


def test_tools_that_are_not_there_are_told() -> None:
    seen = Watched(INIT, tools=("Read", "Nonsense"))
    assert [e.text for e in seen.events if isinstance(e, NoticeEvent)] == [
        "Claude Code does not offer to this model: Nonsense"
    ]


def test_retries_and_remarks_are_notices() -> None:
    retry = {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 2, "error": "overloaded"}
    remark = {"type": "system", "subtype": "informational", "content": "look"}
    quiet = {"type": "system", "subtype": "status"}
    assert Watched(retry, remark, quiet).events == [
        NoticeEvent("attempt 1 of 2 failed: overloaded", "retry", "warning"),
        NoticeEvent("look", "informational"),
    ]


def test_what_is_not_known_is_told_once() -> None:
    seen = Watched(*[{"type": "news"}, {"type": "system", "subtype": "news"}] * 3, {})
    assert [e.type for e in seen.events] == ["notice"] * 3


@pytest.mark.parametrize("kind", ["system", "stream_event", "assistant", "user", "result", "rate_limit_event"])
@pytest.mark.parametrize("value", [None, 7, "x", [], [7], {"a": 7}], ids=repr)
def test_no_message_breaks_it(kind: str, value: object) -> None:
    names = (
        *("subtype", "event", "message", "rate_limit_info", "result", "is_error", "terminal_reason", "errors", "state"),
        *("modelUsage", "usage", "total_cost_usd", "tool_result_meta", "parent_tool_use_id", "session_id", "tools"),
    )
    message: dict[str, Any] = {"type": kind, **dict.fromkeys(names, value)}
    seen = Watched(message, {**message, "subtype": "init"}, {**message, "message": {"content": value}})
    seen.turn.finish()
    assert seen.calls.count("over") == 1
    assert seen.result.evidence.terminal is not None
