"""Helpers that do not answer: whatever holds a keeper up, its tree is ended by somebody else."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

import anyio
import pytest
from endings import WHOLE, helpers

from subagent_process import Ladder, open_process, run_command
from subagent_process import _launcher as launcher  # pyright: ignore[reportPrivateUsage]
from subagent_testing import Family

pytestmark = pytest.mark.anyio
PATH = {"PATH": "/usr/bin:/bin"}
QUICK = Ladder(eof=0.05, term=0.05, kill=1)

# A keeper that hangs once its child runs, for whatever reason.
HANGING = """
import time
from _supervisor.keeper import Keeper
Keeper.watch
Keeper.watch = lambda *_: time.sleep(600)
"""
IMPATIENT = """
from _supervisor import warden
warden.PATIENCE
warden.PATIENCE = 0.3
"""


async def nobody_left(warden: int) -> None:
    """No keeper, and nobody of any tree."""
    with anyio.fail_after(10):
        while Path(f"/proc/{warden}/task/{warden}/children").read_text():  # noqa: ASYNC110
            await anyio.sleep(0.01)


def children(pid: int) -> list[int]:
    """None of one that is gone: the keeper of an earlier test may be on its way out."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


async def child_of(pid: int) -> int:
    """Its first, once there is one."""
    with anyio.fail_after(10):
        while not (found := children(pid)):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    return found[0]


async def warden() -> int:
    """The pid of the one that takes the next run."""
    return await child_of(launcher.LAUNCHER.start()[1].pid)


@pytest.fixture
def slow_program() -> Generator[str]:
    """A program that nobody can start before the end of the test: its file is under a lease, and we do not let go.

    The kernel breaks it after `/proc/sys/fs/lease-break-time` seconds, 45.
    """
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        program = shutil.copy("/bin/cat", f"{folder}/slow")
        fd = os.open(program, os.O_RDONLY)
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # how we are asked to let go; by default ignored
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield program
        os.close(fd)


async def test_a_start_that_hangs_in_the_file_system_can_be_cancelled(slow_program: str) -> None:
    pid = await warden()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(open_process, [slow_program], env={}, ladder=QUICK))
        with anyio.fail_after(10):  # a keeper waits for its child to become the program
            while not any(map(children, children(pid))):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    await nobody_left(pid)


async def test_the_warden_does_the_work_of_a_keeper_that_hangs(fault: Callable[[str], None]) -> None:
    fault(HANGING)
    with anyio.fail_after(60):
        async with Family(deaf_leader=True) as family:
            process = await open_process(family.argv, env={}, ladder=QUICK)
            await family.grow()
            report = await process.aclose()
            assert await family.survivors() == ()
    assert (report.steps, report.exit, report.clean, report.lost) == ((*WHOLE, "warden"), None, True, True)


async def test_a_run_that_was_let_go_is_taken_from_a_keeper_that_hangs(fault: Callable[[str], None]) -> None:
    fault(HANGING + IMPATIENT)
    with anyio.fail_after(60):
        async with Family(deaf_leader=True) as family:
            process = await open_process(family.argv, env={}, ladder=QUICK)
            await family.grow()
            del process
            assert await family.survivors() == ()


async def test_a_warden_that_stops_kills_a_keeper_that_hangs(fault: Callable[[str], None]) -> None:
    fault(HANGING + IMPATIENT)
    with anyio.fail_after(60):
        async with Family(deaf_leader=True) as family, await open_process(family.argv, env={}, ladder=QUICK) as process:
            await family.grow()
            os.kill(await warden(), signal.SIGTERM)
            assert await family.survivors() == ()
    assert process.report is not None
    assert (process.report.clean, process.report.lost) == (True, True)


async def test_a_keeper_that_is_stopped_again_and_again_ends_its_tree_all_the_same() -> None:
    with anyio.fail_after(60):
        async with Family(deaf_leader=True) as family:
            process = await open_process(family.argv, env={}, ladder=Ladder(eof=0.3, term=0.3, kill=5))
            await family.grow()
            keeper = helpers(process)["keeper"]

            async def stop() -> None:
                while Path(f"/proc/{keeper}").exists():
                    os.kill(keeper, signal.SIGSTOP)
                    await anyio.sleep(0.02)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stop)
                report = await process.aclose()
                assert (report.steps, report.clean) == (WHOLE, True)
                assert await family.survivors() == ()
                tasks.cancel_scope.cancel()


async def test_an_order_about_another_run_ends_nobody() -> None:
    async with await open_process(["/bin/cat"], env={}, ladder=QUICK) as process:
        taken = process._taken  # pyright: ignore[reportPrivateUsage]
        launcher.Taken(taken.sock, taken.guard, taken.number + 1).abandon()
        await run_command(["/bin/true"], env={}, timeout=20)  # the warden takes one message after the other
        await process.send_line({"still": "here"})
        with anyio.fail_after(10):
            assert await anext(process.messages()) == {"still": "here"}


async def test_whom_no_signal_ends_is_named(fault: Callable[[str], None]) -> None:
    fault(
        """
import os
from _supervisor import keeper, warden
keeper.SWEEP = warden.SWEEP = 0.2
kill = os.kill
os.kill = lambda pid, number: None if number == 9 else kill(pid, number)
"""
    )
    script = "setsid sh -c 'echo {}; exec sleep 60' & read x; exit 3"
    async with await open_process(["sh", "-c", script], env=PATH, ladder=QUICK) as process:
        assert await anext(process.messages()) == {}
    report = process.report
    assert report is not None
    found = [re.fullmatch(r"sleep \(([0-9]+)\)", name) for name in report.survivors]
    for each in found:
        assert each
        os.kill(int(each[1]), signal.SIGKILL)
    assert (len(found), report.exit, report.clean) == (1, 3, False)
