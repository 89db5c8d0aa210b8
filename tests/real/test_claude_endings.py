"""However a run of the real Claude Code ends while a command is at work: nobody is left."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from claude_kit import KEY, against, bash

from subagent_testing import Family, ScriptedMessages, messages
from subagents import Run

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def at_work(work: Path) -> AsyncGenerator[tuple[Run, Family]]:
    """A run whose command has grown a family."""
    async with Family(deaf_leader=True) as family:
        with ScriptedMessages([[bash(shlex.join(family.argv))], "done"]) as api, anyio.fail_after(60):
            run = await against(api).start("x", cwd=work, permission="allow").__aenter__()
            await family.grow()
            yield run, family


async def test_a_cancelled_run_is_aborted_and_leaves_nobody(work: Path) -> None:
    async with at_work(work) as (run, family):
        run.cancel("enough")
        result = await run.result()
        closed = await run.closed()
        assert await family.survivors() == ()
    assert (result.stop_reason, closed.stop_reason) == ("aborted", "aborted")
    process = closed.evidence.process
    assert process is not None
    assert process.clean
    assert "kill" not in process.steps


async def test_a_killed_engine_leaves_nobody(work: Path) -> None:
    async with at_work(work) as (run, family):
        assert "bare-daemon" in family.pids
        os.kill(engine(family.pids["leader"]), signal.SIGKILL)
        result = await run.closed()
        assert await family.survivors() == ()
    assert result.failure is not None
    assert result.failure.kind == "exit"


def engine(pid: int) -> int:
    """The claude above a process."""
    while not os.readlink(f"/proc/{pid}/exe").endswith("claude"):
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
    return pid


async def test_a_run_that_is_left_at_an_error_in_its_body_leaves_nobody(work: Path) -> None:
    async with Family() as family:
        with ScriptedMessages([[bash(shlex.join(family.argv))], "done"]) as api, anyio.fail_after(60):
            with pytest.raises(KeyError):  # noqa: PT012
                async with against(api).start("x", cwd=work, permission="allow"):
                    await family.grow()
                    raise KeyError
            assert await family.survivors() == ()


async def test_a_cancelled_start_leaves_nothing(work: Path) -> None:
    with ScriptedMessages([[messages.silence()]]) as api, anyio.fail_after(60):
        run = against(api).start("x", cwd=work)
        run.cancel()
        async with run:
            assert (await run.closed()).stop_reason == "aborted"


async def test_a_model_that_is_silent_is_cancelled_promptly(work: Path) -> None:
    with ScriptedMessages([[messages.started(), messages.silence()]]) as api, anyio.fail_after(60):
        async with against(api).start("x", cwd=work) as run:
            await api.request(1)
            run.cancel()
            result = await run.closed()
    assert result.stop_reason == "aborted"
    assert result.evidence.process is not None
    assert result.evidence.process.clean


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("times", [2, 5])
async def test_a_task_that_is_cancelled_again_and_again_leaves_nobody(work: Path, times: int) -> None:
    async with Family(deaf_leader=True) as family:
        with ScriptedMessages([[bash(shlex.join(family.argv))], "done"]) as api, anyio.fail_after(60):

            async def body() -> None:
                async with against(api).start("x", cwd=work, permission="allow"):
                    await asyncio.sleep(60)

            task = asyncio.get_running_loop().create_task(body())
            await family.grow()
            for _ in range(times):
                task.cancel()
                await asyncio.sleep(0)
            await asyncio.wait([task])
            assert await family.survivors() == ()


HARNESS = """
import json, sys, anyio
from subagent_claude_code import ClaudeCode

async def main():
    async with ClaudeCode(base_url=sys.argv[1], api_key=sys.argv[2]).start("x", cwd=sys.argv[3], permission="allow"):
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_harness_that_is_killed_leaves_nobody(work: Path) -> None:
    async with Family(deaf_leader=True) as family:
        with ScriptedMessages([[bash(shlex.join(family.argv))], "done"]) as api, anyio.fail_after(60):
            argv = [sys.executable, "-c", HARNESS, api.base_url, KEY, str(work)]
            with subprocess.Popen(argv) as harness:  # noqa: ASYNC220
                try:
                    await family.grow()
                finally:
                    harness.kill()
            assert await family.survivors(within=20) == ()
