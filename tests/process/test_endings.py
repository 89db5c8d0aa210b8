"""Details of an ending that the matrix does not look at: orders, the report, what `wait` says."""

from __future__ import annotations

import asyncio
import os
import signal

import anyio
import pytest
import trio
from endings import LADDER, helpers

from subagent_process import OwnedProcess, ProcessLost, open_process
from subagent_testing import Family

both = pytest.mark.anyio


async def _open(family: Family) -> OwnedProcess:
    process = await open_process(family.argv, env={}, ladder=LADDER)
    await family.grow()
    return process


@both
async def test_closing_again_gives_the_same_report(family: Family) -> None:
    process = await _open(family)
    report = await process.aclose()
    assert report.killed >= 5  # all that are not in the group of the leader, and the deaf one that is
    assert process.report is report
    assert await process.aclose() is report
    process.release()
    assert await family.survivors() == ()


@pytest.mark.parametrize("how", ["kill", "terminate"])
@both
async def test_orders_reach_the_leader_and_everybody_follows(how: str, family: Family) -> None:
    async with await _open(family) as process:
        getattr(process, how)()
        with anyio.fail_after(10):
            assert await process.wait() == (-signal.SIGKILL if how == "kill" else -signal.SIGTERM)
        assert await family.survivors() == ()
    getattr(process, how)()


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_the_end_of_the_loop_is_enough_although_the_handle_lives_on(loop: str, deaf_family: Family) -> None:
    async def main() -> OwnedProcess:
        return await _open(deaf_family)

    process = asyncio.run(main()) if loop == "asyncio" else trio.run(main)
    assert anyio.run(deaf_family.survivors) == ()
    assert process.returncode is None


@both
async def test_who_waits_for_a_child_whose_keeper_was_killed_hears_that_it_is_lost(deaf_family: Family) -> None:
    async with await _open(deaf_family) as process:
        os.kill(helpers(process)["keeper"], signal.SIGKILL)
        with pytest.raises(ProcessLost, match=str(process.pid)), anyio.fail_after(10):
            await process.wait()
        assert await deaf_family.survivors() == ()


@both
async def test_the_death_of_one_keeper_leaves_the_relatives_of_other_runs_alone() -> None:
    with anyio.fail_after(60):
        async with Family() as family, Family() as other:
            process = await open_process(family.argv, env={}, ladder=LADDER)
            async with await open_process(other.argv, env={}, ladder=LADDER) as bystander:
                await family.grow()
                await other.grow()
                os.kill(helpers(process)["keeper"], signal.SIGKILL)
                assert await family.survivors() == ()
                await process.aclose()
                for name in other.pids:
                    assert await other.answers(name)
            assert bystander.report is not None
            assert bystander.report.lost is False
            assert await other.survivors() == ()
