"""Whatever happens to the run, to the harness or to our own helpers: nothing of the child lives afterwards."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
import trio

from subagent_process import Ladder, OwnedProcess, ProcessLost, open_process, run_command
from subagent_process import _launcher as launcher  # pyright: ignore[reportPrivateUsage]

if TYPE_CHECKING:
    from .conftest import Relatives

LADDER = Ladder(eof=0.05, term=0.1, kill=5)
HARNESS = str(Path(__file__).with_name("harness.py"))
both = pytest.mark.anyio


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def helper(who: str) -> int:
    """The pid of one of our own supervisors; the keeper is the one of the only run."""
    guard = launcher.LAUNCHER.guard
    (warden,) = children(guard)
    if who == "keeper":
        (keeper,) = children(warden)
        return keeper
    return {"guard": guard, "warden": warden}[who]


async def _open(relatives: Relatives, ladder: Ladder = LADDER) -> OwnedProcess:
    process = await open_process(relatives.argv, env={}, ladder=ladder)
    await relatives.agrow()
    return process


@both
async def test_closing_ends_everybody_politely_first(relatives: Relatives) -> None:
    process = await _open(relatives)
    report = await process.aclose()
    assert await relatives.asurvivors() == []
    assert report.steps == ("eof", "term")
    assert (report.exit, report.clean, report.lost, report.missing) == (-signal.SIGTERM, True, False, ())
    assert report.killed == len(relatives.pids) - 1
    assert process.report is report
    assert await process.aclose() is report


@both
async def test_who_ignores_everything_is_killed(deaf_relatives: Relatives) -> None:
    report = await (await _open(deaf_relatives)).aclose()
    assert await deaf_relatives.asurvivors() == []
    assert report.steps == ("eof", "term", "kill")
    assert (report.exit, report.clean) == (-signal.SIGKILL, True)


@both
async def test_a_leader_that_exits_by_itself_keeps_its_status_and_leaves_nobody(relatives: Relatives) -> None:
    async with await _open(relatives) as process:
        relatives.exit_leader()
        with anyio.fail_after(10):
            assert await process.wait() == 7
        assert await relatives.asurvivors() == []
    assert process.report is not None
    assert (process.report.steps, process.report.exit, process.report.clean) == ((), 7, True)


@both
async def test_cancelling_the_scope_climbs_the_whole_ladder(deaf_relatives: Relatives) -> None:
    process = await _open(deaf_relatives)
    with anyio.CancelScope() as scope:
        async with process:
            scope.cancel()
            await anyio.sleep(60)
    assert process.report is not None
    assert process.report.steps == ("eof", "term", "kill")
    assert process.report.clean is True
    assert await deaf_relatives.asurvivors() == []


@both
async def test_an_exception_in_the_body_comes_out_as_it_is(relatives: Relatives) -> None:
    with pytest.raises(KeyError):
        async with await _open(relatives):
            raise KeyError
    assert await relatives.asurvivors() == []


@pytest.mark.parametrize("times", [1, 2, 5])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@both
async def test_raw_cancellations_leave_nobody(times: int, deaf_relatives: Relatives) -> None:
    running = asyncio.Event()

    async def run() -> None:
        async with await _open(deaf_relatives):
            running.set()
            await asyncio.sleep(60)

    task = asyncio.ensure_future(run())
    await running.wait()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0.01)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await deaf_relatives.asurvivors() == []


@both
async def test_dropping_the_last_reference_is_enough(deaf_relatives: Relatives) -> None:
    process = await _open(deaf_relatives)
    del process
    gc.collect()
    assert await deaf_relatives.asurvivors() == []


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_the_end_of_the_loop_is_enough_although_the_handle_lives_on(loop: str, deaf_relatives: Relatives) -> None:
    async def main() -> OwnedProcess:
        return await _open(deaf_relatives)

    process = asyncio.run(main()) if loop == "asyncio" else trio.run(main)
    assert deaf_relatives.survivors() == []
    assert process.returncode is None


@both
async def test_release_is_synchronous_and_closing_afterwards_waits_for_the_proof(deaf_relatives: Relatives) -> None:
    process = await _open(deaf_relatives)
    process.release()
    process.release()
    report = await process.aclose()
    process.release()
    assert (report.steps, report.clean) == ((), True)
    assert await deaf_relatives.asurvivors() == []


@pytest.mark.parametrize("how", ["kill", "terminate"])
@both
async def test_orders_reach_the_leader_and_everybody_follows(how: str, relatives: Relatives) -> None:
    async with await _open(relatives) as process:
        getattr(process, how)()
        with anyio.fail_after(10):
            assert await process.wait() == (-signal.SIGKILL if how == "kill" else -signal.SIGTERM)
        assert await relatives.asurvivors() == []
    getattr(process, how)()


@both
async def test_a_stopped_tree_hears_the_polite_order(relatives: Relatives) -> None:
    process = await _open(relatives)
    for pid in relatives.pids.values():
        os.kill(pid, signal.SIGSTOP)
    report = await process.aclose()
    assert report.steps == ("eof", "term")
    assert await relatives.asurvivors() == []


# --- our own helpers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", [("keeper",), ("warden",), ("guard",), ("keeper", "warden"), ("warden", "keeper"),
                                 ("guard", "warden"), ("warden", "guard"), ("guard", "keeper"), ("keeper", "guard")],
                         ids="+".join)  # fmt: skip
@both
async def test_the_death_of_any_two_helpers_leaves_nobody(who: tuple[str, ...], deaf_relatives: Relatives) -> None:
    async with await _open(deaf_relatives) as process:
        for pid in [helper(each) for each in who]:
            os.kill(pid, signal.SIGKILL)
        assert await deaf_relatives.asurvivors() == []
    report = process.report
    assert report is not None
    if "keeper" in who:
        assert report.lost
        assert report.exit is None
        with pytest.raises(ProcessLost, match=str(process.pid)):
            await process.wait()
    else:
        assert report.exit is not None
    # The next child gets new helpers without anybody's doing.
    assert (await run_command(["/bin/echo", "again"], env={}, timeout=20)).stdout == b"again\n"


@both
async def test_the_death_of_one_keeper_leaves_the_other_runs_alone(
    relatives: Relatives, deaf_relatives: Relatives
) -> None:
    async with await _open(relatives):
        mine = helper("keeper")
        async with await _open(deaf_relatives) as other:
            os.kill(mine, signal.SIGKILL)
            assert await relatives.asurvivors() == []
            assert len(await anyio.to_thread.run_sync(deaf_relatives.alive)) == len(deaf_relatives.pids)
        assert other.report is not None
        assert other.report.lost is False
    assert await deaf_relatives.asurvivors() == []


@both
async def test_a_killed_keeper_is_proved_clean_by_the_warden(deaf_relatives: Relatives) -> None:
    async with await _open(deaf_relatives) as process:
        os.kill(helper("keeper"), signal.SIGKILL)
        with pytest.raises(ProcessLost), anyio.fail_after(10):
            await process.wait()
    assert process.report is not None
    assert (process.report.clean, process.report.lost, process.report.steps) == (True, True, ())


@both
async def test_keeper_and_warden_killed_are_proved_clean_by_the_guard(deaf_relatives: Relatives) -> None:
    async with await _open(deaf_relatives) as process:
        keeper, warden = helper("keeper"), helper("warden")
        os.kill(keeper, signal.SIGKILL)
        os.kill(warden, signal.SIGKILL)
    assert process.report is not None
    assert (process.report.clean, process.report.lost) == (True, True)
    assert await deaf_relatives.asurvivors() == []


@pytest.mark.parametrize("who", ["keeper", "warden", "guard"])
@both
async def test_a_polite_signal_to_a_helper_ends_the_run_politely(who: str, relatives: Relatives) -> None:
    async with await _open(relatives) as process:
        os.kill(helper(who), signal.SIGTERM)
        with anyio.fail_after(10):
            assert await process.wait() == -signal.SIGTERM
        assert await relatives.asurvivors() == []


# --- the harness ---------------------------------------------------------------------------------------------------


@contextmanager
def harness(backend: str, ending: str, relatives: Relatives) -> Generator[subprocess.Popen[str]]:
    """A harness with the relatives as its child, in a session of its own."""
    command = [sys.executable, HARNESS, backend, ending, *relatives.argv]
    with subprocess.Popen(
        command,
        text=True,
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith("up "), (line, process.stderr and process.stderr.read())
            relatives.grow()
            process.stdin.write("go\n")
            process.stdin.flush()
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("backend", ["asyncio", "trio", "uvloop", "thread"])
def test_sigkill_of_the_harness_leaves_nobody(backend: str, deaf_relatives: Relatives) -> None:
    with harness(backend, "sleep", deaf_relatives) as process:
        process.kill()
        assert deaf_relatives.survivors() == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_to_the_group_of_the_harness_leaves_nobody(
    backend: str, number: signal.Signals, deaf_relatives: Relatives
) -> None:
    with harness(backend, "sleep", deaf_relatives) as process:
        os.killpg(process.pid, number)
        assert deaf_relatives.survivors() == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    "ending", ["drop", "drop-while-a-fork-holds", "loop-ends", "loop-ends-global", "exit-in-the-middle"]
)
def test_a_harness_that_forgets_leaves_nobody(backend: str, ending: str, deaf_relatives: Relatives) -> None:
    with harness(backend, ending, deaf_relatives):
        assert deaf_relatives.survivors() == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_fork_that_holds_our_descriptors_delays_nothing(backend: str, deaf_relatives: Relatives) -> None:
    with harness(backend, "holder", deaf_relatives) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        process.kill()
        assert deaf_relatives.survivors() == []


def test_an_ignored_sigchld_changes_nothing(deaf_relatives: Relatives) -> None:
    with harness("asyncio", "sigchld-ignored", deaf_relatives) as process:
        process.kill()
        assert deaf_relatives.survivors() == []
