"""Every way to stop a run that works."""

from __future__ import annotations

import asyncio
import gc
import threading

import anyio

import subagents
from subagent_testing._promise import Subject, expect, expect_equal
from subagent_testing._promises.starting import cancelled_raw
from subagent_testing._promises.working import closed_for_good
from subagents import Run


async def cancelled_it_is_aborted(subject: Subject) -> None:
    """`cancel` makes the verdict `aborted`, and then nothing is left."""
    async with subject.start("slow_task") as run:
        run.cancel("enough")
        expect_equal((await run.result()).stop_reason, "aborted", "the verdict")
        await closed_for_good(run)  # before the context is left, which would cancel once more


async def cancelled_from_a_thread_it_is_aborted(subject: Subject) -> None:
    """`cancel` works from a thread that knows no event loop."""
    async with subject.start("slow_task") as run:
        thread = threading.Thread(target=run.cancel, args=["from a thread"])
        thread.start()
        expect_equal((await run.result()).stop_reason, "aborted", "the verdict")
        thread.join()
        await closed_for_good(run)  # before the context is left, which would cancel once more


async def cancelled_twice_or_after_the_end_nothing_changes(subject: Subject) -> None:
    """Cancelling again, or after the end, changes nothing."""
    async with subject.start("slow_task") as run:
        run.cancel("first")
        run.cancel("second")
        first = await run.result()
        await closed_for_good(run)
        run.cancel("third")
    expect((await run.result()) is first, "the verdict was replaced")
    async with subject.start() as run:
        verdict = await run.result()
        await closed_for_good(run)
        run.cancel("too late")
    expect_equal((await run.closed()).stop_reason, verdict.stop_reason, "the verdict after a late cancel")


async def leaving_stops_it(subject: Subject) -> None:
    """Leaving the context early stops the run; when it returns nothing is left."""
    ended: list[bool] = []
    run = subject.start("slow_task")
    run.when_ended(lambda: ended.append(True))
    async with run:
        pass
    expect(bool(ended), "the context was left before the backend had ended")
    expect_equal((await closed_for_good(run)).stop_reason, "aborted", "the verdict")


async def an_exception_of_the_body_comes_out_as_it_is(subject: Subject) -> None:
    """An exception in the body comes out itself, in no group, and the run is stopped."""
    mine = KeyError("mine")
    run = subject.start("slow_task")
    try:
        async with run:
            raise mine
    except BaseException as exc:  # noqa: BLE001  # whatever it is, that is the question
        expect(exc is mine, f"it came out as {exc!r}")
    expect_equal((await closed_for_good(run)).stop_reason, "aborted", "the verdict")


async def a_dropped_handle_stops_it(subject: Subject) -> None:
    """Holding the handle is owning the run: losing the last reference stops it."""
    run = subject.start("slow_task")
    await run.__aenter__()
    told = run.events()  # following is not holding
    del run
    gc.collect()
    async for _ in told:  # it ends with the verdict; that the backend ends too, the tasks of the loop will show
        pass


async def it_may_be_left_in_another_task(subject: Subject) -> None:
    """A run may be entered in one task and left in another, as fixtures and portals do."""
    run = subject.start("slow_task")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run.__aenter__)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run.__aexit__, None, None, None)
    expect_equal((await closed_for_good(run)).stop_reason, "aborted", "the verdict")


async def a_cancelled_scope_stops_it(subject: Subject) -> None:
    """When the caller's scope is cancelled in the body, that comes out and nothing is left."""
    run = subject.start("slow_task")
    with anyio.CancelScope() as scope:
        async with run:
            scope.cancel()
            await anyio.sleep_forever()
    expect(scope.cancelled_caught, "the cancellation did not come out")
    expect_equal((await closed_for_good(run)).stop_reason, "aborted", "the verdict")


async def raw_cancels_leave_nothing(subject: Subject) -> None:
    """Raw `task.cancel()` in the body, 1, 2 and 5 times: it comes out once, after the backend has ended."""
    for times in (1, 2, 5):
        await cancelled_raw(subject.start("slow_task"), times, entered=asyncio.Event())


async def the_end_of_the_loop_ends_it(subject: Subject) -> None:
    """A run that is still open when the event loop ends leaves nothing."""
    run = subject.start("slow_task")
    await run.__aenter__()
    _open.append(run)  # held beyond the loop: it is the loop's end that must end it


_open: list[Run] = []


async def a_deadline_is_a_timeout(subject: Subject) -> None:
    """`deadline` ends a run, start-up included, as an `error` of kind `timeout`."""
    result = await subagents.run(subject.make(), subject.given("slow_task"), deadline=0.2)
    failure = result.failure
    expect(failure is not None and failure.kind == "timeout", f"it ended as {result.stop_reason}: {failure}")


async def stopping_one_leaves_the_other_alone(subject: Subject) -> None:
    """Two runs at once know nothing of each other: stopping one leaves the other at work."""
    async with subject.start("slow_task") as one, subject.start("slow_task") as other, subject.start() as third:
        one.cancel()
        await closed_for_good(one)
        expect((await third.result()).ok, f"a run beside a cancelled one ended as {await third.result()}")
        with anyio.move_on_after(0.05) as waited:
            await other.result()
        expect(waited.cancelled_caught, "stopping one run ended another")


async def nothing_is_left(subject: Subject) -> None:
    """After runs that completed, were stopped and were dropped, nothing is left.

    No task, thread, descriptor, child process or temporary folder: whoever runs this looks.
    """
    await subagents.run(subject.make(), subject.task)
    async with subject.start("slow_task"):
        pass
    await a_dropped_handle_stops_it(subject)
