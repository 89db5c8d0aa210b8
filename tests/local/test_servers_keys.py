"""Keys, redirects and proxies of servers, and options that are refused: what must not go where it does not belong."""

from __future__ import annotations

import logging
from typing import get_args

import httpx
import pytest
from dialect_kit import KINDS, Kind, page
from local_kit import Reply, Site, run, running_site, start_error

import subagents
from subagent_local import Local, LocalOptions
from subagent_local._servers.dialects import DIALECTS
from subagent_local.options import DialectName

pytestmark = pytest.mark.anyio

KEY = "very-secret-key-0123456789"


# -- the key ---------------------------------------------------------------------------------------------------------


async def test_the_key_goes_in_a_header_and_nowhere_else(
    site: Site, kind: Kind, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    kind.serve(site)
    monkeypatch.setenv("MY_SERVER_KEY", KEY)
    told: list[object] = []
    for local in (Local(url=site.url, api_key=KEY), Local(url=site.url, api_key_env="MY_SERVER_KEY")):
        site.seen.clear()
        result, events = await run(local)
        assert result.ok
        assert site.seen
        for seen in site.seen:
            assert seen.headers["Authorization"] == f"Bearer {KEY}"
            assert KEY not in seen.path + seen.body.decode()
        told += [result, events, local.options, local.__dict__, await local.probe(), await local.models()]
    assert KEY not in repr(told) + caplog.text


async def test_without_a_key_none_is_sent(site: Site, kind: Kind) -> None:
    kind.serve(site)
    await run(Local(url=site.url))
    assert not any("Authorization" in seen.headers for seen in site.seen)


async def test_a_server_that_repeats_the_key_is_not_quoted(
    site: Site, kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    local = Local(url=site.url, api_key=KEY)
    refusal = page({"error": {"message": f"Invalid key: {KEY}"}}, 401)
    kind.serve(site, refusal)
    late = await start_error(local)
    site.scripts = {"/v1/models": refusal}
    early = await start_error(local)
    for error in (late, early):
        assert error.failure.kind == "auth"
        assert "Invalid key: [redacted]. Give the key that it wants as api_key_env" in error.failure.message
        assert error.__suppress_context__ or error.__cause__ is None
    probe = await local.probe()
    assert "api_key_env" in probe.fix
    assert KEY not in caplog.text + repr(probe)


@pytest.mark.parametrize("told", ["finish", "rubbish", "cut in two", "an object", "escaped"])
async def test_wherever_a_server_repeats_the_key_it_is_not_told(site: Site, told: str) -> None:
    """Whole or in part: what is quoted is cut, and a cut key has no shape."""
    key = 'odd"key\\with-marks-0123' if told == "escaped" else KEY
    replies = {
        "finish": KINDS["openai"].answer("a", finish=key),
        "rubbish": Reply(f"data: {'x' * 185}{key}\n\n".encode(), headers={"Content-Type": "text/event-stream"}),
        "cut in two": Reply(f"{'x' * 485}{key}".encode(), 500),
        "an object": page({"error": {"message": {"is": [key]}}}, 500),
        "escaped": page({"error": {"message": {"is": [key]}}}, 500),
    }
    KINDS["openai"].serve(site, replies[told])
    result = await subagents.run(Local(url=site.url, api_key=key), "x")
    assert result.stop_reason == "error"
    assert key[:7] not in repr(result)


async def test_a_variable_that_holds_no_key_is_an_auth_failure(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    local = Local(url=site.url, api_key_env="MY_SERVER_KEY")
    monkeypatch.delenv("MY_SERVER_KEY", raising=False)
    error = await start_error(local)
    assert (error.failure.kind, "MY_SERVER_KEY" in error.failure.message) == ("auth", True)
    assert "MY_SERVER_KEY" in (await local.probe()).detail
    assert not site.seen


async def test_a_redirect_is_not_followed(site: Site) -> None:
    with running_site() as other:
        KINDS["vllm"].serve(other)
        KINDS["vllm"].serve(site, Reply(b"", 308, {"Location": f"{other.url}/v1/chat/completions"}))
        assert "a redirect" in (await start_error(Local(url=site.url, api_key=KEY))).failure.message
        for status in (301, 307):
            site.scripts = {"/v1/models": Reply(b"", status, {"Location": f"{other.url}/v1/models"})}
            unknown = (await start_error(Local(url=site.url))).failure.message
            assert f"none of /v1/models (HTTP {status}, a redirect), /api/tags (HTTP 404)" in unknown
            named = await start_error(Local(url=site.url, dialect="openai", model="m"))
            assert f"HTTP {status}, a redirect, which is not followed" in named.failure.message
        assert not other.seen


async def test_a_server_in_trouble_is_told_as_that(site: Site) -> None:
    site.scripts = {"/v1/models": Reply(b"bad gateway", 502)}
    assert "/v1/models (HTTP 502)" in (await start_error(Local(url=site.url))).failure.message
    error = await start_error(Local(url=site.url, dialect="openai", model="m"))
    assert (error.failure.http_status, "bad gateway" in error.failure.message) == (502, True)


# -- proxies ---------------------------------------------------------------------------------------------------------


async def test_proxies_count_for_other_machines_and_not_for_this_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = KINDS["openai"]
    kind.serve(site)
    with running_site() as proxy:
        for name in ("NO_PROXY", "no_proxy", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        port = site.url.rpartition(":")[2]
        for host in ("127.0.0.1", "localhost", "0.0.0.0"):
            assert (await run(Local(url=f"http://{host}:{port}")))[0].ok
        assert not proxy.seen
        base = "http://models.example"
        proxy.scripts = {base + path: reply for path, reply in kind.pages().items()}
        proxy.scripts[f"{base}{kind.chat}"] = kind.answer("from afar")
        assert (await run(Local(url=base)))[0].output == "from afar"


async def test_a_proxy_that_cannot_be_used_is_a_reason_without_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", "ftp://me:password@proxy.example")
    error = await start_error(Local(url="http://models.example"))
    assert error.failure.kind == "network"
    assert "the proxy that the environment names cannot be used" in error.failure.message
    assert "password" not in error.failure.message


async def test_nothing_is_logged_by_the_client_but_addresses(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    KINDS["openai"].serve(site)
    await run(Local(url=site.url, api_key=KEY), "a very private question")
    assert httpx.__name__ in {record.name for record in caplog.records}
    assert "very private" not in caplog.text


# -- options ---------------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[dict[str, object], str]] = {
    "no scheme": ({"url": "localhost:8080"}, "http://… or https://…"),
    "another scheme": ({"url": "ftp://localhost"}, "http://… or https://…"),
    "no host": ({"url": "http://"}, "http://… or https://…"),
    "no port": ({"url": f"http://localhost:{KEY}"}, "http://… or https://…"),
    "a password": ({"url": f"http://me:{KEY}@localhost"}, "give the key as api_key"),
    "a password with a slash": ({"url": f"http://me:1/{KEY}@localhost"}, "give the key as api_key"),
    "an empty query": ({"url": "http://localhost/?"}, "no user, password, query or fragment"),
    "an empty fragment": ({"url": "http://localhost#"}, "no user, password, query or fragment"),
    "a blank in it": ({"url": "http://local host"}, "http://… or https://…"),
    "a line in it": ({"url": "ht\ntp://localhost"}, "http://… or https://…"),
    "a query": ({"url": f"http://localhost/?key={KEY}"}, "give the key as api_key"),
    "a key without a server": ({"api_key": KEY}, "api_key is of a server"),
    "a dialect without a server": ({"dialect": "ollama"}, "dialect is of a server"),
    "an unknown dialect": ({"url": "http://localhost", "dialect": "klingon"}, "'ollama'"),
    "two keys": ({"url": "http://localhost", "api_key": KEY, "api_key_env": "A"}, "give one"),
    "a key for whoever listens": ({"url": "auto", "api_key": KEY}, "whoever listens"),
    "a dialect for whoever listens": ({"url": "auto", "dialect": "ollama"}, "whoever listens"),
    "a key of two lines": ({"url": "http://localhost", "api_key": f"{KEY}\n"}, "printable ASCII"),
    "a key in place of a variable": ({"url": "http://localhost", "api_key_env": KEY}, "the name of a variable"),
    "threads of a server": ({"url": "http://localhost", "threads": 2}, "threads is of the engine of our own"),
    "room that is none, and a key": ({"url": "http://x", "api_key": KEY, "context": 512, "max_tokens": 512}, "smaller"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_option_is_refused_without_quoting_what_may_be_secret(case: str) -> None:
    options, reason = WRONG[case]
    with pytest.raises(ValueError, match="validation error") as caught:
        Local(**options)  # pyright: ignore[reportArgumentType]
    assert reason in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "pasted",
    [
        *("HTTP://LocalHost:80", " http://localhost:80\n", "http://localhost:80/v1", "http://localhost:80/v1/models/"),
        *("http://localhost:80/v1/chat/completions", "http://localhost:80/api/chat", "http://localhost:80//"),
    ],
)
def test_an_address_is_kept_in_one_form(pasted: str) -> None:
    assert LocalOptions(url=pasted).url == "http://localhost:80"


@pytest.mark.parametrize("base", ["https://openrouter.ai/api", "http://host/llm", "http://host/@org/a"])
def test_what_stands_in_front_of_the_page_stays(base: str) -> None:
    for end in ("", "/", "/v1", "/v1/models", "/v1/chat/completions"):
        assert LocalOptions(url=base + end).url == base


def test_room_for_an_answer_is_held_against_a_window_that_is_known() -> None:
    assert LocalOptions(url="http://localhost", max_tokens=9000).max_tokens == 9000
    for options in ({"max_tokens": 9000}, {"url": "http://localhost", "max_tokens": 9000, "context": 8192}):
        with pytest.raises(ValueError, match="must be smaller than context"):
            LocalOptions.model_validate(options)


def test_the_names_of_the_dialects_are_those_of_the_table() -> None:
    assert set(get_args(DialectName)) == {dialect.name for dialect in DIALECTS}
    assert LocalOptions(url="auto").named_model is None
    assert LocalOptions(url="auto", model="a").named_model == "a"
