"""`Local` around a real llama-server with the real small model, as a person would run it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from llama_kit import KEY, NAME, WINDOW, Llama
from local_kit import run, start_error

from subagent_local import Local
from subagent_local._asking.pages import fetch
from subagent_local._asking.room import least
from subagent_local._json import at, items
from subagent_local._servers.looking import open_client
from subagents import NoticeEvent, Result, TextEvent, UsageEvent

pytestmark = pytest.mark.anyio

QUESTION = "Explain in one sentence what a Python context manager is."
ENDLESS = "Count from one to a thousand, one number on each line."


async def test_a_real_server_is_recognised_and_answers(llama: Llama) -> None:
    result, events = await run(llama.local(max_tokens=300), QUESTION)
    assert result.ok, result
    assert isinstance(events[0], NoticeEvent)
    assert events[0].text == f"{NAME} of llama-server at {llama.url}"
    assert "".join(event.text for event in events if isinstance(event, TextEvent)) == result.output
    assert isinstance(events[-1], UsageEvent)
    assert (result.model, result.evidence.terminal) == (NAME, "finish_reason=stop")
    assert result.usage.input_tokens
    assert result.usage.output_tokens


async def test_a_real_server_holds_the_model_to_a_schema(llama: Llama) -> None:
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "green"]}},
        "required": ["colour"],
        "additionalProperties": False,
    }
    result, _ = await run(llama.local(max_tokens=100), "Which colour has an apple?", output_schema=schema)
    assert result.ok, result
    assert result.structured in ({"colour": "red"}, {"colour": "green"})


async def test_an_answer_that_reaches_its_limit_is_cut_off(llama: Llama) -> None:
    result, _ = await run(llama.local(max_tokens=3), QUESTION)
    assert (result.stop_reason, result.usage.output_tokens) == ("max-tokens", 3)


async def test_what_does_not_fit_is_refused_before_it_is_sent_with_the_numbers(llama: Llama) -> None:
    error = await start_error(llama.local(max_tokens=40), "word " * 5000)
    assert error.failure.kind == "model"
    assert "the prompt has 5,0" in error.failure.message
    assert "the 4,096 of the window" in error.failure.message
    assert "larger --ctx-size" in error.failure.message
    smaller = await start_error(llama.local(context=512, max_tokens=40), "word " * 600)
    assert "the 512 of the window" in smaller.failure.message


async def test_without_its_key_a_real_server_refuses(llama: Llama) -> None:
    for local in (Local(url=llama.url), Local(url=llama.url, api_key="another-key-than-that")):
        error = await start_error(local)
        assert (error.failure.kind, error.failure.http_status) == ("auth", 401)
        assert "Invalid API Key" in error.failure.message


async def test_the_models_of_a_real_server_and_its_probe(llama: Llama) -> None:
    (model,) = await llama.local().models()
    assert (model.name, model.context, model.default, model.present) == (NAME, WINDOW, True, True)
    assert (model.size or 0) > 90_000_000
    probe = await llama.local().probe()
    assert (probe.available, probe.path) == (True, llama.url)
    error = await start_error(llama.local(model="another"))
    assert f"no model that is called 'another': it has {NAME}" in error.failure.message


TEXTS = {
    "code": Path(__file__).read_text(encoding="utf-8"),
    "paths": "/usr/lib/python3/dist-packages/requests/adapters.py\n" * 20,
    "dotted": "self.client.session.get(self.url.path)\n" * 20,
    "SQL": "SELECT a.id, b.name FROM users a JOIN names b ON a.id = b.id WHERE b.name LIKE '%x%';\n" * 20,
    "Hindi": "यह एक बहुत ही महत्वपूर्ण परीक्षण है\n" * 20,
    "Japanese": "私たちは次のバージョンの前にこの問題を修正する必要があります\n" * 20,
    "long words": "internationalization responsibility characteristics " * 20,
    "JSON": '{"a":1,"b":[2,3],"c":{"d":"e"}}' * 20,
}


@pytest.mark.parametrize("text", TEXTS)
async def test_no_text_has_fewer_tokens_than_the_least(llama: Llama, text: str) -> None:
    async with open_client(llama.url, KEY) as client:
        tokens = len(items(at(await fetch(client, "/tokenize", {"content": TEXTS[text]}), "tokens")))
    assert tokens
    assert least(TEXTS[text]) <= tokens


async def stopped(local: Local, prompt: str, when: type[TextEvent | NoticeEvent]) -> Result:
    """A run that is stopped at the first event of its kind after its start."""
    with anyio.fail_after(30):
        async with local.start(prompt) as started:
            async for event in started.events():
                if isinstance(event, when) and getattr(event, "code", "progress") == "progress":
                    started.cancel()
            return await started.closed()


async def test_a_stop_in_the_middle_of_an_answer_frees_the_only_slot(llama: Llama) -> None:
    result = await stopped(llama.local(max_tokens=3900), ENDLESS, TextEvent)
    assert result.stop_reason == "aborted"
    # It would have gone on for half a minute, and there is one slot.
    again, _ = await run(llama.local(max_tokens=3), QUESTION)
    assert again.stop_reason == "max-tokens"


async def test_a_stop_in_the_middle_of_the_prompt_frees_the_only_slot(llama: Llama) -> None:
    result = await stopped(llama.local(max_tokens=40), "some words " * 1800, NoticeEvent)
    assert (result.stop_reason, result.output) == ("aborted", "")
    again, _ = await run(llama.local(max_tokens=3), QUESTION)
    assert again.stop_reason == "max-tokens"
