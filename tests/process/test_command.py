"""Short commands: to their end, bounded, and nothing of them left."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import anyio
import pytest
from endings import parent

from subagent_process import CommandTimeout, CompletedCommand, ProcessLost, SpawnError, run_command
from subagent_testing import Family

pytestmark = pytest.mark.anyio
PATH = {"PATH": "/usr/bin:/bin"}


async def sh(script: str, *, timeout: float = 20, limit: int = 1000) -> CompletedCommand:
    return await run_command(["sh", "-c", script], env=PATH, timeout=timeout, limit=limit)


async def test_it_returns_status_and_output_apart() -> None:
    assert await sh("echo out; echo err >&2; exit 3") == CompletedCommand(3, b"out\n", b"err\n", truncated=False)
    assert (await sh("kill -9 $$")).exit == -signal.SIGKILL


async def test_stdin_is_the_null_device_whatever_ours_is() -> None:
    done = await sh("readlink /proc/self/fd/0; cat; echo read to the end")
    assert done.stdout == b"/dev/null\nread to the end\n"


async def test_output_is_cut_at_the_limit_and_drained_beyond_it() -> None:
    done = await sh("yes | head -c 5000000; yes | head -c 5000000 >&2; exit 4", limit=1000)
    assert (done.exit, len(done.stdout), len(done.stderr), done.truncated) == (4, 1000, 1000, True)
    assert not (await sh("head -c 1000 /dev/zero", limit=1000)).truncated
    assert (await sh("head -c 1001 /dev/zero", limit=1000)).truncated
    assert (await sh("echo x", limit=0)) == CompletedCommand(0, b"", b"", truncated=True)


async def test_it_ends_with_the_command_and_not_with_its_pipes() -> None:
    with anyio.fail_after(10):
        done = await sh("sleep 300 & setsid sleep 300 & echo done; exit 5")
    assert (done.exit, done.stdout) == (5, b"done\n")


async def test_the_time_limit_ends_the_whole_tree_and_keeps_what_was_said(deaf_family: Family) -> None:
    script = f"echo said; echo and >&2; {' '.join(deaf_family.argv)}"
    with pytest.raises(CommandTimeout, match=r"sh did not end within 2 s") as caught:
        await run_command(["sh", "-c", script, "hush"], env=PATH, timeout=2)
    assert (caught.value.stdout, caught.value.stderr) == (b"said\n", b"and\n")
    assert (caught.value.program, caught.value.timeout) == ("sh", 2)
    assert "hush" not in str(caught.value)
    await deaf_family.grow()
    assert await deaf_family.survivors() == ()


async def test_cancelling_it_leaves_nobody(family: Family) -> None:
    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            await run_command(family.argv, env={}, timeout=60)

        tasks.start_soon(run)
        await family.grow()
        tasks.cancel_scope.cancel()
    assert await family.survivors() == ()


async def test_it_says_what_could_not_be_started_and_leaks_nothing(descriptors: Callable[[], int]) -> None:
    await sh("true")
    before = descriptors()
    with pytest.raises(SpawnError, match="no-such-program"):
        await run_command(["no-such-program"], env=PATH, timeout=20)
    with pytest.raises(SpawnError, match="/nope"):
        await run_command(["true"], env=PATH, cwd="/nope", timeout=20)
    with pytest.raises(CommandTimeout):
        await sh("sleep 60", timeout=0)
    assert descriptors() == before


async def test_many_at_once_do_not_disturb_each_other() -> None:
    results: dict[int, bytes] = {}

    async def run(number: int) -> None:
        results[number] = (await sh(f"echo {number}")).stdout

    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(run, number)
    assert results == {number: b"%d\n" % number for number in range(30)}


async def test_it_runs_in_the_directory_given() -> None:
    done = await run_command([sys.executable, "-c", "import os; print(os.getcwd())"], env={}, cwd="/", timeout=20)
    assert done.stdout == b"/\n"


async def test_a_command_whose_helpers_are_killed_is_lost_and_not_a_group_of_errors(family: Family) -> None:
    async def kill() -> None:
        await family.grow()
        os.kill(parent(family.pids["leader"]), signal.SIGKILL)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kill)
        with pytest.raises(ProcessLost):
            await run_command(family.argv, env={}, timeout=60)
    assert await family.survivors() == ()


async def test_what_it_said_is_there_however_late_anybody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subagent_process.command._LAST_WORDS", 0)  # a machine that is too busy to read in time
    script = "echo out; echo err >&2; head -c 60000 /dev/zero"
    done = await run_command(["sh", "-c", script], env=PATH, timeout=20)
    assert (done.stdout, done.stderr) == (b"out\n" + bytes(60000), b"err\n")
