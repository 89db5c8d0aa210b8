"""A home that is given as a path, on the real Codex: made, locked, kept; and what cannot be one is refused."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest
from codex_kit import Told, against, told

from subagent_testing import Gate, ScriptedResponses, responses
from subagents import NoticeEvent, Run, StartError

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("codex_binary")]


both = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])  # who waits and who is cancelled depends on it


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "homes/mine"


async def done(api: ScriptedResponses, home: str | Path, work: Path, **fields: Any) -> Told:
    found = await told(against(api, home=home), "work", work, **fields)
    assert found.result.ok, found.result
    return found


async def test_it_is_made_with_what_is_above_it_and_kept(work: Path, home: Path) -> None:
    with ScriptedResponses() as api:
        found = await done(api, home, work)
    assert stat.S_IMODE(os.stat(home).st_mode) == 0o700
    assert os.listdir(home / "sessions")
    process = found.result.evidence.process
    assert process is not None
    assert process.home_removed  # the private part: HOME and what commands get


async def test_a_conversation_goes_on_in_it(work: Path, home: Path) -> None:
    with ScriptedResponses(["first answer", "second answer"]) as api:
        first = await done(api, home, work)
        second = await done(api, home, work, resume=first.result.session)
    assert second.result.session == first.result.session
    assert "first answer" in json.dumps(api.requests[1].body["input"])


@pytest.mark.long
async def test_it_may_be_relative_or_begin_with_a_tilde(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with ScriptedResponses() as api:
        await done(api, "./one", work)
        await done(api, "~/two", work)
    assert (tmp_path / "one/installation_id").is_file()
    assert (tmp_path / "two/installation_id").is_file()


def in_the_way(tmp_path: Path) -> Path:
    (tmp_path / "file").touch()
    return tmp_path / "file"


def below_a_file(tmp_path: Path) -> Path:
    return in_the_way(tmp_path) / "home"


def not_writable(tmp_path: Path) -> Path:
    if os.geteuid() == 0:  # whom no mode keeps out
        return Path("/sys/subagents")
    (tmp_path / "closed").mkdir(mode=0o500)
    return tmp_path / "closed"


@pytest.mark.parametrize("make", [in_the_way, below_a_file, not_writable])
async def test_what_cannot_be_a_home_is_refused_with_its_name(work: Path, tmp_path: Path, make: Any) -> None:
    path = make(tmp_path)
    with ScriptedResponses() as api:
        with pytest.raises(StartError, match=f"the home {path} cannot be used") as caught:
            await done(api, path, work)
        assert api.requests == []
    assert caught.value.failure.kind == "launch"
    assert "give a folder that can be written in" in caught.value.failure.message


async def waits(run: Run) -> str:
    """What a run says that waits for its home."""
    async for event in run.events():
        if isinstance(event, NoticeEvent) and event.code == "waiting":
            return event.text
    raise AssertionError("it did not wait")


@both
async def test_a_second_run_waits_for_the_first_and_says_so(work: Path, home: Path) -> None:
    gate = Gate()
    with ScriptedResponses([[gate, responses.message("first")], "second"]) as api, anyio.fail_after(60):
        async with against(api, home=home).start("one", cwd=work) as first:
            await anyio.to_thread.run_sync(gate.wait_until_reached)
            second = against(api, home=home).start("two", cwd=work)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(second.__aenter__)
                assert str(home) in await waits(second)
                assert len(api.requests) == 1
                gate.release()
                assert (await first.closed()).output == "first"
            assert (await second.closed()).output == "second"


@both
async def test_a_run_that_waits_for_the_home_can_be_cancelled(work: Path, home: Path) -> None:
    gate = Gate()
    with ScriptedResponses([[gate, responses.message("first")], "second"]) as api, anyio.fail_after(60):
        async with against(api, home=home).start("one", cwd=work) as first:
            await anyio.to_thread.run_sync(gate.wait_until_reached)
            second = against(api, home=home).start("two", cwd=work)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(second.__aenter__)
                await waits(second)
                second.cancel()
                assert (await second.closed()).stop_reason == "aborted"
            gate.release()
            assert (await first.closed()).ok
        assert len(api.requests) == 1
        await done(api, home, work)
