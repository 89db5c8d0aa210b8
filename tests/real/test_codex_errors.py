"""What can go wrong between the real Codex and a model server, and what a caller is told: `pytest -s` prints a table.

With the default bounds of retries and without any; nothing of it hangs, and the key is in no message.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from codex_kit import Told, against, shell, told

from subagent_codex import Codex, _patience
from subagent_testing import ScriptedResponses, responses
from subagents import Failure, Result, StartError

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("codex_binary")]

KEY: Final = "Key-Of-No-Known-Shape-91375-xyz"
NO_RETRIES: Final = {"request_max_retries": 0, "stream_max_retries": 0}
TRIES: Final = {"never": 1, "request": 2, "stream": 3, "both": 6}
"""Requests that come with the default bounds (1 and 2), by what the engine repeats."""

HTML: Any = "<html>Bad Gateway</html>"
RESETS: Final = int(time.time()) + 7200
USED_UP: Final = {"type": "usage_limit_reached", "message": "used up", "plan_type": "plus", "resets_at": RESETS}
WINDOW: Final = {
    "x-codex-primary-used-percent": "100",
    "x-codex-primary-window-minutes": "300",
    "x-codex-primary-reset-at": str(RESETS),
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def error(code: str, message: str = "this is what the server says", **more: object) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, **more}}


@dataclass(frozen=True)
class Row:
    """What the server does, and what comes of it.

    Attributes:
        server: its answer to every request; None: there is none.
        expected: stop reason, kind, whether it may succeed later.
        repeated: what the engine does about it by itself, a key of TRIES.
        status: the HTTP status that is told.
        says: words of the message.
        options: of the provider.
    """

    server: responses.Turn | None
    expected: tuple[str, str | None, bool]
    repeated: str = "never"
    status: int | None = None
    says: str = ""
    options: dict[str, Any] = field(default_factory=dict[str, Any])


LIMIT: Final = ("error", "limit", True)
OVERLOAD: Final = ("error", "overload", True)
NETWORK: Final = ("error", "network", True)
MODEL: Final = ("error", "model", False)
OUTPUT: Final = ("error", "output", False)
QUICK: Final = {"stream_idle_timeout": 0.4, "silence_timeout": 1.5}

ROWS: Final = {
    "401": Row(
        responses.status(401, error("invalid_api_key", f"Incorrect API key: {KEY}")),
        ("error", "auth", False), "stream", 401, "check the API key",
    ),
    "403": Row(responses.status(403), ("error", "auth", False), "stream", 403, "what it is allowed to use"),
    "404, the model": Row(
        responses.status(404, error("model_not_found", "The model `m` does not exist")),
        MODEL, "stream", 404, "`m` does not exist",
    ),
    "404": Row(responses.status(404), MODEL, "stream", 404),
    "400": Row(responses.status(400, error("x", "Invalid value")), MODEL, says="Invalid value. To do"),
    "400, the window": Row(
        responses.status(400, error("context_length_exceeded", "too long")), ("max-tokens", "model", False)
    ),
    "429, the rate": Row(
        responses.status(429, error("rate_limit_exceeded"), {"retry-after": "1"}), OVERLOAD, "stream", 429
    ),
    "429, the usage limit": Row(responses.status(429, {"error": USED_UP}, WINDOW), LIMIT, says="usage limit"),
    "429, no quota": Row(responses.status(429, error("insufficient_quota", type="insufficient_quota")), LIMIT),
    "500": Row(responses.status(500), OVERLOAD, "both"),
    "502, no JSON": Row(responses.Status(502, HTML, {"content-type": "text/html"}), OVERLOAD, "both", 502),
    "503": Row(responses.status(503), OVERLOAD, "both", 503),
    "503, overloaded": Row(responses.status(503, error("server_is_overloaded")), OVERLOAD, "request"),
    "no head, hangs up": Row(responses.cut(), NETWORK, "both"),
    "no head, silent": Row(responses.silence(), NETWORK, says="has said nothing for 1.5 s", options=QUICK),
    "a head, silent": Row([responses.created(), responses.silence()], NETWORK, "stream", says="idle", options=QUICK),
    "cut in a message": Row([responses.message("some words"), responses.cut()], NETWORK, "stream"),
    "nobody listens": Row(None, NETWORK),
    "200, no stream": Row(responses.status(200, error("x")), NETWORK, "stream"),
    "200, an error event": Row(responses.Event("error", error("server_error"), ends=True), NETWORK, "stream"),
    "200, no JSON": Row(
        [responses.event("response.completed\ndata: {"), responses.cut()], NETWORK, "stream"
    ),
    "200, nothing": Row([], OUTPUT),
    "200, only a thought": Row([responses.reasoning("hm")], OUTPUT),
    "failed: window": Row(
        responses.failed("context_length_exceeded", "too long"), ("max-tokens", "model", False), says="split it"
    ),
    "failed: quota": Row(responses.failed("insufficient_quota", "no quota"), LIMIT),
    "failed: rate": Row(responses.failed("rate_limit_exceeded", "wait"), OVERLOAD, "stream"),
    "failed: overloaded": Row(responses.failed("server_is_overloaded", "busy"), OVERLOAD),
    "failed: cyber policy": Row(responses.failed("cyber_policy", "no"), ("refusal", "policy", False)),
    "failed: prompt": Row(responses.failed("invalid_prompt", "no"), ("error", "unknown", False)),
    "max_output_tokens": Row(
        [responses.message("some words"), responses.incomplete("max_output_tokens")], ("max-tokens", "model", False)
    ),
    "content_filter": Row(
        [responses.message("some words"), responses.incomplete("content_filter")],
        ("refusal", "policy", False), "stream",
    ),
}  # fmt: skip
SOON: Final = ("401", "429, the usage limit", "cut in a message", "no head, silent", "nobody listens")


@pytest.fixture(scope="module")
def table() -> Iterator[list[tuple[object, ...]]]:
    """What the rows gave; printed when they are through."""
    rows: list[tuple[object, ...]] = []
    yield rows
    line = "{:<22} {:>7} {:<11} {:<9} {:<9} {:>6} {:>8} {:>8} {:>8}".format
    print("\n" + line("server", "retries", "stop", "kind", "retryable", "status", "retry at", "requests", "seconds"))
    for row in rows:
        print(line(*row))


def closed_port() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


async def failing(work: Path, row: Row, **options: Any) -> tuple[Told, int]:
    """A run against that server, and how many requests came."""
    with ScriptedResponses(lambda body, n: [] if row.server is None else row.server) as api:
        address = {"base_url": closed_port()} if row.server is None else {}
        provider = against(api, api_key=KEY, **address, **row.options, **options)
        return await told(provider, "work", work, within=30), len(api.requests)


def failure_in(result: Result) -> Failure:
    assert result.failure is not None
    return result.failure


@pytest.mark.parametrize(
    ("name", "retries"),
    [
        *((name, False) if name in SOON else pytest.param(name, False, marks=pytest.mark.long) for name in ROWS),
        *(pytest.param(name, True, marks=pytest.mark.long) for name in ROWS),
    ],
)
async def test_each_error_settles_with_its_stop_reason_and_kind(
    work: Path, name: str, retries: bool, table: list[tuple[object, ...]], caplog: pytest.LogCaptureFixture
) -> None:
    row = ROWS[name]
    found, requests = await failing(work, row, **({} if retries else NO_RETRIES))
    result, failure = found.result, failure_in(found.result)
    wait = "" if failure.retry_at is None else f"{failure.retry_at - time.time():.0f} s"
    told_of = (result.stop_reason, failure.kind, "yes" if failure.retryable else "no", failure.http_status or "", wait)
    table.append((name, "default" if retries else "0", *told_of, requests, f"{result.duration:.2f}"))
    assert (result.stop_reason, failure.kind, failure.retryable) == row.expected
    assert failure.http_status == row.status
    assert failure.stage == "run"
    assert row.says in failure.message
    assert result.output == ("some words" if "some words" in str(row.server) else "")
    if row.server is not None:
        assert requests == (TRIES[row.repeated] if retries else 1)
        assert len(found.notices("retry")) == (2 if retries and TRIES[row.repeated] > 2 else 0)
    said = [result.to_json(), *(event.to_json() for event in found.events), caplog.text]
    assert not [text for text in said if KEY in text]
    process = result.evidence.process
    assert process is not None
    assert (process.clean, process.steps) == (True, ("eof",))


@pytest.mark.parametrize("zone", ["UTC", pytest.param("Asia/Tokyo", marks=pytest.mark.long)])
async def test_a_used_up_limit_says_when_it_resets(work: Path, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the second where the headers tell it; the engine's words hold a clock time, in the zone of this process."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        exact, _ = await failing(work, Row(responses.status(429, {"error": USED_UP}, WINDOW), LIMIT))
        vague, _ = await failing(work, Row(responses.status(429, {"error": USED_UP}), LIMIT))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert failure_in(exact.result).retry_at == RESETS
    assert RESETS - 60 < (failure_in(vague.result).retry_at or 0) <= RESETS
    assert exact.notices("account/rateLimits/updated") == ["used: 100 % of the primary limit"]


async def test_a_server_that_recovers_is_no_failure(work: Path) -> None:
    script = [responses.status(500), [responses.message("half", chunks=1), responses.cut()], "whole"]
    with ScriptedResponses(script) as api:
        found = await told(against(api), "work", work)
    assert (found.result.stop_reason, found.result.output) == ("completed", "whole")
    assert len(found.notices("retry")) == 1  # the first is repeated without a word
    assert found.result.evidence.notes == ()


async def test_patience_does_not_run_while_a_command_does(work: Path) -> None:
    with ScriptedResponses([[shell("sleep 1.5")], "done"]) as api:
        found = await told(against(api, **NO_RETRIES, silence_timeout=0.8), "work", work)
    assert found.result.output == "done"


@pytest.mark.long
async def test_silence_after_a_command_ends_the_run_also_when_one_is_left_running(work: Path) -> None:
    for command in (shell("true"), shell("sleep 600", yield_time_ms=250)):
        with ScriptedResponses([[command], responses.silence()]) as api:
            found = await told(against(api, **NO_RETRIES, silence_timeout=0.8), "work", work, within=20)
        assert "has said nothing for 0.8 s" in failure_in(found.result).message


@pytest.mark.long
async def test_without_our_patience_the_engine_waits_for_ever(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant; ended by the seam's own limit, which every caller can set."""

    async def nothing(patience: object) -> None:
        return

    monkeypatch.setattr(_patience.Patience, "run", nothing)
    with ScriptedResponses([responses.silence()]) as api:
        provider = against(api, **NO_RETRIES, silence_timeout=0.4)
        found = await told(provider, "work", work, idle_limit=5)
    assert (failure_in(found.result).kind, failure_in(found.result).message) == ("timeout", "no event for 5 s")


# -- nobody is signed in -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("home", ["isolated", "pinned"])
async def test_without_a_sign_in_nothing_is_sent_and_the_way_out_is_told(work: Path, home: str) -> None:
    provider = Codex(home=work.parent / "home" if home == "pinned" else "isolated")
    with pytest.raises(StartError) as refused:
        await told(provider, "work", work, within=2 if home == "isolated" else 5)
    failure = refused.value.failure
    assert (failure.kind, failure.stage, failure.retryable) == ("auth", "start", False)
    assert " login`)" in failure.message
    assert "api_key" in failure.message


async def test_a_home_of_its_own_without_a_key_does_not_even_start_the_engine(work: Path) -> None:
    engine = work.parent / "codex"
    engine.write_text(f"#!/bin/sh\ntouch {work}/started\n")
    engine.chmod(0o755)
    with pytest.raises(StartError, match="api_key_env"):
        await told(Codex(executable=engine), "work", work, within=2)
    assert not (work / "started").exists()
    with pytest.raises(StartError, match="exit code 0"):  # with a key it is
        await told(Codex(executable=engine, api_key=KEY), "work", work)
    assert (work / "started").exists()


async def test_a_variable_for_the_key_that_is_not_set_is_named(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedResponses() as api:
        provider = against(api, api_key=None, api_key_env="KEY_OF_THE_SHOP")
        monkeypatch.delenv("KEY_OF_THE_SHOP", raising=False)
        with pytest.raises(StartError, match="KEY_OF_THE_SHOP") as refused:
            await told(provider, "work", work, within=2)
        assert refused.value.failure.kind == "auth"
        monkeypatch.setenv("KEY_OF_THE_SHOP", KEY)
        await told(provider, "work", work)
        assert api.requests[0].headers["authorization"] == f"Bearer {KEY}"
