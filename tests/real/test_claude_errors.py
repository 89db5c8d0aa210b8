"""What goes wrong at the model server, and what a caller of the real Claude Code is told."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from claude_kit import KEY, against, told

from subagent_testing import ScriptedMessages, messages
from subagents import FailureKind, StopReason

pytestmark = pytest.mark.anyio

HOUR = 3600

ROWS: list[tuple[str, messages.Turn, StopReason, FailureKind, int | None, bool]] = [
    ("401", messages.status(401, message="invalid x-api-key"), "error", "auth", 401, False),
    ("403", messages.status(403, message="not allowed"), "error", "auth", 403, False),
    ("400", messages.status(400, message="messages: bad"), "error", "model", 400, False),
    ("long", messages.status(400, message="prompt is too long: 9 > 8"), "max-tokens", "model", 400, False),
    ("credit", messages.status(400, message="Your credit balance is too low"), "error", "limit", 400, False),
    ("404", messages.status(404, message="model: nope"), "error", "model", 404, False),
    ("429", messages.status(429, message="too many"), "error", "overload", 429, True),
    ("500", messages.status(500, message="boom"), "error", "overload", 500, True),
    ("529", messages.status(529), "error", "overload", 529, True),
    ("cut", messages.cut(), "error", "network", None, True),
]


@pytest.mark.parametrize(("turn", "stop", "kind", "http", "again"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_error_of_the_server_is_told_in_the_words_of_the_seam(
    work: Path, turn: messages.Turn, stop: StopReason, kind: FailureKind, http: int | None, again: bool
) -> None:
    with ScriptedMessages([turn]) as api:
        result = (await told(against(api), "hi", work)).result
    failure = result.failure
    assert failure is not None
    assert (result.stop_reason, failure.kind, failure.http_status, failure.retryable) == (stop, kind, http, again)
    assert result.output == ""
    assert "To do:" in failure.message
    assert KEY not in failure.message


async def test_nobody_listens(work: Path) -> None:
    with ScriptedMessages() as api:
        provider = against(api)
    result = (await told(provider, "hi", work)).result
    assert result.failure is not None
    assert (result.failure.kind, result.failure.retryable) == ("network", True)


async def test_a_retry_is_told_while_it_happens(work: Path) -> None:
    with ScriptedMessages([messages.status(529), "after all"]) as api:
        found = await told(against(api, max_retries=1), "hi", work)
    assert found.result.output == "after all"
    assert len(found.notices("retry")) == 1


async def test_a_used_up_quota_says_when_it_ends(work: Path) -> None:
    resets = int(time.time()) + HOUR
    headers = {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": str(resets),
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
        "x-should-retry": "false",
    }
    with ScriptedMessages([messages.status(429, message="limit", headers=headers)]) as api:
        result = (await told(against(api), "hi", work)).result
    assert result.failure is not None
    assert result.failure.kind in ("limit", "overload")  # with an API key the engine takes it for a rate
    assert result.failure.retryable


async def test_the_engine_that_is_killed_is_an_error_of_kind_exit(work: Path) -> None:
    from claude_kit import bash

    with ScriptedMessages([[bash("env; kill -9 $CLAUDE_PID")], "done"]) as api:
        result = (await told(against(api), "hi", work, permission="allow")).result
    assert result.failure is not None
    assert (result.failure.kind, result.failure.exit_code) == ("exit", -9)
