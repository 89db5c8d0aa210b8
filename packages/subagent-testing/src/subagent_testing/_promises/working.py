"""A task that completes: the verdict, what was told on the way, and the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

import subagents
from subagent_testing._promise import Subject, expect, expect_equal
from subagents import Event, NoticeEvent, Result, Run, StartedEvent, event_from_json


async def closed_for_good(run: Run) -> Result:
    """The result of a run that is closed, with the proof that its backend ended."""
    result = await run.closed()
    expect(not result.evidence.left_behind, "the backend did not end within leave_timeout and was left behind")
    return result


async def a_task_completes(subject: Subject) -> None:
    """The task that should complete does, with something to show for it, and nothing is left when `run` returns."""
    result = await subagents.run(subject.make(), subject.task)
    expect(result.ok, f"it ended as {result.stop_reason}: {result.failure}")
    expect(bool(result.output or result.structured is not None or result.evidence.edits), "there is nothing to show")
    expect(not result.evidence.left_behind, "the backend did not end and was left behind")


async def the_verdict_does_not_change(subject: Subject) -> None:
    """The verdict stays: for every waiter, at any time, however often, also when another waiter is cancelled."""
    async with subject.start() as run:
        found: list[Result] = []

        async def wait() -> None:
            found.append(await run.result())

        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                scope.cancel()
                await run.result()
            for _ in range(10):
                tasks.start_soon(wait)
        verdict = await run.result()
    expect(all(r is verdict for r in found), "two waiters got different verdicts")
    closed = await closed_for_good(run)
    for field in ("stop_reason", "output", "structured", "failure", "usage", "session", "model"):
        expect_equal(getattr(closed, field), getattr(verdict, field), f"{field} when it was closed")


async def a_verdict_comes_before_teardown(subject: Subject) -> None:
    """The verdict is there on the terminal message, and not when the child that lingers after it has gone."""
    at: dict[str, float] = {}

    async def note(what: str, moment: Callable[[], Awaitable[Result]]) -> None:
        await moment()
        at[what] = anyio.current_time()

    async with subject.start("linger_task") as run, anyio.create_task_group() as tasks:
        tasks.start_soon(note, "verdict", run.result)
        tasks.start_soon(note, "closed", run.closed)
    # Promised is at most 0.2 s after the terminal message.  Seen from the end, a slow machine only makes it longer.
    early, lingers = at["closed"] - at["verdict"], subject.lingers
    expect(early > lingers - 0.2, f"the verdict came {early:.2f} s before a child had gone that lingers {lingers} s")


async def started_is_told_once(subject: Subject) -> None:
    """Followers hear once that the child has accepted the work."""
    async with subject.start() as run:
        await run.result()
    told = [e async for e in run.events() if isinstance(e, StartedEvent)]
    expect_equal(len(told), 1, "how often `started` was told")


async def entering_returns_when_the_work_is_accepted(subject: Subject) -> None:
    """Entering returns when the child has accepted the work, while it works on it."""
    async with subject.start("slow_task") as run:
        async for event in run.events():  # it is in the log already, behind what start-up told
            if isinstance(event, StartedEvent):
                break
        with anyio.move_on_after(0.05) as waited:
            verdict = await run.result()
            expect(False, f"the slow task has ended as {verdict.stop_reason}: {verdict.failure}")
        expect(waited.cancelled_caught, "the slow task has ended")


async def events_end_with_the_verdict(subject: Subject) -> None:
    """A reader gets every event before the verdict and then ends; a late one gets the same."""
    told: list[Event] = []
    async with subject.start() as run:
        told.extend([e async for e in run.events()])
        verdict = await run.result()
    expect_equal(verdict.evidence.events_lost, 0, "events lost to a reader that keeps up")
    late = [e async for e in run.events() if not (isinstance(e, NoticeEvent) and e.code == "lost")]
    expect(told[len(told) - len(late) :] == late, "a late reader was told something else")


async def all_goes_through_json_unchanged(subject: Subject) -> None:
    """Events and the result are plain values: to JSON and back they are the same."""
    async with subject.start() as run:
        async for event in run.events():
            expect_equal(event_from_json(event.to_json()), event, "an event that went through JSON")
        result = await run.result()
    expect_equal(Result.from_json(result.to_json()), result, "the result that went through JSON")
