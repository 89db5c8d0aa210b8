"""The seam: entering, and what comes out of it when nothing is accepted."""

from __future__ import annotations

from contextlib import suppress

import anyio

from subagent_testing import scripted
from subagent_testing._promise import expect, expect_equal
from subagent_testing._promises.publication import VALUES
from subagent_testing.leaks import environment
from subagent_testing.scripted import Scripted
from subagents import Failure, Link, NoticeEvent, Result, StartError, SubagentError, Task


async def a_start_error_comes_after_the_clean_up() -> None:
    """`StartError` comes out once, unwrapped from the task groups of `drive`, when `drive` has cleaned up."""
    for in_group in (False, True):
        cleaned: list[bool] = []
        failure = Failure("launch", "start", "no such program: engine")
        provider = Scripted(
            scripted.refuses(failure, in_group=in_group, cleanup=lambda cleaned=cleaned: cleaned.append(True))
        )
        try:
            async with provider.start("x", changes=False):
                expect(False, "entering returned")
        except StartError as exc:
            expect_equal(exc.failure, failure, "the failure")
            expect_equal((cleaned, provider.ended), ([True], 1), "cleaned up, and ended, when it came out")


async def any_exception_before_ready_is_a_start_error() -> None:
    """Whatever `drive` raises before `ready` is a `StartError`."""
    for error in (OSError("no such file"), ValueError("unexpected answer")):
        try:
            async with Scripted(scripted.raises(lambda error=error: error, ready=False)).start("x", changes=False):
                expect(False, "entering returned")
        except StartError as exc:
            expect_equal(exc.failure.stage, "start", "the stage")
            expect(str(error) in exc.failure.message, f"the message does not say {error}: {exc.failure.message}")


async def a_verdict_without_ready_is_published() -> None:
    """A backend that finishes without `ready` has accepted the work: entering returns."""

    async def script(task: Task, link: Link) -> None:
        link.finish(Result.completed("done"))

    async with Scripted(script).start("x", changes=False) as run:
        expect_equal((await run.result()).output, "done", "the answer")


async def start_up_can_be_followed() -> None:
    """Events before `ready` reach a follower while the caller is still entering."""
    go = anyio.Event()
    seen: list[str] = []

    async def script(task: Task, link: Link) -> None:
        link.emit(NoticeEvent("downloading", "progress"))
        await go.wait()  # set by the follower: without it, start-up never ends
        await scripted.completes()(task, link)

    run = Scripted(script).start("x", changes=False)

    async def follow() -> None:
        async for event in run.events():
            seen.append(event.type)
            go.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        async with run:
            await run.result()
    expect_equal(seen, ["notice", "started", "text"], "what was told")


async def cancelled_before_entering_drive_is_never_called() -> None:
    """A run that was cancelled before it is entered never reaches `drive`."""
    provider = Scripted(scripted.lasts())
    run = provider.start("x", changes=False)
    run.cancel("no")
    async with run:
        expect_equal((await run.result()).evidence.notes, ("no",), "the notes")
    expect_equal(provider.started, 0, "how often drive was called")


async def a_run_is_entered_once() -> None:
    """Entering a run again is an error, and changes nothing about the run."""
    async with Scripted(scripted.lasts()).start("x", changes=False) as run:
        with suppress(SubagentError):
            await run.__aenter__()
            expect(False, "it was entered twice")
        run.cancel()
        expect_equal((await run.result()).stop_reason, "aborted", "the verdict")


async def a_delegates_delegate_is_refused() -> None:
    """Inside a delegated agent nothing is started by default: entering is a `StartError` of kind `policy`."""
    provider = Scripted(scripted.completes())
    with environment("SUBAGENT_DEPTH", "1"):
        run = provider.start("x", changes=False)
        allowed = Scripted(scripted.completes(), max_depth=2).start("x", changes=False)
    try:
        async with run:
            expect(False, "entering returned")
    except StartError as exc:
        expect_equal(exc.failure.kind, "policy", "the kind of the failure")
    expect_equal(provider.started, 0, "how often drive was called")
    async with allowed:
        expect((await allowed.result()).ok, "a provider with max_depth 2 was refused at level 2")


async def each_field_is_refused_without_and_reaches_drive_with_its_capability() -> None:
    """Each Task field outside `capabilities` is refused; inside, `drive` sees its value."""
    for field, value in VALUES.items():
        provider = Scripted(scripted.completes(), capabilities={field})
        for other in VALUES:
            try:
                provider.start("x", **{other: VALUES[other]})
            except SubagentError as exc:
                expect(other != field and other in str(exc), f"{other} was refused with capability {field}: {exc}")
            else:
                expect(other == field, f"{other} was accepted with capability {field}")
        async with provider.start("x", **{field: value}) as run:
            await run.result()
        expect_equal(provider.started, 1, "how often drive was called")
        expect_equal(getattr(provider.tasks[0], field), value, f"{field} as drive saw it")
