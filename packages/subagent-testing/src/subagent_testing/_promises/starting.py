"""The way in: a start that fails, and a start that is stopped."""

from __future__ import annotations

import asyncio
from typing import get_args

import anyio
import anyio.lowlevel

import subagents
from subagent_testing._promise import Subject, expect, expect_equal
from subagent_testing._promises.working import closed_for_good
from subagent_testing.errors import NotApplicable
from subagents import FailureKind, Run, StartError


async def a_failed_start_is_one_start_error(subject: Subject) -> None:
    """A start that fails raises one `StartError` that says why, when nothing is left; `subagents.run` returns it."""
    if subject.failing is None:
        raise NotApplicable("no failing provider was given")
    ended: list[bool] = []
    run = subject.failing().start(subject.task)
    run.when_ended(lambda: ended.append(True))
    try:
        async with run:
            expect(False, "entering returned, and the provider was given as one that cannot start")
    except StartError as exc:
        expect(bool(ended), "it came out before the backend had ended")
        expect(exc.failure.kind in get_args(FailureKind), f"the kind of the failure is {exc.failure.kind!r}")
        expect(bool(exc.failure.message.strip()), "the failure has no message")
    expect_equal((await closed_for_good(run)).stop_reason, "error", "the verdict")
    expect_equal((await subagents.run(subject.failing(), subject.task)).stop_reason, "error", "what run() returns")


async def cancelled_before_entering_it_starts_nothing(subject: Subject) -> None:
    """A run that was cancelled before it is entered does not raise and starts nothing: it is `aborted`."""
    run = subject.start()
    run.cancel("not wanted any more")
    run.cancel()
    async with run:
        expect_equal((await run.result()).stop_reason, "aborted", "the verdict")
    expect_equal([e.type async for e in run.events()], [], "events")


async def cancelled_while_entering_it_is_aborted(subject: Subject) -> None:
    """A run that is cancelled while it is entered does not raise: it is `aborted`, and nothing is left."""
    for turns in (0, 1, 5):
        run = subject.start("slow_task")

        async def stop(run: Run = run, turns: int = turns) -> None:
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            run.cancel("changed my mind")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop)
            async with run:
                expect_equal((await run.result()).stop_reason, "aborted", f"the verdict, cancelled after {turns} turns")
        await closed_for_good(run)


async def a_caller_cancelled_while_entering_leaves_nothing(subject: Subject) -> None:
    """When the caller's scope is cancelled while it enters, that comes out after the backend has ended."""
    for turns in (0, 1, 5):
        run = subject.start("slow_task")
        with anyio.CancelScope() as scope:

            async def stop(scope: anyio.CancelScope = scope, turns: int = turns) -> None:
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stop)
                async with run:
                    await anyio.sleep_forever()
        expect(scope.cancelled_caught, "the cancellation did not come out")
        expect_equal((await closed_for_good(run)).stop_reason, "aborted", "the verdict")


async def raw_cancels_while_entering_leave_nothing(subject: Subject) -> None:
    """Raw `task.cancel()` while it is entered, 1, 2 and 5 times: it comes out once, after the backend has ended."""
    for times in (1, 2, 5):
        await cancelled_raw(subject.start("slow_task"), times, entered=None)


async def cancelled_raw(run: Run, times: int, *, entered: asyncio.Event | None) -> None:
    """Cancel the task that holds the run, as asyncio does and as anyio's shields do not stop.

    Args:
        run: not entered.
        times: how often, a turn of the loop apart.
        entered: begin once this is set; None begins while the run is being entered.

    Raises:
        NotApplicable: on trio, which has no such thing.
    """
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        raise NotApplicable("only asyncio has raw cancellation")

    ended: list[bool] = []
    run.when_ended(lambda: ended.append(True))

    async def hold() -> None:
        try:
            async with run:
                (entered or asyncio.Event()).set()
                await asyncio.Event().wait()
        finally:
            ended.append(False)  # when the caller is back: the backend's end comes before this, or too late

    task = asyncio.create_task(hold(), name="the caller")
    await (asyncio.sleep(0) if entered is None else entered.wait())
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([task])
    expect(
        task.cancelled(), f"{times} raw cancellations came out as {None if task.cancelled() else task.exception()!r}"
    )
    expect(ended[0], f"after {times} raw cancellations the caller was let go before the backend had ended")
    expect_equal((await closed_for_good(run)).stop_reason, "aborted", f"the verdict after {times} raw cancellations")
