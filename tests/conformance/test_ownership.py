"""Who owns a run: harnesses of every shape hold it, lose it, cancel it and hand it over."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import signal
import threading
from collections.abc import AsyncGenerator

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

import subagents
from subagent_testing import Scripted, scripted
from subagents import Event, Link, Result, Run, Runtime, Task

pytestmark = pytest.mark.anyio

asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])


async def _events(run: Run) -> AsyncGenerator[Event]:
    async with run:
        async for event in run.events():
            yield event


async def test_an_async_generator_around_a_run_may_be_closed_by_another_task() -> None:
    provider = Scripted(scripted.lasts())
    stream = _events(provider.start("x"))
    async for _ in stream:
        break
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.aclose)
    assert provider.ended == 1


async def test_a_blocking_portal_may_enter_and_leave_by_separate_calls(anyio_backend: str) -> None:
    provider = Scripted(scripted.lasts())

    def harness() -> Result:
        with anyio.from_thread.start_blocking_portal(anyio_backend) as portal:
            run = portal.call(provider.start("x").__aenter__)
            run.cancel("from a foreign thread")
            result = portal.call(run.closed)
            portal.call(run.__aexit__, None, None, None)
        return result

    with anyio.fail_after(10):
        assert (await anyio.to_thread.run_sync(harness)).stop_reason == "aborted"
    assert provider.ended == 1


async def test_five_hundred_runs_at_once_all_complete() -> None:
    results: list[Result] = []

    async def one() -> None:
        results.append(await subagents.run(Scripted(scripted.completes()), "x"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(500):
                tasks.start_soon(one)
    assert [r.stop_reason for r in results] == ["completed"] * 500


async def test_a_run_belongs_to_whoever_holds_it_and_a_runtime_holds_its_own() -> None:
    lost, kept, ended = Scripted(scripted.lasts()), Scripted(scripted.lasts()), anyio.Event()
    async with Runtime([kept]) as runtime:
        await runtime.start("scripted", "x")
        run = lost.start("x")
        run.when_ended(ended.set)
        await run.__aenter__()
        del run
        gc.collect()
        with anyio.fail_after(5):
            await ended.wait()
        assert (lost.ended, kept.ended) == (1, 0)
    assert kept.ended == 1


async def test_a_handle_that_is_lost_in_another_thread_stops_its_run() -> None:
    provider, ended = Scripted(scripted.lasts()), anyio.Event()
    holder = [await provider.start("x").__aenter__()]
    holder[0].when_ended(ended.set)
    thread = threading.Thread(target=lambda: (holder.clear(), gc.collect()))
    thread.start()
    with anyio.fail_after(5):
        await ended.wait()
    await anyio.to_thread.run_sync(thread.join)
    assert provider.ended == 1


async def test_a_run_that_was_started_and_never_entered_is_nothing_to_clean_up() -> None:
    provider = Scripted(scripted.lasts())
    provider.start("x")
    gc.collect()
    assert provider.started == 0


async def test_cancelling_in_a_thread_before_entering_wakes_who_waits_for_the_result() -> None:
    run = Scripted(scripted.lasts()).start("x")
    results: list[Result] = []
    told: list[Event] = []

    async def wait() -> None:
        results.append(await run.result())

    async def read() -> None:
        told.extend([e async for e in run.events()])

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            tasks.start_soon(read)
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            tasks.start_soon(anyio.to_thread.run_sync, run.cancel)
    assert [r.stop_reason for r in results] == ["aborted"]
    assert told == []


async def test_a_provider_made_of_others_drives_them_with_a_link_of_its_own() -> None:
    rung = Scripted(scripted.completes("from the rung"))

    async def ladder(task: Task, link: Link) -> None:
        await rung.drive(task, link)

    async with Runtime([Scripted(ladder, name="ladder"), rung], limit=1) as runtime:
        with anyio.fail_after(5):
            assert (await runtime.run("ladder", "x")).output == "from the rung"
    assert rung.ended == 1


async def test_what_a_run_sets_in_the_context_stays_in_it() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="ours")

    async def script(task: Task, link: Link) -> None:
        variable.set("theirs")
        await scripted.completes()(task, link)

    async with Scripted(script).start("x") as run:
        await run.closed()
    assert variable.get() == "ours"


async def test_what_waits_for_the_end_is_called_at_once_when_it_is_over() -> None:
    async with Scripted(scripted.completes()).start("x") as run:
        await run.closed()
    called: list[bool] = []
    run.when_ended(lambda: called.append(True))
    assert called == [True]


@pytest.mark.parametrize("anyio_backend", [None])
def test_a_backend_that_exits_the_program_ends_asyncio_and_is_an_error_on_trio(
    anyio_backend: None, caplog: pytest.LogCaptureFixture
) -> None:
    """On trio only the main task may; a system task that tried would be an internal error of trio."""
    caplog.set_level("CRITICAL")
    run = Scripted(scripted.raises(lambda: SystemExit(3))).start("x")
    with pytest.raises(SystemExit, match="3"):
        asyncio.run(_see(run))
    assert "aborted" in repr(run)
    run = Scripted(scripted.raises(lambda: SystemExit(3))).start("x")
    assert anyio.run(_see, run, backend="trio").stop_reason == "error"


async def _see(run: Run) -> Result:
    async with run:
        return await run.closed()


@asyncio_only
async def test_asyncio_timeout_leaves_nothing_and_no_mark_on_the_task() -> None:
    provider = Scripted(scripted.lasts())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05), provider.start("x") as run:
            await run.result()
    task = asyncio.current_task()
    assert task is not None
    assert (provider.ended, task.cancelling()) == (1, 0)


@asyncio_only
async def test_wait_for_on_the_result_cancels_only_the_waiting() -> None:
    async with Scripted(scripted.lasts()).start("x") as run:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run.result(), 0.02)
        assert "running" in repr(run)
        run.cancel()
        assert (await run.result()).stop_reason == "aborted"


@asyncio_only
async def test_a_signal_handler_of_the_loop_may_cancel() -> None:
    async with Scripted(scripted.lasts()).start("x") as run:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, run.cancel, "stopped by a signal")
        try:
            os.kill(os.getpid(), signal.SIGUSR1)
            with anyio.fail_after(5):
                assert (await run.result()).evidence.notes == ("stopped by a signal",)
        finally:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)


async def test_a_plain_signal_handler_may_cancel_whatever_it_interrupts() -> None:
    async with Scripted(scripted.lasts()).start("x") as run:
        before = signal.signal(signal.SIGUSR1, lambda _number, _frame: run.cancel("stopped by a signal"))
        try:
            os.kill(os.getpid(), signal.SIGUSR1)
            with anyio.fail_after(5):
                assert (await run.closed()).stop_reason == "aborted"
        finally:
            signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("anyio_backend", [None])
def test_a_run_may_be_cancelled_between_two_turns_of_its_loop(anyio_backend: None) -> None:
    """A notebook, or a plain test with an asynchronous fixture: same thread, and the loop stands still."""
    provider = Scripted(scripted.lasts())
    with asyncio.Runner() as runner:
        run = runner.run(provider.start("x").__aenter__())
        run.cancel("in the cell below")
        assert runner.run(run.closed()).stop_reason == "aborted"
        assert provider.ended == 1
        runner.run(run.__aexit__(None, None, None))


@pytest.mark.parametrize("anyio_backend", [None])
def test_a_run_outlives_its_loop_as_an_answer(anyio_backend: None) -> None:
    """Whatever is asked of a run after its loop has ended has an answer, and nothing hangs."""
    provider = Scripted(scripted.lasts())
    run = anyio.run(provider.start("x").__aenter__)
    run.cancel("too late")
    assert provider.ended == 1
    assert anyio.run(run.result).stop_reason == "aborted"
    assert anyio.run(run.closed).stop_reason == "aborted"


@pytest.mark.parametrize("anyio_backend", [None])
def test_a_run_made_before_there_was_a_loop_runs_in_the_one_that_enters_it(anyio_backend: None) -> None:
    run = Scripted(scripted.completes()).start("x")

    assert asyncio.run(_see(run)).ok
