"""No secret of the host is seen by the real Claude Code, its commands or the model; its key only where it belongs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from claude_kit import KEY, against, bash, told
from isolation_claude import command_and_gate, environment_of_ours, looked, nothing_unset
from isolation_kit import CANARIES, MARK, UNKNOWN, Places, where

from subagent_testing import Gate, ScriptedMessages, messages
from subagents import PermissionRequest

pytestmark = pytest.mark.anyio
asyncio_alone = pytest.mark.parametrize("anyio_backend", ["asyncio"])  # what is seen does not depend on the loop

OURS = "MODEL_SERVER_CREDENTIAL"


@pytest.fixture(autouse=True)
def canaries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**CANARIES, **UNKNOWN}.items():
        monkeypatch.setenv(name, value)


async def seen(work: Path, caplog: pytest.LogCaptureFixture, **options: Any) -> Places:
    gate = Gate()
    with ScriptedMessages(command_and_gate(gate)) as api:
        found = await looked(api, gate, against(api, **options), work, caplog)
    # Otherwise nothing would be shown.
    assert b"END" in found["commands"]
    assert found["commands"].count(b"SUBAGENT_DEPTH=1") == 2
    assert b"SUBAGENT_DEPTH=1" in found["environment"]
    assert b"userID" in found["files"]
    return found


@asyncio_alone
async def test_no_secret_of_the_host_is_seen_anywhere(work: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = await seen(work, caplog)
    assert where(found, MARK) == set()
    assert where(found, KEY) == {"authorization", "environment"}


@asyncio_alone
async def test_a_home_that_lasts_keeps_neither_the_key_nor_a_secret(
    work: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OURS, KEY)
    found = await seen(work, caplog, home=tmp_path / "pinned", api_key=None, api_key_env=OURS)
    assert b"say hello" in found["files afterwards"]  # the conversation was kept
    assert where(found, MARK) == set()
    assert where(found, KEY) == {"authorization", "environment"}
    assert where(found, OURS) == set()


@asyncio_alone
@pytest.mark.long
@pytest.mark.parametrize("key", [KEY, "of-no-known-form-27182"])
async def test_a_server_that_repeats_the_key_does_not_bring_it_into_the_failure(work: Path, key: str) -> None:
    refusal = messages.status(403, message=f"not with the key {key}")
    with ScriptedMessages([refusal]) as api:
        found = await told(against(api, api_key=key), "hi", work)
    assert "not with the key" in str(found.result.failure)
    assert key not in repr(found)


@asyncio_alone
@pytest.mark.long
@pytest.mark.parametrize(
    ("mutant", "secrets", "keys"),
    [
        (environment_of_ours, {"environment"}, set[str]()),
        (nothing_unset, set[str](), {"commands", "events", "requests"}),
    ],
)
async def test_a_fault_is_seen(
    work: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    mutant: Callable[[pytest.MonkeyPatch], None],
    secrets: set[str],
    keys: set[str],
) -> None:
    mutant(monkeypatch)
    found = await seen(work, caplog)
    assert where(found, MARK) == secrets
    assert where(found, KEY) == keys | {"authorization", "environment"}


@asyncio_alone
async def test_neither_key_nor_prompt_is_an_argument_of_anything(work: Path) -> None:
    seen: list[str] = []

    def look(_: PermissionRequest) -> Literal["reject"]:
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    line = Path("/proc", entry, "cmdline").read_bytes().decode(errors="replace")
                except OSError:
                    continue
                if "--permission-prompt-tool" in line:
                    seen.append(line)
        return "reject"

    with ScriptedMessages([[bash("touch x")], "done"]) as api:
        await told(against(api), "canary-prompt", work, permission=look, instructions="canary-instructions")
    assert seen
    assert not [line for line in seen if KEY in line or "canary" in line]


async def test_runs_with_one_pinned_home_wait_for_each_other(work: Path, tmp_path: Path) -> None:
    with ScriptedMessages([[messages.started(), messages.silence()], "done"]) as api, anyio.fail_after(60):
        provider = against(api, home=tmp_path / "pinned")
        async with provider.start("first", cwd=work) as first:
            await api.request(1)
            second = provider.start("second", cwd=work)
            async with anyio.create_task_group() as tasks:

                async def follow() -> None:
                    async with second:
                        assert (await second.closed()).output == "done"

                tasks.start_soon(follow)
                async for event in second.events():
                    if event.type == "notice" and event.code == "waiting":
                        break
                first.cancel()
