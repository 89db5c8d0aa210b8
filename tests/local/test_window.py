"""Whether a prompt fits, counted by a scripted server."""

from __future__ import annotations

import json
import threading

import anyio
import httpx
import pytest
from local_kit import Reply, Site

from subagent_local._asking.faults import ChatFailed
from subagent_local._asking.room import Window
from subagent_local._asking.window import measure

pytestmark = pytest.mark.anyio


def window_scripts(site: Site, tokens: int = 5, n_ctx: object = 100, n_train: object = 80) -> None:
    def page(value: object) -> Reply:
        return Reply(json.dumps(value).encode(), headers={"Content-Type": "application/json"})

    site.scripts["/apply-template"] = page({"prompt": "<|user|>hi"})
    site.scripts["/tokenize"] = page({"tokens": list(range(tokens))})
    site.scripts["/props"] = page({"default_generation_settings": {"n_ctx": n_ctx}})
    site.scripts["/v1/models"] = page({"data": [{"meta": {"n_ctx_train": n_train}}]})


async def measured(site: Site, timeout: float = 10) -> Window:
    async with httpx.AsyncClient(base_url=site.url, timeout=None, trust_env=False) as client:
        with anyio.fail_after(20):
            return await measure(client, [{"role": "user", "content": "hi"}], timeout=timeout)


async def test_a_prompt_is_counted_by_the_template_and_tokenizer_of_the_server(site: Site) -> None:
    window_scripts(site)
    assert await measured(site) == Window(prompt=5, context=80)
    asked = json.loads(site.asked("/tokenize")[0].body)
    assert asked == {"content": "<|user|>hi", "add_special": True, "parse_special": True}


async def test_the_files_to_write_are_counted_as_an_answer_that_leaves_them_as_they_are(site: Site) -> None:
    window_scripts(site)
    async with httpx.AsyncClient(base_url=site.url, timeout=None, trust_env=False) as client:
        with anyio.fail_after(20):
            window = await measure(client, [{"role": "user", "content": "hi"}], files='{"files": []}', timeout=10)
    assert window == Window(prompt=5, context=80, files=5)
    assert json.loads(site.asked("/tokenize")[1].body) == {"content": '{"files": []}'}


@pytest.mark.parametrize(("n_ctx", "n_train", "expected"), [(100, None, 100), ("x", 80, 80), (100, 0, 100)])
async def test_the_smaller_known_size_counts(site: Site, n_ctx: object, n_train: object, expected: int) -> None:
    window_scripts(site, n_ctx=n_ctx, n_train=n_train)
    assert (await measured(site)).context == expected


BROKEN: dict[str, tuple[str, Reply, str]] = {
    "refused": ("/tokenize", Reply(b'{"error": "no"}', 501), "protocol"),
    "no JSON": ("/tokenize", Reply(b"{"), "protocol"),
    "no list": ("/tokenize", Reply(b'{"tokens": 3}'), "protocol"),
    "hangs": ("/props", Reply(b"{}", cut=0, hold=threading.Event()), "timeout"),
    "cut": ("/v1/models", Reply(b"[1, 2, 3]", cut=3), "network"),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_a_server_that_cannot_count_is_a_failure(site: Site, case: str) -> None:
    path, reply, kind = BROKEN[case]
    window_scripts(site)
    site.scripts[path] = reply
    with pytest.raises(ChatFailed) as caught:
        await measured(site, timeout=0.5)
    assert caught.value.failure.kind == kind


async def test_without_any_size_of_the_window_nothing_is_sent(site: Site) -> None:
    window_scripts(site, n_ctx=None, n_train=None)
    site.scripts["/v1/models"] = Reply(b'{"data": []}')
    with pytest.raises(ChatFailed, match="how much fits"):
        await measured(site)
