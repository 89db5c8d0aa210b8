"""What can go wrong between the real Claude Code and a model server, and what a caller is told: `pytest -s` prints it.

Without retries and with the default bound of two; nothing of it hangs, and the key is in no message.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from claude_kit import Told, against, bash, told

from subagent_claude_code import ClaudeCode
from subagent_testing import ScriptedMessages, messages
from subagents import Failure, Result, StartError

pytestmark = pytest.mark.anyio

KEY: Final = "Key-Of-No-Known-Shape-91375-xyz"
RESETS: Final = int(time.time()) + 7200


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True)
class Row:
    """What the server does, and what comes of it.

    Attributes:
        server: its answer to every request; a text: there is none, and this is the address.
        expected: stop reason, kind, whether it may succeed later.
        status: the HTTP status that is told.
        again: how often the engine repeats it and tells so, with two retries.
        requests: how many come without retries: the engine also tries other forms of a request that is refused, asks
            without a stream where one broke, and takes up a text that was cut.
        says: words of the message.
    """

    server: messages.Turn
    expected: tuple[str, str, bool]
    status: int | None = None
    again: int = 0
    requests: int = 1
    says: str = ""


AUTH: Final = ("error", "auth", False)
CREDIT: Final = ("error", "limit", False)
LIMIT: Final = ("error", "limit", True)
OVERLOAD: Final = ("error", "overload", True)
NETWORK: Final = ("error", "network", True)
MODEL: Final = ("error", "model", False)
CUT: Final = ("max-tokens", "model", False)
OUTPUT: Final = ("error", "output", False)
NOWHERE: Final = "a port that nobody listens on"
WORDS: Final = messages.text("some words")
HTML: Final = {"content-type": "text/html"}
BAD_EVENT: Final = messages.event("content_block_delta\ndata: {not json")

ROWS: Final = {
    "401": Row(messages.status(401, message=f"invalid {KEY}"), AUTH, 401, again=2, says="check the API key"),
    "403": Row(messages.status(403, message="not allowed"), AUTH, 403, says="what it is allowed to use"),
    "400": Row(messages.status(400, message="messages: bad"), MODEL, 400, requests=6, says="messages: bad"),
    "400, the window": Row(messages.status(400, message="prompt is too long: 9 > 8"), CUT, 400, says="split it"),
    "400, no credit": Row(
        messages.status(400, message="Your credit balance is too low to access the Anthropic API."),
        CREDIT, 400, says="no credit",
    ),
    "402": Row(messages.status(402), CREDIT, 402),
    "404": Row(messages.status(404, message="model: nope"), MODEL, 404, requests=2, says="name another model"),
    "408": Row(messages.status(408), NETWORK, 408, again=2),
    "413": Row(messages.status(413), MODEL, 413, says="ask for less"),
    "422": Row(messages.status(422), MODEL, 422, requests=6),
    "429, the rate": Row(messages.status(429, message="too many"), OVERLOAD, 429, again=2, says="too many"),
    "429, wait a second": Row(messages.status(429, headers={"retry-after": "1"}), OVERLOAD, 429, again=2),
    "429, wait an hour": Row(messages.status(429, headers={"retry-after": "3600"}), OVERLOAD, 429),
    "429, do not retry": Row(messages.status(429, headers={"x-should-retry": "false"}), OVERLOAD, 429),
    "429, the bill": Row(
        messages.status(429, message="spend limit reached", headers={"x-should-retry": "false"}), LIMIT, 429
    ),
    "500": Row(messages.status(500, message="boom"), OVERLOAD, 500, again=2, says="boom"),
    "502, no JSON": Row(messages.Status(502, b"<html>Bad Gateway</html>", HTML), OVERLOAD, 502, again=2),
    "503": Row(messages.status(503), OVERLOAD, 503, again=2),
    "504": Row(messages.status(504), OVERLOAD, 504, again=2),
    "529": Row(messages.status(529), OVERLOAD, 529, again=2),
    "nobody listens": Row(NOWHERE, NETWORK, again=2, requests=0, says="ECONNREFUSED"),
    "no such name": Row("http://model.invalid", NETWORK, again=2, requests=0, says="address of the model server"),
    "no head, hangs up": Row(messages.cut(), NETWORK, again=2, says="ECONNRESET"),
    "cut before a block": Row([messages.started(), messages.cut()], NETWORK, again=2, requests=2),
    "cut in a text": Row([WORDS, messages.cut()], NETWORK, again=2, requests=2),
    "an error event": Row(messages.sse_error(), OVERLOAD, 529, requests=2),
    "an error event in a text": Row([WORDS, messages.sse_error()], NETWORK, requests=4, says="mid-response"),
    "a bad event": Row([BAD_EVENT, messages.cut()], NETWORK, requests=2),
    "a bad event in a text": Row([WORDS, BAD_EVENT, WORDS], NETWORK, requests=4, says="malformed"),
    "200, a page": Row(messages.Status(200, b"<html>Hello</html>", HTML), NETWORK, requests=2, says="HTML page"),
    "200, no JSON": Row(messages.Status(200, b"{bad", {}), NETWORK, requests=2, says="not valid JSON"),
    "200, no body": Row(messages.Status(200, b"", {}), NETWORK, requests=2, says="empty body"),
    "200, no message": Row(messages.Status(200, {"x": 1}, {}), NETWORK, requests=2, says="not a Message"),
    "an empty answer": Row([], OUTPUT, requests=2),
    "only a thought": Row([messages.thinking("hm")], OUTPUT, requests=2),
    "max_tokens": Row([WORDS, messages.stop("max_tokens")], CUT, requests=4, says="output token maximum"),
    "the window is full": Row(
        [WORDS, messages.stop("model_context_window_exceeded")], CUT, requests=4, says="context window"
    ),
    "refusal": Row([WORDS, messages.stop("refusal")], ("refusal", "policy", False), requests=2, says="rephrase"),
}  # fmt: skip
REPEATED: Final = ("403", "400", "an error event", "refusal", *(name for name, row in ROWS.items() if row.again))
"""Not the bad event: whether the engine sees it or the cut first, and then repeats it once or twice, is chance."""
SOON: Final = ("401", "429, the rate")


@pytest.fixture(scope="module")
def table() -> Iterator[list[tuple[object, ...]]]:
    """What the rows gave; printed when they are through."""
    rows: list[tuple[object, ...]] = []
    yield rows
    line = "{:<24} {:>7} {:<11} {:<9} {:<9} {:>6} {:>8} {:>8}".format
    print("\n" + line("server", "retries", "stop", "kind", "retryable", "status", "requests", "seconds"))
    for row in rows:
        print(line(*row))


def address(server: messages.Turn) -> dict[str, str]:
    """Where there is no server."""
    if server != NOWHERE:
        return {"base_url": server} if isinstance(server, str) else {}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return {"base_url": f"http://127.0.0.1:{taken.getsockname()[1]}"}


async def failing(work: Path, server: messages.Turn, **options: Any) -> tuple[Told, int]:
    """A run against that server, and how many requests came."""
    with ScriptedMessages(lambda body, n: server) as api:
        provider = against(api, api_key=KEY, **address(server), **options)
        return await told(provider, "work", work), len(api.requests)


def failure_in(result: Result) -> Failure:
    assert result.failure is not None
    return result.failure


_FIRST: Final = {row.expected: name for name, row in reversed(ROWS.items())}
"""The first row of each outcome: the others run with the long tests."""


@pytest.mark.parametrize(
    ("name", "retries"),
    [
        *(
            (name, 0) if name in {*_FIRST.values(), *SOON} else pytest.param(name, 0, marks=pytest.mark.long)
            for name in ROWS
        ),
        *((name, 2) if name in SOON else pytest.param(name, 2, marks=pytest.mark.long) for name in REPEATED),
    ],
)
async def test_each_error_settles_with_its_stop_reason_and_kind(
    work: Path, name: str, retries: int, table: list[tuple[object, ...]], caplog: pytest.LogCaptureFixture
) -> None:
    row = ROWS[name]
    found, requests = await failing(work, row.server, max_retries=retries)
    result, failure = found.result, failure_in(found.result)
    told_of = (result.stop_reason, failure.kind, "yes" if failure.retryable else "no", failure.http_status or "")
    table.append((name, retries, *told_of, requests, f"{result.duration:.2f}"))
    assert (result.stop_reason, failure.kind, failure.retryable) == row.expected
    assert (failure.http_status, failure.retry_at, failure.stage) == (row.status, None, "run")
    assert row.says in failure.message
    assert result.output == ""
    again = row.again if retries else 0
    # It may begin to count anew when it goes on in another form (a stream that broke, asked without one).
    assert again <= len(found.notices("retry")) <= max(row.requests, 1) * again
    assert row.requests <= requests <= row.requests * (1 + retries)
    said = [result.to_json(), *(event.to_json() for event in found.events), caplog.text]
    assert not [text for text in said if KEY in text]
    process = result.evidence.process
    assert process is not None
    assert (process.clean, process.steps) == (True, ("eof",))


@pytest.mark.parametrize(
    "name",
    [
        *("529", "cut in a text", "refusal"),
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("no head, hangs up", "cut before a block", "an error event", "max_tokens")
        ),
    ],
)
async def test_a_server_that_recovers_is_no_failure(work: Path, name: str) -> None:
    with ScriptedMessages([ROWS[name].server, "after all"]) as api:
        found = await told(against(api, max_retries=1), "work", work)
    assert (found.result.stop_reason, found.result.failure) == ("completed", None)
    assert found.result.output.endswith("after all")


SILENCES: Final[dict[str, tuple[messages.Turn, int]]] = {
    "no head": (messages.silence(), 1),
    "a head": ([messages.started(), messages.silence()], 2),
}
"""Requests: behind a head the engine asks once more, without a stream (in a text it asks 3 times more: 40 s)."""


@pytest.mark.parametrize(
    "name", [name if name == "no head" else pytest.param(name, marks=pytest.mark.long) for name in SILENCES]
)
async def test_a_server_that_falls_silent_is_given_up(work: Path, name: str) -> None:
    """By the engine, which waits in the middle of an answer for at least 10 s."""
    server, requests = SILENCES[name]
    found, came = await failing(work, server, request_timeout=1.5)
    failure = failure_in(found.result)
    assert (found.result.stop_reason, failure.kind, failure.retryable) == NETWORK
    assert came == requests


# -- quotas of a subscription ------------------------------------------------------------------------------------------


def quota(claim: str, resets: int, **more: str) -> dict[str, str]:
    """Headers of an answer that a used-up quota is the cause of."""
    given = {"status": "rejected", "representative-claim": claim, "reset": str(resets), **more}
    return {f"anthropic-ratelimit-unified-{name.replace('_', '-')}": value for name, value in given.items()}


@pytest.fixture
def subscribed(work: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that is signed in to a subscription; the person's own settings name the server."""
    home = work.parent / "person"
    (home / ".claude").mkdir(parents=True)
    account = {
        "accessToken": "sk-ant-oat01-test-0123456789",
        "refreshToken": "sk-ant-ort01-test-0123456789",
        "expiresAt": (RESETS + 10**7) * 1000,
        "scopes": ["user:inference"],
        "subscriptionType": "max",
    }
    (home / ".claude" / ".credentials.json").write_text(json.dumps({"claudeAiOauth": account}))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return home


async def refused(work: Path, home: Path, headers: dict[str, str]) -> Told:
    """A run of somebody with a subscription whom the server answers with 429."""
    with ScriptedMessages([messages.status(429, message="limit", headers=headers)]) as api:
        settings = {"env": {"ANTHROPIC_BASE_URL": api.base_url}}
        (home / ".claude" / "settings.json").write_text(json.dumps(settings))
        found = await told(ClaudeCode(home="inherit", max_retries=2), "work", work)
        assert len(api.requests) == 1
        assert "sk-ant-oat01-test" in api.requests[0].headers["authorization"]
    return found


QUOTAS: Final[dict[str, tuple[dict[str, str], str]]] = {
    "five hours": (quota("five_hour", RESETS), "hit your 5-hour limit"),
    "a week": (quota("seven_day", RESETS + 3 * 86_400), "hit your weekly limit"),
    "a model": (quota("seven_day_opus", RESETS), "hit your Opus limit"),
    "no credits": (
        quota("five_hour", RESETS, overage_status="rejected", overage_disabled_reason="out_of_credits"),
        "out of usage credits",
    ),
    "a spend limit": (
        quota("five_hour", RESETS, overage_status="rejected", overage_disabled_reason="org_level_disabled_until"),
        "hit your monthly spend limit",
    ),
}


@pytest.mark.parametrize(
    "name", [name if name == "five hours" else pytest.param(name, marks=pytest.mark.long) for name in QUOTAS]
)
async def test_a_used_up_quota_is_not_repeated_and_says_when_it_ends(work: Path, subscribed: Path, name: str) -> None:
    headers, says = QUOTAS[name]
    found = await refused(work, subscribed, headers)
    failure = failure_in(found.result)
    assert (failure.kind, failure.retryable, failure.http_status) == ("limit", True, 429)
    assert failure.retry_at == float(headers["anthropic-ratelimit-unified-reset"])
    assert says in failure.message
    assert len(found.notices("rate-limit")) == 1


@pytest.mark.parametrize("zone", ["UTC", pytest.param("Asia/Tokyo", marks=pytest.mark.long)])
async def test_without_the_event_its_end_is_read_off_the_words(
    work: Path, subscribed: Path, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the minute, in the zone that the words name."""
    from subagent_claude_code import _turn

    monkeypatch.setenv("TZ", zone)
    monkeypatch.setattr(_turn.Turn, "_rate", lambda turn, message: None)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    found = await refused(work, subscribed, quota("five_hour", RESETS))
    failure = failure_in(found.result)
    assert failure.kind == "limit"
    assert RESETS - 60 < (failure.retry_at or 0) <= RESETS


async def test_a_server_that_is_only_busy_is_no_used_up_quota(work: Path, subscribed: Path) -> None:
    """The engine says `rejected` of it, too."""
    with ScriptedMessages([messages.status(429, message="busy", headers={"x-should-retry": "false"})]) as api:
        settings = {"env": {"ANTHROPIC_BASE_URL": api.base_url}}
        (subscribed / ".claude" / "settings.json").write_text(json.dumps(settings))
        failure = failure_in((await told(ClaudeCode(home="inherit", max_retries=0), "work", work)).result)
    assert (failure.kind, failure.retryable, failure.retry_at) == ("overload", True, None)


# -- nobody is signed in, nobody is there ------------------------------------------------------------------------------


@pytest.mark.parametrize("home", ["isolated", "pinned", "inherit"])
async def test_without_a_sign_in_nothing_is_sent_and_the_way_out_is_told(
    work: Path, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(work.parent))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    provider = ClaudeCode(home=work.parent / "home" if home == "pinned" else home)
    try:
        failure = failure_in((await told(provider, "work", work)).result)
    except StartError as error:
        failure = error.failure
    assert (failure.kind, failure.retryable) == ("auth", False)
    assert "claude auth login" in failure.message


async def test_a_variable_for_the_key_that_is_not_set_is_named(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedMessages() as api:
        provider = against(api, api_key=None, api_key_env="KEY_OF_THE_SHOP")
        monkeypatch.delenv("KEY_OF_THE_SHOP", raising=False)
        with pytest.raises(StartError, match="KEY_OF_THE_SHOP") as caught:
            await told(provider, "work", work)
        assert caught.value.failure.kind == "auth"
        monkeypatch.setenv("KEY_OF_THE_SHOP", KEY)
        await told(provider, "work", work)
        assert [request.headers["x-api-key"] for request in api.requests] == [KEY]


async def test_the_engine_that_is_killed_is_an_error_of_kind_exit(work: Path) -> None:
    with ScriptedMessages([[bash("env; kill -9 $CLAUDE_PID")], "done"]) as api:
        result = (await told(against(api), "hi", work, permission="allow")).result
    failure = failure_in(result)
    assert (failure.kind, failure.exit_code) == ("exit", -9)
