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
from subagents import Choice, Event, Failure, Link, PermissionRequest, Result, Run, Runtime, Task

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


async def _ended(provider: Scripted) -> None:
    with anyio.fail_after(5):
        while not provider.ended:
            gc.collect()
            await anyio.sleep(0.001)


async def test_a_run_belongs_to_whoever_holds_it_and_a_runtime_holds_its_own() -> None:
    lost, kept = Scripted(scripted.lasts()), Scripted(scripted.lasts())
    async with Runtime([kept]) as runtime:
        await runtime.start("scripted", "x")
        await lost.start("x").__aenter__()
        await _ended(lost)
        assert kept.ended == 0
    assert kept.ended == 1


async def test_a_handle_that_is_lost_in_another_thread_stops_its_run() -> None:
    provider = Scripted(scripted.lasts())
    holder = [await provider.start("x").__aenter__()]
    thread = threading.Thread(target=lambda: (holder.clear(), gc.collect()))
    thread.start()
    await _ended(provider)
    await anyio.to_thread.run_sync(thread.join)


async def test_a_runtime_that_is_lost_stops_what_it_owns() -> None:
    provider = Scripted(scripted.lasts())
    runtime = await Runtime([provider]).__aenter__()
    await runtime.start("scripted", "x")
    del runtime
    await _ended(provider)


class Application:
    """The ordinary shape: an object that holds a run and decides for it."""

    def __init__(self, provider: Scripted) -> None:
        self.asked: list[str] = []
        self.run = provider.start("x", permission=self.decide)

    def decide(self, request: PermissionRequest) -> Choice:
        self.asked.append(request.title)
        return Choice("allow_once")


async def test_a_callback_that_reaches_the_handle_does_not_keep_it_alive() -> None:
    async def script(task: Task, link: Link) -> None:
        link.ready()
        await link.ask(PermissionRequest("once"))
        await scripted.lasts()(task, link)

    provider = Scripted(script)
    application = Application(provider)
    await application.run.__aenter__()
    with anyio.fail_after(5):
        while not application.asked:
            await anyio.lowlevel.checkpoint()
    del application
    await _ended(provider)


async def test_nobody_is_asked_any_more_after_the_verdict() -> None:
    choices: list[Choice] = []

    async def script(task: Task, link: Link) -> None:
        link.ready()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                choices.append(await link.ask(PermissionRequest("while it tears down")))

    async with Scripted(script).start("x", permission="allow") as run:
        run.cancel()
    assert [c.allowed for c in choices] == [False]


async def test_a_run_that_was_cancelled_and_never_entered_is_closed() -> None:
    run = Scripted(scripted.lasts()).start("x")
    run.cancel("not wanted")
    called: list[bool] = []
    run.when_ended(lambda: called.append(True))
    with anyio.fail_after(5):
        assert (await run.closed()).stop_reason == "aborted"
    assert called == [True]


@pytest.mark.parametrize("ready", [False, True])
async def test_teardown_after_an_error_has_its_time_also_before_ready(ready: bool) -> None:
    steps: list[str] = []

    async def script(task: Task, link: Link) -> None:
        if ready:
            link.ready()
        link.finish(Result.error(Failure("auth", "start", "signed out meanwhile")))
        await anyio.sleep(0.05)  # not shielded: nobody may cut it short
        steps.append("torn down")

    with anyio.fail_after(5):
        assert (await subagents.run(Scripted(script), "x")).stop_reason == "error"
    assert steps == ["torn down"]


@pytest.mark.parametrize("anyio_backend", [None])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    "script",
    [scripted.lasts(), scripted.raises_when_stopped(OSError), scripted.swallows_once(scripted.ends_silently())],
    ids=["obeys", "raises", "returns"],
)
def test_the_end_of_the_loop_is_aborted_whatever_the_backend_makes_of_it(
    anyio_backend: None, backend: str, script: scripted.Script, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL")
    provider = Scripted(script)
    run = anyio.run(provider.start("x").__aenter__, backend=backend)
    assert provider.ended == 1
    assert anyio.run(run.result, backend=backend).stop_reason == "aborted"


@pytest.mark.parametrize("anyio_backend", [None])
def test_a_loop_that_was_closed_over_a_run_is_its_end(anyio_backend: None) -> None:
    """Old-style code closes its loop without cancelling what runs in it."""
    loop = asyncio.new_event_loop()
    run = loop.run_until_complete(Scripted(scripted.lasts()).start("x").__aenter__())
    loop.close()
    run.cancel("too late")
    assert anyio.run(run.result).stop_reason == "aborted"
    assert anyio.run(run.closed).stop_reason == "aborted"


async def _call(provider: Scripted, through: str) -> None:
    match through:
        case "run":
            await subagents.run(provider, "x")
        case "runtime":
            async with Runtime([provider], limit=1) as runtime:
                try:
                    await runtime.run("scripted", "x")
                finally:
                    assert provider.started == provider.ended, "it came back, and drive is alive"
        case _:
            async with provider.start("x") as run:
                await run.closed()


@asyncio_only
@pytest.mark.parametrize("times", [1, 2, 5])
@pytest.mark.parametrize("through", ["run", "runtime", "context"])
async def test_a_caller_may_be_cancelled_raw_at_every_step(times: int, through: str) -> None:
    for step in range(40):
        provider = Scripted(scripted.completes("a few words", pieces=3))

        task = asyncio.create_task(_call(provider, through))
        for _ in range(step):
            await asyncio.sleep(0)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with anyio.fail_after(5):
            await asyncio.wait([task])
        assert provider.started == provider.ended, f"cancelled at step {step} it came back, and drive is alive"
        assert task.cancelled() or task.exception() is None


async def test_following_a_run_is_not_holding_it() -> None:
    provider = Scripted(scripted.lasts())
    told = (await provider.start("x").__aenter__()).events()
    gc.collect()
    with anyio.fail_after(5):
        assert [e.type async for e in told][:2] == ["notice", "started"]
        while not provider.ended:
            await anyio.lowlevel.checkpoint()


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
    assert "error" in repr(run)
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
