"""The scripted Responses server, heard over a bare socket."""

from __future__ import annotations

import json
import os
import resource
import socket
import threading
from contextlib import closing, suppress
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from subagent_testing import Gate, ScriptedResponses, Snapshot, responses


def _connect(api: ScriptedResponses) -> socket.socket:
    return socket.create_connection((urlsplit(api.base_url).hostname, urlsplit(api.base_url).port or 0), timeout=10)


def _ask(
    line: socket.socket, body: object = None, *, method: str = "POST", path: str = "/v1/responses", headers: str = ""
) -> None:
    data = b"" if body is None else json.dumps(body).encode()
    line.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n{headers}\r\n".encode() + data)


def _rest(line: socket.socket) -> bytes:
    """All that comes until the server closes; a connection that it had not accepted yet is reset."""
    with closing(line), line.makefile("rb") as reader, suppress(ConnectionResetError):
        return reader.read()
    return b""


def _whole(api: ScriptedResponses, body: object = None, *, headers: str = "", **how: str) -> bytes:
    line = _connect(api)
    _ask(line, {} if body is None else body, headers=f"Connection: close\r\n{headers}", **how)
    return _rest(line)


def _until(line: socket.socket, mark: bytes) -> None:
    """Read until this has come."""
    heard = b""
    while mark not in heard:
        more = line.recv(65536)
        assert more, heard
        heard += more


def _events(answer: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in answer.split(b"\n") if line.startswith(b"data: ")]


def _types(answer: bytes) -> list[str]:
    return [event["type"] for event in _events(answer)]


def test_a_text_is_the_answer_to_every_request() -> None:
    events: list[dict[str, Any]] = []
    with ScriptedResponses("hi there") as api:
        for _ in range(2):
            events = _events(_whole(api))
            assert events[-1]["response"]["output"][0]["content"][0]["text"] == "hi there"
    assert [event["type"] for event in events] == [
        "response.created",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event["sequence_number"] for event in events] == list(range(9))
    assert "".join(event["delta"] for event in events if "delta" in event) == "hi there"


def test_each_request_gets_its_turn_and_the_last_turn_answers_all_that_follow() -> None:
    with ScriptedResponses(["one", [responses.message("two")], responses.message("three", chunks=0)]) as api:
        texts = [_events(_whole(api))[-1]["response"]["output"][0]["content"][0]["text"] for _ in range(4)]
    assert texts == ["one", "two", "three", "three"]


def test_a_function_decides_by_the_body_and_the_number_of_the_request() -> None:
    def script(body: dict[str, Any], n: int) -> str:
        return f"{n}: {body['model']}"

    with ScriptedResponses(script) as api:
        texts = [_events(_whole(api, {"model": m}))[-1]["response"]["output"][0]["content"][0]["text"] for m in "ab"]
    assert texts == ["1: a", "2: b"]


def test_the_items_of_a_response_have_the_words_of_the_api() -> None:
    turn = [
        responses.reasoning("hm"),
        responses.message("so", phase="commentary"),
        responses.function_call("look", {"at": 1}, namespace="tools"),
        responses.function_call("look", "{not json"),
        responses.custom_tool_call("apply_patch", "*** Begin Patch"),
        responses.event("response.rate_limits", left=3),
        responses.usage(input_tokens=7, output_tokens=3),
    ]
    with ScriptedResponses([turn]) as api:
        events = _events(_whole(api))
    done = events[-1]["response"]
    assert [item["type"] for item in done["output"]] == [
        *("reasoning", "message", "function_call", "function_call", "custom_tool_call")
    ]
    assert done["output"][1]["phase"] == "commentary"
    assert done["output"][2] == {
        "type": "function_call",
        "name": "look",
        "namespace": "tools",
        "arguments": '{"at": 1}',
        "status": "completed",
        "id": "item_1_2",
        "call_id": "call_1_2",
    }
    assert done["output"][3]["arguments"] == "{not json"
    assert done["usage"] == {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 40},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 10,
    }
    assert {"type": "response.rate_limits", "sequence_number": events[-2]["sequence_number"], "left": 3} in events


def test_a_status_comes_with_its_body_and_its_headers() -> None:
    limit = responses.status(429, {"error": {"type": "usage_limit_reached"}}, {"retry-after": "1"})
    with ScriptedResponses([limit, responses.status(599)]) as api:
        first, second = _whole(api), _whole(api)
    assert first.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
    assert b"retry-after: 1\r\n" in first
    assert first.endswith(b'{"error": {"type": "usage_limit_reached"}}')
    assert second.startswith(b"HTTP/1.1 599 Unknown\r\n")


def test_failed_and_incomplete_end_the_response() -> None:
    with ScriptedResponses(
        [
            [responses.message("a"), responses.failed("context_length_exceeded", "too long"), responses.message("b")],
            responses.incomplete("max_output_tokens"),
        ]
    ) as api:
        failed, incomplete = _events(_whole(api)), _events(_whole(api))
    assert failed[-1]["type"] == "response.failed"
    assert failed[-1]["response"]["error"] == {"code": "context_length_exceeded", "message": "too long"}
    assert incomplete[-1]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


def test_a_cut_ends_the_connection_in_the_middle_of_the_stream_or_without_a_head() -> None:
    with ScriptedResponses([[responses.message("a"), responses.cut()], responses.cut()]) as api:
        half, nothing = _whole(api), _whole(api)
    assert _types(half)[-1] == "response.output_item.done"
    assert not half.endswith(b"0\r\n\r\n")
    assert nothing == b""


def test_a_gate_holds_the_response_until_it_is_released() -> None:
    gate = Gate()
    with ScriptedResponses([[responses.message("a"), gate, responses.message("b")]]) as api:
        line = _connect(api)
        _ask(line, {}, headers="Connection: close\r\n")
        gate.wait_until_reached()
        gate.release()
        assert _types(_rest(line))[-1] == "response.completed"
        assert _types(_whole(api))[-1] == "response.completed", "a gate that was released stays open"


def test_nobody_at_the_gate_is_a_timeout() -> None:
    with pytest.raises(TimeoutError, match="nobody has come to the gate within 0 s"):
        Gate().wait_until_reached(within=0)


def test_silence_after_the_head_and_before_it_lasts_until_the_client_hangs_up() -> None:
    with ScriptedResponses([[responses.created(), responses.silence()], responses.silence()]) as api:
        line = _connect(api)
        _ask(line, {})
        _until(line, b"response.created")
        assert api.wait_for_request(1).hung_up_at is None
        line.close()
        assert api.wait_for_hang_up(1).hung_up_at is not None
        line = _connect(api)
        _ask(line, {})
        assert api.wait_for_request(2).hung_up_at is None
        line.close()
        api.wait_for_hang_up(2)


def test_a_client_that_leaves_while_it_is_told_is_noticed() -> None:
    gate = Gate()
    with ScriptedResponses([[gate, *[responses.message("x" * 100_000)] * 200]]) as api:
        line = _connect(api)
        _ask(line, {})
        gate.wait_until_reached()
        gate.release()
        _until(line, b"response.created")
        line.close()
        api.wait_for_hang_up(1)


def test_closing_ends_who_waits_and_no_thread_is_left() -> None:
    before = Snapshot.take()
    lines: list[socket.socket] = []
    with ScriptedResponses([responses.silence()]) as api:
        for n in range(3):
            lines.append(_connect(api))
            _ask(lines[-1], {})
            api.wait_for_request(n + 1)
        lines.append(_connect(api))  # one that asks nothing
    assert [_rest(line) for line in lines] == [b""] * 4
    assert [request.hung_up_at for request in api.requests] == [None] * 3, "they were sent away"
    api.close()
    assert before.left() == []


def test_a_script_that_blocks_is_named_when_the_server_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subagent_testing._http._JOIN", 0.01)
    go_on = threading.Event()

    def script(body: dict[str, Any], n: int) -> str:
        go_on.wait(10)
        return "late"

    api = ScriptedResponses(script)
    line = _connect(api)
    _ask(line, {})
    api.wait_for_request(1)
    with pytest.raises(RuntimeError, match=r"scripted server \d+ did not end within 0.01 s: its script blocks"):
        api.close()
    go_on.set()
    line.close()


def test_what_the_script_raises_is_raised_on_leaving_and_the_client_gets_a_500() -> None:
    def script(body: dict[str, Any], n: int) -> str:
        raise LookupError("no such turn")

    with pytest.raises(LookupError, match="no such turn"), ScriptedResponses(script) as api:
        assert b"HTTP/1.1 500" in _whole(api)
    with pytest.raises(ZeroDivisionError), ScriptedResponses(script) as api:
        print(len(_whole(api)) / 0)


def test_a_script_of_no_turns_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one turn"):
        ScriptedResponses([])


def test_models_are_listed_and_all_else_is_recorded_and_refused() -> None:
    with ScriptedResponses(models={"data": [{"id": "m"}]}) as api:
        assert _whole(api, method="GET", path="/v1/models?client_version=1").endswith(b'{"data": [{"id": "m"}]}')
        assert _whole(api, method="GET", headers="Upgrade: websocket\r\n").startswith(b"HTTP/1.1 426 ")
        assert _whole(api, method="CONNECT", path="chatgpt.com:443").startswith(b"HTTP/1.1 404 ")
    assert [(seen.method, seen.path) for seen in api.others] == [
        ("GET", "/v1/models?client_version=1"),
        ("GET", "/v1/responses"),
        ("CONNECT", "chatgpt.com:443"),
    ]
    assert api.requests == []


def test_a_request_is_recorded_whole_and_its_repr_tells_no_secret() -> None:
    with ScriptedResponses() as api:
        _whole(api, {"input": "the prompt"}, headers="Authorization: Bearer sk-secret\r\n")
    (seen,) = api.requests
    assert (seen.method, seen.path, seen.body) == ("POST", "/v1/responses", {"input": "the prompt"})
    assert json.loads(seen.raw) == seen.body
    assert seen.headers["authorization"] == "Bearer sk-secret"
    assert "secret" not in repr(seen)
    assert "prompt" not in repr(seen)


def test_a_body_in_chunks_is_read_and_one_that_is_no_object_is_empty() -> None:
    with ScriptedResponses() as api:
        line = _connect(api)
        line.sendall(b"POST /v1/responses HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        line.sendall(b'4;x=y\r\n{"a"\r\n3\r\n:1}\r\n0\r\nTrailer: t\r\n\r\n')
        api.wait_for_request(1)
        _ask(line, [1], headers="Connection: close\r\n")
        _rest(line)
        line = _connect(api)
        line.sendall(b"POST /v1/responses HTTP/1.1\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{]")
        _rest(line)
    assert [seen.body for seen in api.requests] == [{"a": 1}, {}, {}]


@pytest.mark.parametrize("said", [b"\x16\x03\x01\x02\x00\x01", b"GET /\r\n\r\n", b"GET / HTTP/2\r\n\r\n", b"\r\n"])
def test_every_connection_is_counted_also_one_that_speaks_no_http(said: bytes) -> None:
    with ScriptedResponses() as api:
        line = _connect(api)
        peer = line.getsockname()
        line.sendall(said)
        line.shutdown(socket.SHUT_WR)
        assert _rest(line) == b""
        assert [connection.peer for connection in api.connections] == [peer]
    assert api.others == []


@pytest.mark.parametrize(
    "said",
    [
        b"Content-Length: many\r\n\r\n",
        b"Content-Length: -5\r\n\r\n{}",
        b'Content-Length: 100\r\n\r\n{"a":1',
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b'Transfer-Encoding: chunked\r\n\r\n50\r\n{"a"',
        b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
    ],
)
def test_a_request_that_is_cut_short_or_has_no_length_is_none_and_takes_nobodys_turn(said: bytes) -> None:
    with ScriptedResponses(["first", "second"]) as api:
        line = _connect(api)
        line.sendall(b"POST /v1/responses HTTP/1.1\r\n" + said)
        line.shutdown(socket.SHUT_WR)
        assert _rest(line) == b""
        assert _events(_whole(api))[-1]["response"]["output"][0]["content"][0]["text"] == "first"
    assert len(api.requests) == 1


def test_a_client_that_waits_for_permission_to_send_its_body_gets_it() -> None:
    with ScriptedResponses() as api:
        line = _connect(api)
        line.sendall(b"POST /v1/responses HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 7\r\n\r\n")
        _until(line, b"HTTP/1.1 100 Continue\r\n\r\n")
        line.sendall(b'{"a":1}')
        _until(line, b"\r\n0\r\n\r\n")
        line.close()
    assert api.requests[0].body == {"a": 1}


@pytest.mark.parametrize(
    ("turn", "says"),
    [
        ([responses.reasoning("x"), "done"], "turn 1: 'done' is no step"),
        ((step for step in [responses.message("x")]), "turn 1: <generator"),
        (None, "turn 1: None is no step"),
        ([responses.message("x"), responses.status(500)], "turn 1: a status comes in place of a stream"),
        ([responses.status(500, {"a": object()})], "not JSON serializable"),
        ([responses.status(500, {}, {"x": "\u20ac"})], "latin-1"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_turn_that_is_none_is_raised_on_leaving_and_the_client_gets_a_500(turn: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says), ScriptedResponses(lambda body, n: turn) as api:
        assert _whole(api).startswith(b"HTTP/1.1 500")


def test_what_json_has_no_form_for_in_the_middle_cuts_the_stream_and_is_raised_on_leaving() -> None:
    turn = [responses.message("x"), responses.event("odd", value=object())]
    answers: list[bytes] = []
    with pytest.raises(TypeError, match="not JSON serializable"), ScriptedResponses([turn]) as api:
        answers.append(_whole(api))
    assert _types(answers[0])[-1] == "response.output_item.done"
    assert (answers[0].count(b"HTTP/1.1"), answers[0].endswith(b"0\r\n\r\n")) == (1, False)


def test_a_shortage_of_descriptors_is_survived() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ScriptedResponses() as api, socket.socket() as line:
        _whole(api)  # the server is at work
        line.settimeout(0.2)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            line.connect((urlsplit(api.base_url).hostname, urlsplit(api.base_url).port))
            _ask(line, {})
            with pytest.raises(TimeoutError):
                line.recv(1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        line.settimeout(10)
        _until(line, b"response.completed")


def test_a_gate_that_was_released_before_is_reached_all_the_same() -> None:
    gate = Gate()
    gate.release()
    with ScriptedResponses([[gate, responses.message("x")]]) as api:
        _whole(api)
        gate.wait_until_reached(within=0)


def test_a_connection_serves_more_than_one_request() -> None:
    with ScriptedResponses(["one", "two"]) as api:
        line = _connect(api)
        _ask(line, {})
        api.wait_for_request(1)
        _until(line, b"\r\n0\r\n\r\n")
        _ask(line, {}, headers="Connection: close\r\n")
        assert _types(_rest(line))[-1] == "response.completed"
        assert len(api.connections) == 1


def test_waiting_for_what_does_not_come_says_what_did() -> None:
    with ScriptedResponses() as api:
        _whole(api)
        with pytest.raises(
            TimeoutError, match="request 2 did not come within 0 s; 1 requests came to /responses and 0 els"
        ):
            api.wait_for_request(2, within=0)
        with pytest.raises(TimeoutError, match="the end of the client of request 1 did not come"):
            api.wait_for_hang_up(1, within=0)


@pytest.mark.anyio
async def test_coroutines_wait_for_requests_and_for_hang_ups() -> None:
    with ScriptedResponses([responses.silence()]) as api:
        with anyio.fail_after(10):
            async with await anyio.connect_tcp("127.0.0.1", urlsplit(api.base_url).port or 0) as stream:
                await stream.send(b"POST /v1/responses HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
                assert (await api.request(1)).body == {}
            await api.hang_up(1)


@pytest.mark.anyio
async def test_a_coroutine_that_waits_can_be_cancelled() -> None:
    with ScriptedResponses() as api:
        with anyio.move_on_after(0.05) as scope:
            await api.request(1, within=60)
    assert scope.cancelled_caught


def test_who_waits_hears_that_the_server_has_closed() -> None:
    told: list[BaseException] = []

    def wait() -> None:
        try:
            api.wait_for_request(1, within=60)
        except TimeoutError as exc:
            told.append(exc)

    with ScriptedResponses() as api:
        thread = threading.Thread(target=wait)
        thread.start()
    thread.join(10)
    assert "request 1 did not come before the server closed" in str(told[0])
