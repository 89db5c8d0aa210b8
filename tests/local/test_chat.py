"""One conversation with a server, against a scripted one: what counts as an answer, and what each failure is called."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx
import pytest
from local_kit import Reply, Site

from subagent_local._asking.chat import Answer, ask, chat_body
from subagent_local._asking.faults import ChatFailed
from subagents import Event, Failure, NoticeEvent, TextEvent, ThoughtEvent, Usage

pytestmark = pytest.mark.anyio
CHAT = "/v1/chat/completions"
HI = [{"role": "user", "content": "hi"}]


def chunk(text: str | None = None, *, finish: str | None = None, **more: Any) -> str:
    delta = {} if text is None else {"content": text}
    return json.dumps({"choices": [{"index": 0, "finish_reason": finish, "delta": delta}], **more})


def sse(*events: str, done: bool = True) -> bytes:
    return "".join(f"data: {event}\n\n" for event in (*events, *(["[DONE]"] if done else []))).encode()


def stream(*events: str, done: bool = True, **more: Any) -> Reply:
    return Reply(sse(*events, done=done), headers={"Content-Type": "text/event-stream"}, length=False, **more)


@dataclass
class Talk:
    """What came of one conversation."""

    answer: Answer = field(default_factory=Answer)
    events: list[Event] = field(default_factory=list[Event])
    accepted: int = 0
    failure: Failure | None = None


async def talk(site: Site, reply: Reply, *, stall: float = 10.0, body: dict[str, object] | None = None) -> Talk:
    site.scripts[CHAT] = reply
    result = Talk()

    def accept() -> None:
        result.accepted += 1

    async with httpx.AsyncClient(base_url=site.url, timeout=None, trust_env=False) as client:
        with anyio.fail_after(20):
            try:
                await ask(client, body or {}, result.answer, stall=stall, accepted=accept, emit=result.events.append)
            except ChatFailed as error:
                result.failure = error.failure
    return result


USAGE = json.dumps(
    {
        "choices": [],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}},
    }
)


async def test_an_answer_comes_in_pieces_with_its_usage(site: Site) -> None:
    role = json.dumps({"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]})
    result = await talk(site, stream(role, chunk("Hel"), chunk("lo"), chunk(finish="stop"), USAGE))
    assert result.failure is None
    assert (result.answer.text, result.answer.finish) == ("Hello", "stop")
    assert result.answer.usage == Usage(7, 2, 3)
    assert result.events == [TextEvent("Hel"), TextEvent("lo")]
    assert result.accepted == 5


async def test_the_progress_of_a_long_prompt_is_told_and_that_of_a_short_one_is_not(site: Site) -> None:
    progress = [chunk(prompt_progress={"total": total, "processed": 256}) for total in (4000, 40)]
    result = await talk(site, stream(*progress, chunk("x", finish="stop")))
    data = {"done": 256, "total": 4000, "unit": "tokens"}
    assert result.events == [NoticeEvent("the model reads the prompt", "progress", data=data), TextEvent("x")]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_reasoning_is_a_thought_and_no_part_of_the_answer(site: Site, name: str) -> None:
    thought = json.dumps({"choices": [{"delta": {name: "hmm"}}]})
    result = await talk(site, stream(thought, chunk("4", finish="stop")))
    assert result.events == [ThoughtEvent("hmm"), TextEvent("4")]
    assert (result.answer.text, result.answer.thought) == ("4", True)


async def test_what_is_not_known_passes_and_is_counted(site: Site) -> None:
    odd = ['{"object": "x"}', '{"choices": 5}', '{"choices": ["x"]}', '{"choices": [], "usage": null}']
    result = await talk(site, stream(*odd, chunk("a", finish="eos"), '{"usage": {"prompt_tokens": "many"}}'))
    assert (result.answer.text, result.answer.finish, result.answer.unknown) == ("a", "eos", 4)
    assert result.answer.usage == Usage()


async def test_after_the_word_of_the_end_nothing_that_breaks_takes_the_answer_back(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subagent_local._asking.chat._AFTER_FINISH", 0.2)
    for reply in (
        stream(chunk("a", finish="stop"), done=False),
        stream(chunk("a", finish="stop"), done=False, cut=10_000, hold=threading.Event()),
        Reply(sse(chunk("a", finish="stop")), cut=len(sse(chunk("a", finish="stop"))) - 5),
    ):
        result = await talk(site, reply, stall=60)
        assert (result.failure, result.answer.text) == (None, "a")


async def test_after_the_word_of_the_end_neither_an_error_nor_rubbish_takes_the_answer_back(site: Site) -> None:
    finished = chunk("a", finish="stop")
    for after in ('{"error": {"message": "boom"}}', "rubbish", "[" * 1000, "x" * (17 << 20)):
        result = await talk(site, stream(finished, USAGE, after))
        assert (result.failure, result.answer.text, result.answer.finish) == (None, "a", "stop")
        assert result.answer.usage == Usage(7, 2, 3)


async def test_after_the_word_of_the_end_a_server_that_goes_on_talking_is_left(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subagent_local._asking.chat._AFTER_FINISH", 0.3)
    result = await talk(site, stream(chunk("a", finish="stop"), *[chunk("", finish="abort")] * 999, pause=0.05))
    assert (result.failure, result.answer.finish) == (None, "stop")


async def test_an_empty_word_of_the_end_is_none(site: Site) -> None:
    result = await talk(site, stream(chunk("a", finish=""), chunk("b", finish="")))
    assert result.failure is not None
    assert "before the model server said that the answer is whole" in result.failure.message


async def test_the_answer_is_the_first_choice_wherever_it_stands(site: Site) -> None:
    other = {"index": 1, "delta": {"content": "WRONG"}, "finish_reason": "length"}
    both = json.dumps({"choices": [other, {"index": 0, "delta": {"content": "right"}}]})
    result = await talk(site, stream(both, json.dumps({"choices": [other]}), chunk(finish="stop")))
    assert (result.answer.text, result.answer.finish, result.answer.unknown) == ("right", "stop", 1)


async def test_a_list_of_parts_is_as_good_as_text(site: Site) -> None:
    parts = [{"type": "text", "text": "he"}, {"type": "image"}, 7, {"type": "text", "text": "y"}]
    piece = json.dumps({"choices": [{"delta": {"content": parts}, "finish_reason": "stop"}]})
    assert (await talk(site, stream(piece))).answer.text == "hey"


async def test_half_a_surrogate_pair_is_replaced_and_a_whole_one_is_a_character(site: Site) -> None:
    piece = '{"choices": [{"delta": {"content": "a\\ud800b\\ud83d\\ude00"}, "finish_reason": "stop"}]}'
    result = await talk(site, stream(piece))
    assert result.answer.text == "a\ufffdb\U0001f600"
    assert result.events == [TextEvent("a\ufffdb\U0001f600")]
    refused = await talk(site, Reply(b'{"error": "\\udfff"}', 500))
    assert refused.failure is not None
    assert refused.failure.message.endswith("HTTP 500: \ufffd")


async def test_what_is_no_number_of_tokens_is_not_counted(site: Site) -> None:
    odd = json.dumps({"choices": [], "usage": {"prompt_tokens": True, "completion_tokens": -5}})
    assert (await talk(site, stream(chunk("a", finish="stop"), odd))).answer.usage == Usage()


@pytest.mark.parametrize("index", range(3))
async def test_events_without_news_are_no_sign_of_life(site: Site, index: int) -> None:
    empty = (
        chunk(),
        chunk(prompt_progress={"total": 4000, "processed": 256}),
        '{"choices": [], "usage": {"prompt_tokens": 1}}',
    )[index]
    result = await talk(site, stream(*[empty] * 400, pause=0.05), stall=0.4)
    assert result.failure is not None
    assert result.failure.kind == "timeout"


async def test_a_prompt_that_is_being_read_is_waited_for(site: Site) -> None:
    progress = [chunk(prompt_progress={"total": 9, "processed": done}) for done in range(1, 10)]
    result = await talk(site, stream(*progress, chunk("a", finish="stop"), pause=0.1), stall=0.7)
    assert (result.failure, result.answer.text) == (None, "a")


@pytest.mark.parametrize("body", [{}, {"response_format": {}}], ids=["without a schema", "with a schema"])
async def test_a_bad_request_is_blamed_on_the_schema_where_there_is_one(site: Site, body: dict[str, object]) -> None:
    result = await talk(site, Reply(b'{"error": {"code": 400, "message": "cannot compile"}}', 400), body=body)
    assert result.failure is not None
    assert result.failure.kind == "policy"
    assert result.failure.message.startswith("the model server answered HTTP 400: cannot compile")
    assert ("hold an answer to the schema: simplify that" in result.failure.message) == bool(body)


async def test_what_comes_after_done_is_left_unread(site: Site) -> None:
    body = sse(chunk("a", finish="stop")) + sse(*[chunk("b")] * 50)
    result = await talk(site, Reply(body, chunked=True))
    assert (result.failure, result.answer.text) == (None, "a")


HALF = '{"name": "ab'
FAULTS: dict[str, tuple[Reply, str, str]] = {
    "no word of the end": (stream(chunk(HALF), done=False), "protocol", "before the model server said that the answer"),
    "done without the word of the end": (
        stream(chunk(HALF)),
        "protocol",
        "before the model server said that the answer",
    ),
    "a cut stream": (
        Reply(sse(chunk(HALF), chunk(HALF)), cut=100),
        "network",
        "the connection to the model server broke",
    ),
    "HTTP 500": (
        Reply(b'{"error": {"code": 500, "message": "does not match the expected peg-native format"}}', 500),
        "protocol",
        "HTTP 500: does not match the expected peg-native format",
    ),
    "HTTP 500 in words": (Reply(b"Internal Server Error", 500), "protocol", "HTTP 500: Internal Server Error"),
    "HTTP 502 with a wall of text": (Reply(b"x" * 200_000, 502), "protocol", "HTTP 502: xxx"),
    "HTTP 503 while it loads": (
        Reply(b'{"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}', 503),
        "overload",
        "Loading model",
    ),
    "HTTP 401": (
        Reply(b'{"error": {"code": 401, "message": "Invalid API Key", "type": "authentication_error"}}', 401),
        "auth",
        "Invalid API Key",
    ),
    "HTTP 404 of an unknown model": (Reply(b'{"error": "model \'x\' not found"}', 404), "model", "model 'x' not found"),
    "HTTP 429": (Reply(b"{}", 429), "overload", "HTTP 429: {}"),
    "HTTP 400 of a prompt that is too long": (
        Reply(
            b'{"error": {"code": 400, "message": "request (9018 tokens) exceeds the available context size",'
            b' "type": "exceed_context_size_error"}}',
            400,
        ),
        "model",
        "9018 tokens",
    ),
    "HTTP 204": (Reply(b"", 204), "protocol", "HTTP 204: without a reason"),
    "an error inside a 200": (
        stream(chunk("a"), '{"error": {"code": 500, "message": "out of memory", "type": "server_error"}}'),
        "protocol",
        "in place of an answer: out of memory",
    ),
    "an error of another shape inside a 200": (stream('{"error": {"why": 1}}'), "protocol", '{"why": 1}'),
    "an error as text inside a 200": (stream('{"error": "gone"}'), "protocol", "gone"),
    "an overload inside a 200": (stream('{"error": {"code": 429, "message": "busy"}}'), "overload", "busy"),
    "a 200 that is one error": (
        Reply(b'{"error": {"message": "no such model", "type": "not_found_error"}}'),
        "model",
        "no such model",
    ),
    "a 200 that is a page": (
        Reply(b"<html>hello</html>", headers={"Content-Type": "text/html"}),
        "protocol",
        "answered with text/html, not with an event stream",
    ),
    "a 200 without anything": (Reply(b""), "protocol", "answered with no Content-Type"),
    "rubbish": (stream("certainly!"), "protocol", "no piece of an answer: 'certainly!'"),
    "half a piece": (stream('{"choices": ['), "protocol", "no piece of an answer"),
    "a list": (stream("[1, 2]"), "protocol", "no piece of an answer"),
    "deep nesting": (stream("[" * 200_000), "protocol", "no piece of an answer"),
    "an event without end": (Reply(b"data: " + b"x" * (17 << 20)), "protocol", "an event of more than"),
    "an answer without end": (stream(*[chunk("x" * (4 << 20))] * 5), "protocol", "characters and no end"),
    "thoughts without end": (
        stream(*[json.dumps({"choices": [{"delta": {"reasoning_content": "x" * (4 << 20)}}]})] * 5),
        "protocol",
        "characters and no end",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
async def test_a_failure_has_a_kind_and_a_reason(site: Site, case: str) -> None:
    reply, kind, reason = FAULTS[case]
    result = await talk(site, reply)
    assert result.failure is not None
    assert (result.failure.kind, result.failure.stage) == (kind, "run")
    assert reason in result.failure.message
    assert result.failure.http_status in (None, 429, 500, reply.status)
    assert result.failure.retryable == (kind in ("overload", "timeout", "network"))


async def test_a_connection_that_nobody_takes_is_a_network_failure(unused_port: int) -> None:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{unused_port}", timeout=None, trust_env=False) as client:
        with anyio.fail_after(10), pytest.raises(ChatFailed) as caught:
            await ask(client, {}, Answer(), stall=5, accepted=lambda: None, emit=print)
    assert caught.value.failure.kind == "network"


async def test_a_server_that_hangs_is_a_timeout_and_keep_alive_comments_are_no_sign_of_life(site: Site) -> None:
    gate = threading.Event()
    pings = b"".join(b": ping\n\n" for _ in range(10))
    for reply in (
        Reply(b"", hold=gate, cut=0, length=False),
        Reply(pings + sse(chunk("a")), hold=gate, cut=len(pings), length=False),
    ):
        result = await talk(site, reply, stall=0.3)
        assert result.failure is not None
        assert (result.failure.kind, result.failure.retryable) == ("timeout", True)
        assert "said nothing for 0.3 s" in result.failure.message


async def test_a_server_that_is_slow_but_speaks_is_waited_for(site: Site) -> None:
    result = await talk(site, stream(*[chunk("a")] * 9, chunk(finish="stop"), pause=0.1), stall=0.7)
    assert (result.failure, result.answer.text) == (None, "a" * 9)


async def test_cancelling_closes_the_connection(site: Site) -> None:
    held = threading.Event()
    site.scripts[CHAT] = Reply(sse(chunk("a")) + b"x" * 9_000_000, cut=len(sse(chunk("a"), done=False)), hold=held)
    async with httpx.AsyncClient(base_url=site.url, timeout=None, trust_env=False) as client:
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:

                def stop(event: Event) -> None:
                    tasks.cancel_scope.cancel()

                await ask(client, {}, Answer(), stall=9, accepted=lambda: None, emit=stop)


def test_the_request_always_streams_and_always_has_a_temperature() -> None:
    body = chat_body(HI, schema=None, max_tokens=9, temperature=0.0)
    assert body == {
        "messages": HI,
        "max_tokens": 9,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
    }


def test_repetition_is_penalised_where_the_model_needs_it_and_never_in_json() -> None:
    def penalty(schema: dict[str, object] | None, value: float) -> object:
        body = chat_body(HI, schema=schema, max_tokens=9, temperature=0, repeat_penalty=value)
        return body.get("repeat_penalty")

    assert [penalty(None, 1.1), penalty(None, 1.0), penalty({}, 1.1)] == [1.1, None, None]


def test_a_schema_constrains_the_answer() -> None:
    schema: dict[str, object] = {"type": "object", "title": "Weather"}
    body = chat_body(HI, schema=schema, max_tokens=9, temperature=0)
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": True},
    }
