"""`Local` around servers that a person runs: what is asked, what does not fit, what is written."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from dialect_kit import KINDS, MODEL, SCHEMA, Kind, ollama_pages, page, without_end
from local_kit import Reply, Site, run, start_error

import subagents
from subagent_local import Local
from subagent_local._servers.dialects import DIALECTS
from subagents import NoticeEvent, StartedEvent, TextEvent, ThoughtEvent, UsageEvent

pytestmark = pytest.mark.anyio


# -- a run -----------------------------------------------------------------------------------------------------------


async def test_every_kind_of_server_is_recognised_and_answers(site: Site, kind: Kind) -> None:
    kind.serve(site, kind.answer("Hello", "!", thought="hm"))
    result, events = await run(Local(url=site.url), "Say hello", instructions="Be brief.")
    assert [type(event) for event in events] == [
        NoticeEvent,
        StartedEvent,
        ThoughtEvent,
        TextEvent,
        UsageEvent,
    ]
    assert isinstance(events[0], NoticeEvent)
    assert (events[0].code, events[0].text) == ("server", f"{MODEL} of {kind.title} at {site.url}")
    assert (result.stop_reason, result.output, result.model) == ("completed", "Hello!", MODEL)
    assert (result.usage.input_tokens, result.usage.output_tokens) == (20, 2)
    assert result.evidence.terminal == "finish_reason=stop"


async def test_a_request_always_streams_has_a_temperature_and_keeps_the_model_from_thinking(
    site: Site, kind: Kind
) -> None:
    kind.serve(site)
    await run(Local(url=site.url, temperature=0.5, max_tokens=77), "hi", instructions="Be brief.")
    (body,) = kind.asked(site)
    options = body["options"] if kind.dialect == "ollama" else body
    assert isinstance(options, dict)
    assert (body["model"], body["stream"], options["temperature"]) == (MODEL, True, 0.5)
    assert options["num_predict" if kind.dialect == "ollama" else "max_tokens"] == 77
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    assert kind.off.items() <= body.items()
    # Only llama.cpp knows this one, and it needs it to see that a client has left while it reads the prompt.
    assert ("return_progress" in body) == (kind.dialect == "llama.cpp")


async def test_ollama_is_told_its_window_and_to_cut_nothing(site: Site) -> None:
    KINDS["ollama"].serve(site)
    for prompt in ("x", "word " * 400):
        await run(Local(url=site.url), prompt)
    short, body = KINDS["ollama"].asked(site)
    # With it a model is loaded anew that others use without it; what surely fits does without.
    assert (short["truncate"], "shift" in short) == (False, False)
    assert (body["truncate"], body["shift"]) == (False, False)
    assert "response_format" not in body
    assert not site.asked("/v1/chat/completions")


async def test_what_the_file_of_a_model_of_ollama_says_counts(site: Site) -> None:
    KINDS["ollama"].serve(site, context=4096)
    said = json.loads(ollama_pages()["/api/show"].body)
    site.scripts["/api/show"] = page({**said, "system": "You are a pirate. " * 120})
    await run(Local(url=site.url))
    (body,) = KINDS["ollama"].asked(site)
    assert body["shift"] is False
    site.scripts["/api/show"] = page({**said, "messages": [{"role": "user", "content": "Arr! " * 3000}]})
    assert "the 4,096 of the window" in (await start_error(Local(url=site.url))).failure.message


WINDOWS: dict[str, tuple[int | None, dict[str, int], int]] = {
    "of a loaded model it is the one that it has": (16384, {}, 16384),
    "of a loaded model it is ours where we say it": (16384, {"context": 6000}, 6000),
    "of another one it is the usual one": (None, {}, 8192),
    "it is no larger than what the model was made for": (None, {"context": 100_000}, 40960),
}


@pytest.mark.parametrize("case", WINDOWS)
async def test_the_window_of_ollama(site: Site, case: str) -> None:
    context, options, expected = WINDOWS[case]
    KINDS["ollama"].serve(site, context=context)
    await run(Local(url=site.url, **options))  # pyright: ignore[reportArgumentType]
    (body,) = KINDS["ollama"].asked(site)
    assert isinstance(body["options"], dict)
    assert body["options"]["num_ctx"] == expected


async def test_a_schema_constrains_the_answer_and_is_checked_whatever_the_server_says(site: Site, kind: Kind) -> None:
    kind.serve(site, kind.answer('{"n": 4}', read=60), kind.answer('{"n": "four"}', read=60))
    good, _ = await run(Local(url=site.url), output_schema=SCHEMA)
    assert (good.stop_reason, good.structured) == ("completed", {"n": 4})
    body = kind.asked(site)[0]
    if kind.dialect == "ollama":
        assert body["format"] == SCHEMA
    else:
        assert body["response_format"] == {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
        }
    bad, _ = await run(Local(url=site.url), output_schema=SCHEMA)
    assert bad.failure is not None
    assert (bad.failure.kind, bad.structured) == ("output", None)


async def test_an_address_may_end_as_people_paste_it(site: Site, kind: Kind) -> None:
    kind.serve(site)
    for end in ("/", "/v1", "/v1/"):
        result, _ = await run(Local(url=site.url + end, dialect=kind.dialect))  # pyright: ignore[reportArgumentType]
        assert result.ok


async def test_a_server_behind_a_path_is_asked_there(site: Site) -> None:
    kind = KINDS["vllm"]
    site.scripts.update({f"/models/a{path}": reply for path, reply in kind.pages().items()})
    site.scripts[f"/models/a{kind.chat}"] = kind.answer("a")
    assert (await run(Local(url=f"{site.url}/models/a")))[0].ok


# -- the window ------------------------------------------------------------------------------------------------------


async def test_a_prompt_that_does_not_fit_is_refused_before_it_is_sent(site: Site, kind: Kind) -> None:
    more = {"tokens": 3000} if kind.counts else {}
    kind.serve(site, context=4096, **more)
    error = await start_error(Local(url=site.url), "word, " * 2200)
    assert error.failure.kind == "model"
    assert "the 4,096 of the window" in error.failure.message
    assert ("about" in error.failure.message) != kind.counts
    assert error.failure.message.endswith(f"({next(d.widen for d in DIALECTS if d.name == kind.dialect)})")
    assert not kind.asked(site)


async def test_a_prompt_that_the_server_has_silently_cut_has_no_answer(site: Site, kind: Kind) -> None:
    more = {"tokens": 600} if kind.counts else {}
    kind.serve(site, kind.answer("all well", read=200), context=8192, **more)
    result, _ = await run(Local(url=site.url), "word, " * 400)
    assert result.failure is not None
    assert (result.stop_reason, result.failure.kind) == ("error", "model")
    assert "it has read 200 tokens of a prompt of" in result.failure.message
    assert "Shorten the prompt, or " in result.failure.message


async def test_text_that_is_few_tokens_is_not_taken_for_cut(site: Site) -> None:
    kind = KINDS["openai"]
    kind.serve(site, kind.answer("all well", read=300))
    result, _ = await run(Local(url=site.url), "=" * 3000 + "\n" + " " * 3000 + "word, " * 100)
    assert result.ok


async def test_a_server_that_says_0_does_not_count(site: Site, kind: Kind) -> None:
    whole = kind.answer("fine")
    kind.serve(site, Reply(whole.body.replace(b": 20,", b": 0,"), headers=whole.headers, length=False))
    result, _ = await run(Local(url=site.url), "word, " * 40)
    assert (result.ok, result.usage.input_tokens) == (True, None)


DENSE = {
    "Chinese": "我们需要在下一个版本之前修复这个问题" * 400,
    "digits": "3141592653589793238462643383279502884197" * 230,
}


@pytest.mark.parametrize("text", DENSE)
async def test_what_is_cut_of_text_without_blanks_is_noticed(site: Site, text: str) -> None:
    kind = KINDS["lm-studio"]
    kind.serve(site, kind.answer("all well", read=1000), context=8192)
    result, _ = await run(Local(url=site.url), DENSE[text][:5000])
    assert result.failure is not None
    assert "it has cut it" in result.failure.message


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.counts])
async def test_a_prompt_is_counted_as_it_will_be_asked(site: Site, name: str) -> None:
    """With thinking on, the template of some models puts much in front."""
    kind = KINDS[name]
    kind.serve(site)
    await run(Local(url=site.url))
    counted = [json.loads(seen.body) for path in ("/apply-template", "/tokenize") for seen in site.asked(path)]
    (asked,) = [body for body in counted if "messages" in body]
    assert kind.off.items() <= asked.items()


@pytest.mark.parametrize("status", [400, 422])
async def test_a_server_that_refuses_the_switch_for_thinking_is_asked_without_it(
    site: Site, kind: Kind, status: int
) -> None:
    refused = page({"error": {"message": "chat_template is not supported for Mistral tokenizers."}}, status)
    kind.serve(site, refused, kind.answer("fine"))
    result = await subagents.run(Local(url=site.url), "x")
    assert (result.ok, len(kind.asked(site))) == ((True, 2) if kind.off else (False, 1))
    if kind.off:
        first, second = kind.asked(site)
        assert first == {**second, **kind.off}
        assert not kind.off.keys() & second.keys()


async def test_a_prompt_that_is_too_long_is_not_sent_twice(site: Site, kind: Kind) -> None:
    kind.serve(site, page({"error": {"message": "This model's maximum context length is 40 tokens."}}, 400))
    assert (await start_error(Local(url=site.url))).failure.kind == "model"
    assert len(kind.asked(site)) == 1


async def test_the_advice_about_a_window_is_given_where_it_is_what_is_too_small(site: Site, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("x = 1\n" * 400)
    KINDS["llama.cpp"].serve(site, context=32768, tokens=900)
    local = Local(url=site.url, max_tokens=200)
    error = await start_error(local, "set x to 2", cwd=str(tmp_path), write=("app.py",))
    assert "raise max_tokens" in error.failure.message
    assert "--ctx-size" not in error.failure.message


FEW = {
    "long words": ("internationalization responsibility characteristics ", 3),
    "paths": ("/usr/lib/python3/dist-packages/requests/adapters.py ", 8),
    "code": ("self.client.session.get(self.url.path)\n", 7),
    "Hindi": ("यह एक बहुत ही महत्वपूर्ण परीक्षण है ", 7),
    "addresses": ("ann.smith@mail.example.org, ", 5),
}
"""Texts of which tokenizers make few tokens, and how many at the least."""


@pytest.mark.parametrize("case", FEW)
async def test_text_of_few_tokens_is_not_taken_for_cut(site: Site, case: str) -> None:
    text, tokens = FEW[case]
    kind = KINDS["openai"]
    kind.serve(site, kind.answer("all well", read=60 * tokens))
    result, _ = await run(Local(url=site.url), text * 60)
    assert result.ok


async def test_a_window_of_which_nothing_is_known_is_taken_for_4096(site: Site) -> None:
    kind = KINDS["openai"]
    kind.serve(site)
    assert "the 4,096 of the window" in (await start_error(Local(url=site.url), "word, " * 2200)).failure.message
    result, _ = await run(Local(url=site.url, context=32768), "word, " * 2200)
    assert result.failure is not None
    assert "it has cut it" in result.failure.message  # it was sent, and this server says that it has read 20 tokens


async def test_vllm_without_a_page_that_counts_is_estimated(site: Site) -> None:
    kind = KINDS["vllm"]
    kind.serve(site)
    del site.scripts["/tokenize"]
    assert (await run(Local(url=site.url)))[0].ok
    error = await start_error(Local(url=site.url), "word, " * 2200)
    assert "has about 4,070 tokens" in error.failure.message


async def test_a_model_of_lm_studio_that_is_not_loaded_gets_a_window_that_it_surely_has(site: Site) -> None:
    kind = KINDS["lm-studio"]
    kind.serve(site, context=None)
    assert "the 4,096 of the window" in (await start_error(Local(url=site.url), "word, " * 2200)).failure.message


# -- writing files ---------------------------------------------------------------------------------------------------


async def test_files_are_written_by_a_server_too(site: Site, kind: Kind, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("x = 1\n")
    answer = json.dumps({"files": [{"path": "app.py", "content": "x = 2\n"}], "notes": "done"})
    kind.serve(site, kind.answer(answer, read=200))
    result, _ = await run(Local(url=site.url), "set x to 2", cwd=str(tmp_path), write=("app.py",))
    assert result.ok, result
    assert (tmp_path / "app.py").read_text() == "x = 2\n"


async def test_an_answer_to_a_part_of_the_files_writes_nothing(site: Site, kind: Kind, tmp_path: Path) -> None:
    text = "".join(f"value_{number} = {number}\n" for number in range(150))
    (tmp_path / "app.py").write_text(text)
    answer = json.dumps({"files": [{"path": "app.py", "content": "x = 2\n"}], "notes": "done"})
    more = {"tokens": 1500} if kind.counts else {}
    kind.serve(site, kind.answer(answer, read=200), context=16384, **more)
    result, _ = await run(Local(url=site.url), "set x to 2", cwd=str(tmp_path), write=("app.py",))
    assert result.failure is not None
    assert "it has cut it" in result.failure.message
    assert (tmp_path / "app.py").read_text() == text


# -- stopping --------------------------------------------------------------------------------------------------------


async def test_cancelling_closes_the_connection(site: Site, kind: Kind) -> None:
    whole = kind.answer("a")
    kind.serve(site, Reply(without_end(whole).body + b"\n" * 50_000_000, headers=whole.headers, length=False))
    with anyio.fail_after(20):
        async with Local(url=site.url).start("x") as started:
            async for event in started.events():
                if isinstance(event, TextEvent):
                    started.cancel()
            result = await started.closed()
        assert result.stop_reason == "aborted"
        assert await anyio.to_thread.run_sync(site.left.wait, 10)
