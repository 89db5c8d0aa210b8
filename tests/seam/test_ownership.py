"""Who owns a run, and what becomes of it when its loop, its handle or its moment is gone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable
from types import FrameType

import anyio
import pytest

import subagents
from subagents import Choice, Failure, Link, PermissionRequest, Result, Run, StartError, Task

Body = Callable[[Task, Link], Awaitable[None]]


class Scripted(subagents.Provider):
    """Does what it is given."""

    name = "scripted"
    leave_timeout = 5.0

    def __init__(self, body: Body) -> None:
        self.body = body
        self.torn_down = 0

    async def drive(self, task: Task, link: Link) -> None:
        try:
            await self.body(task, link)
        finally:
            self.torn_down += 1


async def lasting(task: Task, link: Link) -> None:
    link.ready()
    await anyio.sleep_forever()


@pytest.mark.anyio
async def test_a_run_that_was_cancelled_before_it_was_entered_is_closed() -> None:
    run = Scripted(lasting).start("x")
    called: list[int] = []
    run.when_ended(lambda: called.append(1))
    run.cancel("no")
    with anyio.fail_after(5):
        assert (await run.closed()).stop_reason == "aborted"
        async with run:
            assert (await run.result()).evidence.notes == ("no",)
    assert called == [1]


def test_a_loop_that_was_closed_over_a_run_ends_it() -> None:
    provider = Scripted(lasting)
    loop = asyncio.new_event_loop()
    run = provider.start("x")
    loop.run_until_complete(run.__aenter__())
    loop.close()

    async def elsewhere(run: Run) -> Result:
        with anyio.fail_after(5):
            assert (await run.closed()).evidence.left_behind
            return await run.result()

    assert anyio.run(elsewhere, run).stop_reason == "aborted"
    del run
    gc.collect()
    assert provider.torn_down == 1


def test_a_handle_that_is_dropped_after_its_loop_was_closed_lets_go_of_the_backend() -> None:
    provider = Scripted(lasting)
    loop = asyncio.new_event_loop()
    run = provider.start("x")
    loop.run_until_complete(run.__aenter__())
    loop.close()
    del run
    gc.collect()
    assert provider.torn_down == 1


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_cancelling_when_the_loop_has_ended_gives_a_verdict(backend: str) -> None:
    async def make() -> Run:
        return Scripted(lasting).start("x")

    run = anyio.run(make, backend=backend)
    run.cancel()

    async def read() -> Result:
        with anyio.fail_after(5):
            return await run.result()

    assert anyio.run(read).stop_reason == "aborted"


@pytest.mark.anyio
async def test_a_callback_that_reaches_its_own_run_does_not_keep_it_alive() -> None:
    class App:
        def decide(self, request: PermissionRequest) -> str:
            return "allow"

    provider = Scripted(lasting)
    app = App()
    app.run = await provider.start("x", permission=app.decide).__aenter__()  # type: ignore[attr-defined]  # pyright: ignore
    mark = weakref.ref(app)
    del app
    gc.collect()
    assert mark() is None
    with anyio.fail_after(5):
        while not provider.torn_down:
            await anyio.lowlevel.checkpoint()


@pytest.mark.anyio
async def test_a_runtime_that_is_dropped_ends_its_runs() -> None:
    provider = Scripted(lasting)

    async def begin() -> None:
        runtime = await subagents.Runtime([provider]).__aenter__()
        await runtime.start("scripted", "x")

    await begin()
    gc.collect()
    with anyio.fail_after(5):
        while not provider.torn_down:
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    "what", [pytest.param("result", marks=pytest.mark.long), pytest.param("events", marks=pytest.mark.long), "closed"]
)
def test_a_signal_handler_may_cancel_at_any_step_of_who_waits(what: str) -> None:
    """The handler is called after the n-th line or instruction of the waiter, for every n that there is."""

    async def main(at: int) -> bool:
        run = Scripted(lasting).start("x")
        fired = False

        def trace(frame: FrameType, event: str, arg: object) -> object:
            nonlocal steps, fired
            frame.f_trace_opcodes = True
            steps += 1
            if steps == at:
                fired = True
                sys.settrace(None)
                run.cancel("from a handler")
            return trace

        async def wait() -> None:
            if what == "events":
                async for _ in run.events():
                    pass
            else:
                await getattr(run, what)()

        async with run:
            await asyncio.sleep(0)
            steps = 0
            sys.settrace(trace)  # pyright: ignore[reportArgumentType]  # a tracer that returns itself
            waiter = asyncio.ensure_future(wait())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            sys.settrace(None)
            if not fired:
                run.cancel()
            with anyio.fail_after(10):
                await waiter
        return fired

    at = 1
    while asyncio.run(main(at)):
        at += 7
    assert at > 50


@pytest.mark.anyio
async def test_nothing_is_asked_once_there_is_a_verdict() -> None:
    asked: list[str] = []
    answers: list[Choice] = []

    async def body(task: Task, link: Link) -> None:
        link.ready()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                answers.append(await link.ask(PermissionRequest("late")))

    def decide(request: PermissionRequest) -> str:
        asked.append(request.title)
        return "allow"

    with anyio.fail_after(5):
        async with Scripted(body).start("x", permission=decide):  # pyright: ignore[reportArgumentType]
            pass
    assert (asked, answers[0].allowed) == ([], False)


class Odd:
    """An answer that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]  # pyright: ignore


async def own_timeout(request: PermissionRequest) -> object:
    raise TimeoutError


@pytest.mark.parametrize("callback", [lambda request: Odd(), own_timeout], ids=["odd", "timeout"])  # pyright: ignore
@pytest.mark.anyio
async def test_an_answer_that_goes_wrong_is_a_rejection(callback: object) -> None:
    choices: list[Choice] = []

    async def body(task: Task, link: Link) -> None:
        choices.append(await link.ask(PermissionRequest("x")))
        link.finish(Result.completed("x"))

    with anyio.fail_after(5):
        result = await subagents.run(Scripted(body), "x", permission=callback)  # pyright: ignore[reportArgumentType]
    assert result.ok
    assert (choices[0].kind, choices[0].reason) == ("reject_once", "the permission callback failed")


@pytest.mark.anyio
async def test_a_dialog_that_was_cancelled_by_itself_is_a_rejection(anyio_backend: str) -> None:
    if anyio_backend == "trio":
        return  # a task of trio cannot be cancelled from beside it, and Cancelled cannot be made
    choices: list[Choice] = []

    async def body(task: Task, link: Link) -> None:
        choices.append(await link.ask(PermissionRequest("x")))
        link.finish(Result.completed("x"))

    async def decide(request: PermissionRequest) -> Choice:
        dialog = asyncio.ensure_future(asyncio.sleep(60))
        dialog.cancel()
        await dialog
        return Choice("allow_once")

    with anyio.fail_after(5):
        result = await subagents.run(Scripted(body), "x", permission=decide)
    assert result.ok
    assert not choices[0].allowed


@pytest.mark.anyio
async def test_a_failure_before_the_work_was_accepted_still_gets_its_teardown() -> None:
    steps: list[str] = []

    async def body(task: Task, link: Link) -> None:
        link.finish(Result.error(Failure("auth", "start", "sign in")))
        await anyio.lowlevel.checkpoint()
        steps.append("signed out")

    with anyio.fail_after(5), pytest.raises(StartError):
        await Scripted(body).start("x").__aenter__()
    assert steps == ["signed out"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("reaction", ["raises", "returns"])
def test_the_end_of_the_loop_is_aborted_whatever_the_backend_makes_of_it(backend: str, reaction: str) -> None:
    async def body(task: Task, link: Link) -> None:
        link.ready()
        try:
            await anyio.sleep_forever()
        except BaseException:  # noqa: BLE001  # what a careless backend does
            if reaction == "raises":
                raise RuntimeError("teardown") from None

    async def main() -> Run:
        run = Scripted(body).start("x")
        await run.__aenter__()
        return run

    run = anyio.run(main, backend=backend)

    async def read() -> Result:
        with anyio.fail_after(5):
            return await run.result()

    assert anyio.run(read).stop_reason == "aborted"


@pytest.mark.anyio
async def test_an_exception_that_cannot_be_printed_harms_nobody() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    async def body(task: Task, link: Link) -> None:
        link.ready()
        raise Mute

    with anyio.fail_after(5):
        result = await subagents.run(Scripted(body), "x")
    assert result.failure == Failure("unknown", "run", "Mute")


@pytest.mark.anyio
async def test_a_runtime_with_many_stuck_runs_is_left_within_one_bound() -> None:
    release = anyio.Event()

    async def stubborn(task: Task, link: Link) -> None:
        link.ready()
        with anyio.CancelScope(shield=True):
            await release.wait()

    provider = Scripted(stubborn)
    provider.leave_timeout = 0.2
    with anyio.CancelScope() as scope:
        async with subagents.Runtime([provider], limit=100) as runtime:
            for _ in range(100):
                await runtime.start("scripted", "x")
            scope.deadline = anyio.current_time() + 10  # far below 100 times 0.2 s
    assert not scope.cancelled_caught
    release.set()
    with anyio.fail_after(5):
        while provider.torn_down < 100:
            await anyio.lowlevel.checkpoint()


@pytest.mark.anyio
async def test_a_failed_start_through_the_runtime_keeps_its_evidence() -> None:
    async def body(task: Task, link: Link) -> None:
        raise StartError(Failure("auth", "start", "sign in"))

    with anyio.fail_after(5):
        async with subagents.Runtime([Scripted(body)]) as runtime:
            result = await runtime.run("scripted", "x")
    assert result.failure is not None
    assert result.started_at is not None


def test_a_loop_with_a_handler_of_its_own_sees_one_ctrl_c_once() -> None:
    async def body(task: Task, link: Link) -> None:
        link.ready()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        await anyio.sleep_forever()

    async def main() -> int:
        seen = 0

        def note() -> None:
            nonlocal seen
            seen += 1

        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, note)
        with contextlib.suppress(KeyboardInterrupt):
            assert subagents.run_sync(Scripted(body), "x").stop_reason == "aborted"
        for _ in range(5):
            await asyncio.sleep(0)
        return seen

    assert asyncio.run(main()) == 1
