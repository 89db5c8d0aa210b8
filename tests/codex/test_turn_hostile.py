"""A turn against an engine of tomorrow, or one that means no good."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from turn_kit import COMMAND, THREAD, TURN, Told, bundled_schema, call, error, exited, message, output

from subagent_codex._notices import NOTICES, PASSED
from subagents import NoticeEvent, TextEvent, ToolEvent


def test_an_unknown_method_is_told_once_and_counted() -> None:
    told = Told().say("brandNew/thing", x=1).say("brandNew/thing", x=2)
    assert [(event.code, event.data) for event in told.of(NoticeEvent)] == [("unknown", {"method": "brandNew/thing"})]
    assert told.turn.unknown == {"brandNew/thing": 2}


def test_a_flood_of_unknown_methods_is_counted_and_not_told() -> None:
    told = Told()
    for number in range(1000):
        told.say(f"new/{number}")
    assert len(told.events) == 33
    assert sum(told.turn.unknown.values()) == 1000


def test_a_known_method_in_an_unknown_shape_is_told_as_unknown() -> None:
    rows: list[tuple[str, dict[str, object]]] = [
        ("item/agentMessage/delta", {"itemId": 7, "delta": "x"}),
        ("item/agentMessage/delta", {"itemId": "m", "delta": None}),
        ("item/started", {"item": {"type": "agentMessage"}}),
        ("item/completed", {"item": "x"}),
        ("item/reasoning/textDelta", {"itemId": "rs"}),
        ("item/commandExecution/outputDelta", {"itemId": "c"}),
        ("item/fileChange/patchUpdated", {}),
        ("rawResponseItem/completed", {"item": {}}),
        ("model/rerouted", {}),
    ]
    for method, params in rows:
        told = Told().say(method, **params)
        assert told.turn.unknown == {method: 1}, method
        assert told.of(NoticeEvent)[-1].code == "unknown"


def test_methods_of_no_interest_are_passed_over() -> None:
    told = Told()
    for method in sorted(PASSED):
        told.say(method)
    assert told.events == []
    assert not told.turn.unknown
    assert PASSED.isdisjoint(NOTICES)


METHODS = [
    "item/started", "item/completed", "item/agentMessage/delta", "item/reasoning/summaryTextDelta", "turn/started",
    "item/reasoning/textDelta", "item/reasoning/summaryPartAdded", "item/commandExecution/outputDelta",
    "item/mcpToolCall/progress", "item/fileChange/patchUpdated", "rawResponseItem/completed", "turn/plan/updated",
    "thread/tokenUsage/updated", "turn/completed", "error", "model/rerouted", "account/rateLimits/updated",
    "hook/completed", "mcpServer/startupStatus/updated", *NOTICES, "x/y",
]  # fmt: skip
WORDS = st.sampled_from([
    "commandExecution", "fileChange", "mcpToolCall", "agentMessage", "reasoning", "plan", "webSearch",
    "subAgentActivity", "collabAgentToolCall", "dynamicToolCall", "imageView", "imageGeneration", "sleep",
    "functionCallOutput", "new", "function_call", "function_call_output", "custom_tool_call", "local_shell_call",
    "exec_command", "apply_patch", "completed", "failed", "declined", "interrupted", THREAD, TURN, "a", "{", "[1]",
    '{"cmd":7}', "\ud800\x00\x1b[31m",
])  # fmt: skip
KEYS = st.sampled_from([
    "type", "id", "item", "itemId", "delta", "threadId", "turnId", "turn", "status", "error", "willRetry", "message",
    "codexErrorInfo", "additionalDetails", "httpStatusCode", "httpConnectionFailed", "text", "phase", "summary",
    "content", "changes", "kind", "path", "move_path", "commandActions", "command", "aggregatedOutput", "exitCode",
    "result", "tokenUsage", "total", "last", "inputTokens", "rateLimits", "primary", "usedPercent", "resetsAt",
    "plan", "step", "name", "arguments", "call_id", "output", "input", "action", "query", "queries",
    "receiverThreadIds", "agentsStates", "agentThreadId", "durationMs", "items", "run", "toModel", "contentItems",
    "success", "failure", "savedPath",
])  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=20) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=20,
)


def test_the_bundled_engine_sends_no_notification_that_is_not_known(tmp_path: Path) -> None:
    schema = bundled_schema(tmp_path, "ServerNotification.json")
    sent = {variant["properties"]["method"]["enum"][0] for variant in schema["oneOf"]}
    assert sent <= {*METHODS, *PASSED}


SAID = st.lists(st.tuples(st.sampled_from(METHODS), st.dictionaries(KEYS, VALUES, max_size=6)), max_size=8)


@given(SAID)
@settings(max_examples=25, deadline=None)
def test_nothing_that_the_engine_says_raises(said: list[tuple[str, dict[str, object]]]) -> None:
    take(said)


@pytest.mark.long
@given(SAID)
@settings(max_examples=400, deadline=None)
def test_nothing_that_the_engine_says_raises_in_many_more_tries(said: list[tuple[str, dict[str, object]]]) -> None:
    take(said)


def take(said: list[tuple[str, dict[str, object]]]) -> None:
    told = Told()
    for method, params in said:
        told.turn.notified(method, dict(params))
        told.say(method, **{key: value for key, value in params.items() if key not in ("threadId", "method")})
    told.turn.begin("")
    assert isinstance(told.turn.text, str)
    assert told.turn.escalates("never seen")
    told.say("turn/completed", turn={"status": "failed", "error": said})
    assert told.turn.ended
    told.turn.outcome()
    for event in told.events:
        json.dumps(event.id if isinstance(event, TextEvent | ToolEvent) else str(event))


def test_texts_of_ten_megabytes_are_taken() -> None:
    big = "y" * 10_000_000
    told = Told().start().complete(message("m", big)).delta(big, "m2").raw(call("exec_command", big))
    told.raw(output(exited(1, big))).complete({**COMMAND, "aggregatedOutput": big, "command": big, "status": "failed"})
    told.say("error", error=error(big, big, big), willRetry=True).say("warning", message=big).say(big)
    assert len(told.of(TextEvent)[0].text) == 10_000_000
    assert all(len(event.output) <= 4096 and len(event.title) <= 160 for event in told.of(ToolEvent))
    assert all(len(event.text) <= 4000 for event in told.of(NoticeEvent))
    failure = told.end("failed", error(big)).turn.outcome().failure
    assert failure is not None
    assert len(failure.message) <= 4096
