"""The seam: stopping a backend that does not want to stop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import anyio

from subagent_testing import scripted
from subagent_testing._promise import expect, expect_equal
from subagent_testing._promises.starting import cancelled_raw
from subagent_testing._promises.working import closed_for_good
from subagent_testing.scripted import Scripted
from subagents import Link, Result, Run, Task


def _from_a_thread(run: Run) -> None:
    thread = threading.Thread(target=run.cancel)
    thread.start()
    thread.join()


async def aborted_at_once_while_teardown_is_held() -> None:
    """The verdict is `aborted` while the backend still tears down, whoever cancelled it."""
    for stop in (Run.cancel, _from_a_thread):
        await _held(stop)


async def _held(stop: Callable[[Run], object]) -> None:
    release = anyio.Event()

    async def script(task: Task, link: Link) -> None:
        link.ready()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await release.wait()

    provider = Scripted(script)
    async with provider.start("x", changes=False) as run:
        try:
            stop(run)
            expect_equal((await run.result()).stop_reason, "aborted", "the verdict")
            expect_equal(provider.ended, 0, "how often drive has ended")
        finally:
            release.set()
        await run.closed()  # before the context is left, which would cancel once more
        expect_equal(provider.ended, 1, "how often drive has ended when the run is closed")


async def a_swallowed_cancellation_stays_aborted() -> None:
    """A backend that swallows its cancellation and finishes as completed was aborted all the same."""
    provider = Scripted(scripted.swallows_once())
    async with provider.start("x", changes=False) as run:
        run.cancel()
    expect_equal((await run.closed()).stop_reason, "aborted", "the verdict")
    expect_equal(provider.ended, 1, "how often drive has ended")


async def a_drive_that_never_ends_cannot_hold_the_caller() -> None:
    """Leaving waits `leave_timeout` for a backend that ignores its end, and then the evidence says `left_behind`."""
    release = anyio.Event()
    try:
        async with Scripted(scripted.swallows_for_ever(release), leave_timeout=0.1).start("x", changes=False) as run:
            pass
        result = await run.closed()
        expect_equal((result.stop_reason, result.evidence.left_behind), ("aborted", True), "verdict and left_behind")
    finally:
        release.set()


async def a_teardown_that_never_ends_is_cancelled() -> None:
    """A backend that lingers after its verdict for more than `leave_timeout` is cancelled."""

    async def script(task: Task, link: Link) -> None:
        link.ready()
        link.finish(Result.completed("done"))
        await anyio.sleep_forever()

    provider = Scripted(script, leave_timeout=0.05)
    async with provider.start("x", changes=False) as run:
        expect((await closed_for_good(run)).ok, "the verdict changed")
        expect_equal(provider.ended, 1, "how often drive has ended, with nobody leaving the run")


async def an_exception_in_teardown_stays_aborted() -> None:
    """An exception that `drive` raises when it is stopped does not come out and does not change `aborted`."""
    provider = Scripted(scripted.raises_when_stopped(lambda: OSError("the pipe broke")))
    async with provider.start("x", changes=False) as run:
        run.cancel()
    result = await run.closed()
    expect_equal(result.stop_reason, "aborted", "the verdict")
    expect(
        any("the pipe broke" in n for n in result.evidence.notes), f"it is not in the notes: {result.evidence.notes}"
    )


async def raw_cancels_do_not_cut_teardown_short() -> None:
    """However often the caller is cancelled raw, the backend's teardown runs to its end before that comes out."""
    for times in (1, 2, 5):
        for entered in (None, asyncio.Event()):
            done: list[bool] = []
            script = scripted.lasts if entered else scripted.never_ready
            provider = Scripted(script(lambda done=done: done.append(True)))
            await cancelled_raw(provider.start("x", changes=False), times, entered=entered)
            expect_equal((done, provider.ended), ([True], 1), f"torn down, and ended, after {times} raw cancellations")
