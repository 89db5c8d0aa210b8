"""How an answer of a server ends, and what else than an answer it may give (case 8-07 and its like)."""

from __future__ import annotations

import json
import threading

import pytest
from dialect_kit import JSON, KINDS, SCHEMA, Kind, lines, ollama_answer, page, without_end
from local_kit import Reply, Site, piece, run, sse, start_error

from subagent_local import Local

pytestmark = pytest.mark.anyio


# -- how an answer ends ----------------------------------------------------------------------------------------------


def cut(reply: Reply, part: float) -> Reply:
    return Reply(reply.body, cut=int(len(reply.body) * part), headers=reply.headers)


HALF = '{"n": 4'
ENDS = {
    "is cut off at the limit": ("max-tokens", None, ""),
    "is whole, then blanks to the limit": ("max-tokens", None, ""),
    "has no word of the end": ("error", "protocol", "before the model server said that the answer is whole"),
    "says done and not why": ("error", "protocol", "before the model server said that the answer is whole"),
    "breaks off in the middle": ("error", "network", "the connection to the model server broke"),
    "hangs in the middle": ("error", "timeout", "said nothing for 1"),
    "turns into rubbish": ("error", "protocol", "no piece of an answer"),
    "turns into an error": ("error", "protocol", "in place of an answer: out of memory"),
    "turns into an error of its window": ("error", "model", "in place of an answer: Context size has been exceeded."),
    "is empty": ("error", "output", "the model gave an empty answer"),
    "is reasoning only": ("error", "output", "thought about it and gave no answer"),
}


def ending(kind: Kind, case: str) -> Reply:
    whole = kind.answer(HALF, HALF)
    error, own = {"error": "out of memory"}, {"error": {"message": "Context size has been exceeded."}}
    native = kind.dialect == "ollama"
    start = without_end(whole)

    def then(value: object) -> Reply:
        more = json.dumps(value) + "\n" if native else f"data: {json.dumps(value)}\n\n"
        return Reply(start.body + more.encode(), headers=start.headers, length=False)

    replies = {
        "is cut off at the limit": lambda: kind.answer(HALF, finish="length", read=60),
        "is whole, then blanks to the limit": lambda: kind.answer('{"n": 4}', " " * 5000, finish="length", read=60),
        "has no word of the end": lambda: start,
        "says done and not why": lambda: kind.answer(HALF, finish=None, read=None),
        "breaks off in the middle": lambda: cut(whole, 0.6),
        "hangs in the middle": lambda: Reply(
            whole.body, cut=len(start.body), headers=whole.headers, hold=threading.Event(), length=False
        ),
        "turns into rubbish": lambda: Reply(
            start.body + (b"}\n" if native else b"data: }\n\n"), headers=start.headers, length=False
        ),
        "turns into an error": lambda: then(error),
        "turns into an error of its window": lambda: then(own),
        "is empty": lambda: kind.answer("", read=60),
        "is reasoning only": lambda: kind.answer("", thought="hm", read=60),
    }
    return replies[case]()


@pytest.mark.parametrize("case", ENDS)
@pytest.mark.parametrize("name", ["llama.cpp", "ollama"])
async def test_an_answer_that_ends_otherwise_is_none(site: Site, name: str, case: str) -> None:
    stop, failure, reason = ENDS[case]
    kind = KINDS[name]
    kind.serve(site, ending(kind, case))
    stall = 1.0 if "hangs" in case else 20.0
    result, _ = await run(Local(url=site.url, stall_timeout=stall), output_schema=SCHEMA)
    assert (result.stop_reason, result.failure and result.failure.kind) == (stop, failure)
    assert result.structured is None
    assert reason in (result.failure.message if result.failure else "")


async def test_an_answer_without_choices_is_none(site: Site) -> None:
    KINDS["openai"].serve(site, sse({"choices": []}, {"choices": []}))
    result, _ = await run(Local(url=site.url))
    assert result.failure is not None
    assert (result.failure.kind, result.output) == ("protocol", "")


async def test_the_named_error_event_of_lm_studio_is_an_error_whatever_it_holds(site: Site) -> None:
    kind = KINDS["lm-studio"]
    start = without_end(kind.answer("a"))
    for data, reason in (
        ('{"error": {"message": "The model has crashed"}}', "The model has crashed"),
        ('{"message": "gone"}', '{"message": "gone"}'),
        ("plain words", "plain words"),
    ):
        body = start.body + f"event: error\ndata: {data}\n\n".encode()
        kind.serve(site, Reply(body, headers=start.headers, length=False))
        result, _ = await run(Local(url=site.url))
        assert result.failure is not None
        assert reason in result.failure.message


REFUSALS: dict[str, tuple[Reply, str, str]] = {
    "HTTP 500": (page({"error": {"message": "peg-native"}}, 500), "protocol", "HTTP 500: peg-native"),
    "HTTP 500 of a wall": (Reply(b"x" * 100_000, 500), "protocol", "HTTP 500: xxx"),
    "HTTP 503": (page({"error": {"message": "Loading model", "type": "unavailable_error"}}, 503), "overload", "Load"),
    "HTTP 429": (page({"error": "server busy, please try again"}, 429), "overload", "server busy"),
    "HTTP 401": (page({"error": "unauthorized"}, 401), "auth", "unauthorized"),
    "HTTP 404": (page({"error": "model 'qwen3:8b' not found"}, 404), "model", "not found"),
    "too long for Ollama's engine": (
        page(
            {
                "error": json.dumps(
                    {
                        "error": {
                            "code": 400,
                            "message": "request (8889 tokens) exceeds the available context size (4096 tokens)",
                            "type": "exceed_context_size_error",
                        }
                    }
                )
            },
            400,
        ),
        "model",
        "HTTP 400: request (8889 tokens) exceeds the available context size",
    ),
    "too long for Ollama": (
        page({"error": "the prompt is longer than the context length currently available to the model; shorten"}, 400),
        "model",
        "longer than the context length",
    ),
    "too long for vLLM": (
        page(
            {"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400},
            400,
        ),
        "model",
        "HTTP 400: This model's maximum context length",
    ),
    "too long for the OpenAI API": (
        page({"error": {"message": "Too many.", "code": "context_length_exceeded"}}, 400),
        "model",
        "Too many.",
    ),
    "too long for LM Studio, inside a 200": (
        Reply(b'{"error": "the model is loaded with context length of only 2048 tokens, which is not enough"}'),
        "model",
        "context length of only 2048",
    ),
    "a page": (Reply(b"<html>", headers={"Content-Type": "text/html"}), "protocol", "not with an event stream"),
    "JSON where a stream was asked for": (
        page({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}),
        "protocol",
        "answered with application/json, not with an event stream",
    ),
    "a redirect": (Reply(b"", 307, {"Location": "http://198.51.100.1/"}), "protocol", "a redirect, which is not"),
}


@pytest.mark.parametrize("case", REFUSALS)
async def test_a_refusal_before_the_first_word_is_a_start_error(site: Site, case: str) -> None:
    reply, kind, reason = REFUSALS[case]
    KINDS["openai"].serve(site, reply)
    error = await start_error(Local(url=site.url))
    assert error.failure.kind == kind
    assert reason in error.failure.message


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (sse(piece("a", "stop")), "no piece of an answer"),
        (Reply(b"<html>no</html>", headers={"Content-Type": "text/html"}), "no piece of an answer"),
        (Reply(b"", headers=JSON), "answered with application/json, not with lines of JSON"),
        (Reply(b"x" * (17 << 20)), "a line of more than"),
        (Reply(b'{"error": "gone"}'), "in place of an answer: gone"),
    ],
    ids=["an event stream", "a page", "nothing", "a line without end", "an error without an end of its line"],
)
async def test_what_is_no_lines_of_json_is_no_answer_of_ollama(site: Site, reply: Reply, reason: str) -> None:
    KINDS["ollama"].serve(site, reply)
    error = await start_error(Local(url=site.url))
    assert error.failure.kind == "protocol"
    assert reason in error.failure.message


async def test_a_last_line_of_ollama_may_lack_its_end_and_blank_lines_pass(site: Site) -> None:
    whole = ollama_answer("a", "b")
    body = whole.body.replace(b"\n", b"\n\n").strip()
    KINDS["ollama"].serve(site, Reply(body, headers=whole.headers, length=False))
    result, _ = await run(Local(url=site.url))
    assert (result.ok, result.output) == (True, "ab")


async def test_a_prompt_from_the_cache_of_an_old_ollama_has_no_number_and_is_not_taken_for_cut(site: Site) -> None:
    whole = ollama_answer("a", read=None)
    KINDS["ollama"].serve(
        site, whole, Reply(whole.body.replace(b'"done": true', b'"done": true, "prompt_eval_count": 0'))
    )
    for _ in range(2):
        result, _ = await run(Local(url=site.url), "word " * 500)
        assert (result.ok, result.usage.input_tokens) == (True, None)


async def test_an_answer_in_json_of_the_odd_server_is_read_within_a_bound(site: Site) -> None:
    site.scripts["/v1/models"] = Reply(b" " * (17 << 20), headers=JSON)
    error = await start_error(Local(url=site.url, dialect="openai"))
    assert "lists no model (/v1/models: no JSON)" in error.failure.message


async def test_a_stream_where_a_list_of_models_was_asked_for_is_no_list(site: Site) -> None:
    site.scripts["/v1/models"] = sse(piece("a"))
    error = await start_error(Local(url=site.url))
    assert (error.failure.kind, "no model server that is known" in error.failure.message) == ("protocol", True)


async def test_the_page_that_counts_has_to_answer_in_json(site: Site) -> None:
    kind = KINDS["llama.cpp"]
    kind.serve(site)
    site.scripts["/apply-template"] = sse(piece("a"))
    error = await start_error(Local(url=site.url))
    assert "answered /apply-template with text/event-stream, not with JSON" in error.failure.message
    site.scripts["/apply-template"] = lines(*[{"x": "y" * 1000}] * 20_000)
    assert "without an end" in (await start_error(Local(url=site.url))).failure.message


async def test_a_server_that_goes_on_after_the_last_word_has_given_no_whole_answer(site: Site, kind: Kind) -> None:
    whole, late = kind.answer("a"), kind.answer("b", finish=None, read=None)
    body = whole.body.replace(b"data: [DONE]\n\n", b"") + late.body
    kind.serve(site, Reply(body, headers=whole.headers, length=False))
    result, _ = await run(Local(url=site.url))
    assert result.failure is not None
    assert (result.failure.kind, "went on" in result.failure.message) == ("protocol", True)


async def test_an_error_inside_a_stream_is_not_asked_again(site: Site, kind: Kind) -> None:
    """Once the run has begun, whatever its code."""
    bad = {"error": {"code": 400, "message": "thinking is not supported"}}
    begun = without_end(kind.answer("a")).body
    body = begun + (json.dumps(bad) + "\n" if kind.dialect == "ollama" else f"data: {json.dumps(bad)}\n\n").encode()
    kind.serve(site, Reply(body, headers=kind.answer().headers, length=False))
    result, _ = await run(Local(url=site.url))
    assert result.stop_reason == "error"
    assert len(kind.asked(site)) == 1


@pytest.mark.parametrize(
    "says",
    [
        "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 9)",
        "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)",
        "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
        "You passed 9000 input tokens and requested 0 output tokens. However, the model's context length is only 8192",
    ],
)
async def test_a_prompt_that_is_too_long_is_told_in_many_words(site: Site, says: str) -> None:
    KINDS["openai"].serve(site, page({"error": {"message": says}}, 400))
    assert (await start_error(Local(url=site.url))).failure.kind == "model"


async def test_a_status_stands_though_its_explanation_never_ends(site: Site) -> None:
    hold = threading.Event()
    KINDS["openai"].serve(site, Reply(b"x" * 100, 500, cut=50, hold=hold))
    error = await start_error(Local(url=site.url))
    hold.set()
    assert error.failure.http_status == 500


async def test_a_connection_that_breaks_while_it_is_asked_for_its_models_says_how(site: Site) -> None:
    site.scripts["/v1/models"] = Reply(b"{" * 100, cut=50)
    error = await start_error(Local(url=site.url, dialect="openai"))
    assert error.failure.kind == "network"
    assert not error.failure.message.endswith(": ")


async def test_a_body_in_another_encoding_is_told(site: Site) -> None:
    kind = KINDS["openai"]
    kind.serve(site, Reply(b"\x1f\x8b", headers={**kind.answer().headers, "Content-Encoding": "gzip"}))
    assert "text/event-stream in gzip" in (await start_error(Local(url=site.url))).failure.message


@pytest.mark.parametrize("word", ["none", "Identity", "utf-8"])
async def test_a_word_for_no_encoding_is_none(site: Site, kind: Kind, word: str) -> None:
    whole = kind.answer("a")
    kind.serve(site, Reply(whole.body, headers={**whole.headers, "Content-Encoding": word}, length=False))
    assert (await run(Local(url=site.url)))[0].ok
