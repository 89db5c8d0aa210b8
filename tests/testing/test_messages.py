"""The scripted Messages server, heard over a bare socket."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from subagent_testing import Gate, ScriptedMessages, Snapshot, messages

ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def _ask(
    api: ScriptedMessages, body: object = None, *, method: str = "POST", path: str = "/v1/messages?beta=true"
) -> tuple[int, dict[str, str], bytes]:
    line = http.client.HTTPConnection("127.0.0.1", urlsplit(api.base_url).port, timeout=10)
    try:
        line.request(method, path, None if body is None else json.dumps(body), {"x-api-key": "sk-secret"})
        answer = line.getresponse()
        try:
            heard = answer.read()
        except http.client.IncompleteRead as exc:
            heard = exc.partial
        return answer.status, dict(answer.getheaders()), heard
    finally:
        line.close()


def _events(api: ScriptedMessages) -> list[dict[str, Any]]:
    heard = _ask(api, {**ASKED, "stream": True})[2]
    return [json.loads(line[6:]) for line in heard.split(b"\n") if line.startswith(b"data: ")]


def _whole(api: ScriptedMessages) -> dict[str, Any]:
    return json.loads(_ask(api, ASKED)[2])


def test_a_text_is_the_answer_to_every_request() -> None:
    with ScriptedMessages("hi there") as api:
        for _ in range(2):
            events = _events(api)
            deltas = [event["delta"]["text"] for event in events if event["type"] == "content_block_delta"]
            assert "".join(deltas) == "hi there"
            assert [event["type"] for event in events] == [
                "message_start",
                "content_block_start",
                "content_block_delta",
                "content_block_delta",
                "content_block_stop",
                "message_delta",
                "message_stop",
            ]
    assert [request.body["messages"] for request in api.requests] == [ASKED["messages"]] * 2


def test_the_blocks_of_an_answer_have_the_words_of_the_api() -> None:
    turn = [
        messages.usage(input_tokens=7, output_tokens=3, cache_read_tokens=2, cache_creation_tokens=1),
        messages.thinking("hm", signature="s"),
        messages.text("so", chunks=0),
        messages.tool_use("Bash", {"command": "ls"}),
    ]
    with ScriptedMessages([turn]) as api:
        events, whole = _events(api), _whole(api)
    assert [event["content_block"] for event in events if "content_block" in event] == [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "text", "text": ""},
        {"type": "tool_use", "name": "Bash", "input": {}, "id": "toolu_1_2"},
    ]
    assert [event["delta"] for event in events if event["type"] == "content_block_delta"] == [
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "s"},
        {"type": "input_json_delta", "partial_json": '{"command": "ls"}'},
    ]
    usage = {"input_tokens": 7, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 2, "output_tokens": 3}
    assert events[0]["message"]["usage"] == {**usage, "output_tokens": 1}
    assert (events[-2]["usage"], events[-2]["delta"]["stop_reason"]) == (usage, "tool_use")
    assert whole == {
        "id": "msg_2",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "so"},
            {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}, "id": "toolu_2_2"},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": usage,
    }


def test_an_answer_stops_for_the_reason_that_the_script_gives() -> None:
    with ScriptedMessages([[messages.text("cut sh"), messages.stop("max_tokens")], messages.stop("refusal")]) as api:
        assert _events(api)[-2]["delta"]["stop_reason"] == "max_tokens"
        assert (_whole(api)["stop_reason"], _whole(api)["content"]) == ("refusal", [])


@pytest.mark.parametrize(
    ("step", "code", "error"),
    [
        (messages.status(429, message="slow down", headers={"retry-after": "1"}), 429, "rate_limit_error"),
        (messages.status(529), 529, "overloaded_error"),
        (messages.status(599), 599, "api_error"),
        (messages.status(400, "billing_error", "no credit"), 400, "billing_error"),
    ],
)
def test_a_status_is_an_error_of_the_api(step: messages.Status, code: int, error: str) -> None:
    with ScriptedMessages([step]) as api:
        status, headers, body = _ask(api, {**ASKED, "stream": True})
    told = json.loads(body)
    assert (status, told["type"], told["error"]["type"]) == (code, "error", error)
    assert headers["request-id"] == told["request_id"]
    assert headers.get("retry-after") == ("1" if code == 429 else None)


def test_an_error_ends_a_stream_and_is_a_status_where_there_is_none() -> None:
    turn = [messages.text("a"), messages.sse_error(), messages.text("never")]
    with ScriptedMessages([turn]) as api:
        events, (status, _, body) = _events(api), _ask(api, ASKED)
    assert [event["type"] for event in events][-2:] == ["content_block_stop", "error"]
    assert events[-1]["error"] == {"type": "overloaded_error", "message": "Overloaded"}
    assert (status, json.loads(body)["error"]) == (529, events[-1]["error"])


def test_any_other_event_goes_out_as_it_is() -> None:
    with ScriptedMessages([[messages.event("ping"), messages.text("a")]]) as api:
        assert [event["type"] for event in _events(api)][:2] == ["message_start", "ping"]
        assert _whole(api)["content"] == [{"type": "text", "text": "a"}]


def test_a_cut_ends_the_connection_in_the_middle_of_the_answer_or_instead_of_it() -> None:
    with ScriptedMessages([[messages.text("a"), messages.cut()], messages.cut()]) as api:
        assert _events(api)[-1]["type"] == "content_block_stop"
        with pytest.raises(http.client.RemoteDisconnected):
            _ask(api, ASKED)


def test_silence_comes_after_the_head_or_instead_of_it_and_ends_with_the_client() -> None:
    with ScriptedMessages([[messages.started(), messages.silence()], messages.silence()]) as api:
        for n in (1, 2):
            line = http.client.HTTPConnection("127.0.0.1", urlsplit(api.base_url).port, timeout=10)
            line.request("POST", "/v1/messages", json.dumps({**ASKED, "stream": True}))
            if n == 1:
                assert line.getresponse().readline().strip() == b"event: message_start"
            assert api.wait_for_request(n).hung_up_at is None
            line.close()
            api.wait_for_hang_up(n)


def test_a_gate_holds_the_answer_until_it_is_released() -> None:
    gate = Gate()
    gate.release()
    with ScriptedMessages([[messages.text("a"), gate, messages.text("b")]]) as api:
        assert [block["text"] for block in _whole(api)["content"]] == ["a", "b"]


def test_a_function_decides_and_what_it_raises_is_a_500() -> None:
    def script(body: dict[str, Any], n: int) -> messages.Turn:
        if n == 2:
            raise LookupError("no such turn")
        return messages.text(f"{n}: {body['model']}")

    api = ScriptedMessages(script)
    assert _whole(api)["content"][0]["text"] == "1: m"
    assert _ask(api, ASKED)[0] == 500
    with pytest.raises(LookupError, match="no such turn"), api:
        pass


@pytest.mark.parametrize(
    ("turn", "says"),
    [
        ([messages.thinking("x"), "done"], "turn 1: 'done' is no step; a text among steps is messages.text"),
        ((step for step in [messages.text("x")]), "turn 1: <generator"),
        (None, "turn 1: None is no step"),
        ([messages.text("x"), messages.status(500)], "turn 1: a status comes in place of a stream"),
        ([messages.started(), messages.status(500)], "turn 1: a status comes in place of a stream"),
        ([messages.status(500, headers={"x": "\u20ac"})], "latin-1"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_turn_that_is_none_is_raised_on_leaving_and_the_client_gets_a_500(turn: Any, says: str, stream: bool) -> None:
    with pytest.raises((TypeError, ValueError), match=says), ScriptedMessages(lambda body, n: turn) as api:
        assert _ask(api, {**ASKED, "stream": stream})[0] == 500


def test_what_json_has_no_form_for_cuts_a_stream_and_is_a_500_where_there_is_none() -> None:
    turn = [messages.text("x"), messages.event("odd", value=object()), messages.usage(input_tokens=1)]
    odd = [messages.text("x"), messages.Usage({"input_tokens": object()})]
    answers: list[Any] = []
    with pytest.raises(TypeError, match="not JSON serializable"), ScriptedMessages([turn, odd]) as api:
        answers += [_events(api)[-1]["type"], _ask(api, ASKED)[0]]
    assert answers == ["content_block_stop", 500]


@pytest.mark.parametrize(
    "body",
    [
        {"system": [{"type": "text", "text": "You are naming a coding session"}]},
        {"output_config": {"format": {"schema": {"properties": {"title": {"type": "string"}}}}}},
    ],
)
def test_the_request_for_a_title_takes_no_turn(body: dict[str, Any]) -> None:
    with ScriptedMessages(["one", "two"]) as api:
        title = json.loads(_ask(api, {**ASKED, **body})[2])
        assert json.loads(title["content"][0]["text"]) == {"title": "Scripted"}
        assert _whole(api)["content"][0]["text"] == "one"
        assert len(json.loads(_ask(api, {**ASKED, **body, "tools": [{"name": "Bash"}]})[2])["content"]) == 1
    assert (len(api.requests), len(api.others)) == (2, 1)


def test_what_else_clients_ask_is_answered_recorded_and_refused() -> None:
    with ScriptedMessages() as api:
        assert json.loads(_ask(api, ASKED, path="/v1/messages/count_tokens?beta=true")[2]) == {"input_tokens": 10}
        assert json.loads(_ask(api, method="GET", path="/v1/models")[2])["data"] == []
        assert _ask(api, method="HEAD", path="/api/hello")[::2] == (200, b"")
        assert _ask(api, method="GET", path="/api/hello")[0] == 200
        status, _, body = _ask(api, {}, path="/api/event_logging")
        assert (status, json.loads(body)["error"]["type"]) == (404, "not_found_error")
    assert [seen.method for seen in api.others] == ["POST", "GET", "HEAD", "GET", "POST"]
    assert api.requests == []
    assert "sk-secret" not in repr(api.others)


def test_closing_leaves_no_thread_and_a_script_of_no_turns_is_refused() -> None:
    before = Snapshot.take()
    with ScriptedMessages() as api:
        _whole(api)
    assert before.left() == []
    with pytest.raises(ValueError, match="at least one turn"):
        ScriptedMessages([])


def test_waiting_for_what_does_not_come_says_what_did() -> None:
    with (
        ScriptedMessages() as api,
        pytest.raises(TimeoutError, match="0 requests came to /v1/messages and 0 elsewhere"),
    ):
        api.wait_for_request(1, within=0)
