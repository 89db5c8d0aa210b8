"""No secret of the host is seen by the real Codex, its commands or the model, and its key only where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from codex_kit import KEY, against
from isolation_codex import (
    command_and_gate,
    environment_of_ours,
    key_in_arguments,
    looked,
    settings_without,
    thread_without,
)
from isolation_kit import CANARIES, MARK, UNKNOWN, Places, later, where

from subagent_testing import Gate, ScriptedResponses, responses

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("codex_binary")]

OURS = "MODEL_SERVER_CREDENTIAL"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # what is seen does not depend on the loop


@pytest.fixture(autouse=True)
def canaries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**CANARIES, **UNKNOWN}.items():
        monkeypatch.setenv(name, value)


async def seen(work: Path, caplog: pytest.LogCaptureFixture, **options: Any) -> Places:
    gate = Gate()
    confined = options.get("sandbox") != "danger-full-access"
    with ScriptedResponses(command_and_gate(gate, confined=confined)) as api:
        found = await looked(api, gate, against(api, **options), work, caplog)
    # Otherwise nothing would be shown.
    assert b"END" in found["commands"]
    assert b"SUBAGENT_DEPTH=1" in found["commands"]
    assert b"SUBAGENT_DEPTH=1" in found["environment"]
    assert b"installation_id" in found["files"]
    if confined:  # in a namespace where the engine, and our own process, are not
        assert b"app-server" not in found["commands"]
    return found


@pytest.mark.parametrize("sandbox", ["workspace-write", *map(later, ("read-only", "danger-full-access"))])
async def test_no_secret_of_the_host_is_seen_anywhere(
    work: Path, caplog: pytest.LogCaptureFixture, sandbox: str
) -> None:
    found = await seen(work, caplog, sandbox=sandbox)
    assert where(found, MARK) == set()
    assert where(found, KEY) == {"authorization"}


async def test_a_key_that_a_variable_holds_is_in_no_variable_of_the_child(
    work: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OURS, KEY)
    found = await seen(work, caplog, api_key=None, api_key_env=OURS)
    assert where(found, KEY) == {"authorization"}
    assert where(found, OURS) == set()


async def test_a_home_that_lasts_keeps_neither_the_key_nor_a_secret(
    work: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = await seen(work, caplog, home=tmp_path / "pinned", sandbox="workspace-write")
    assert b"rollout-" in found["files afterwards"]  # the thread was kept
    assert where(found, MARK) == set()
    assert where(found, KEY) == {"authorization"}


@pytest.mark.parametrize("key", [KEY, "of-no-known-form-27182"])
async def test_a_server_that_repeats_the_key_does_not_bring_it_into_the_failure(
    work: Path, caplog: pytest.LogCaptureFixture, key: str
) -> None:
    gate = Gate()
    error = {"error": {"message": f"Incorrect API key provided: {key}", "code": "invalid_api_key"}}
    with ScriptedResponses([[gate, responses.status(401, error)]]) as api:
        provider = against(api, api_key=key, stream_max_retries=1, request_max_retries=0)
        found = await looked(api, gate, provider, work, caplog)
    assert b"Incorrect API key provided" in found["result"]
    assert where(found, key) == {"authorization"}


def tools_inherit(patch: pytest.MonkeyPatch) -> None:
    environment_of_ours(patch)
    thread_without(patch, "shell_environment_policy")
    settings_without(patch, ["shell_environment_policy.inherit"])


def shell_snapshot(patch: pytest.MonkeyPatch) -> None:
    tools_inherit(patch)
    settings_without(patch, ["features.shell_snapshot"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("mutant", "secrets", "keys"),
    [
        (environment_of_ours, {"environment"}, {"authorization"}),
        (tools_inherit, {"environment", "commands", "events", "requests"}, {"authorization"}),
        (shell_snapshot, {"environment", "commands", "events", "requests", "files"}, {"authorization"}),
        (partial(key_in_arguments, key=KEY), set[str](), {"authorization", "arguments"}),
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
    assert where(found, KEY) == keys
