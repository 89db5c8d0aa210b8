"""A child that says very much at once."""

from __future__ import annotations

from typing import Final

import anyio

from subagent_testing._promise import Subject, expect, expect_equal
from subagents import Event, NoticeEvent, Run

KEPT: Final = 16_384
"""Events that a log keeps at most, as `Run.events` states."""


def _lost(event: Event) -> int:
    return event.data["count"] if isinstance(event, NoticeEvent) and event.code == "lost" else 0


async def _follow(run: Run) -> int:
    """How many events a reader that keeps up was told; it must have lost none."""
    told = 0
    async with run:
        async for event in run.events():
            told += 1
            expect(not _lost(event), f"a reader that keeps up lost: {event}")
        lost = (await run.result()).evidence.events_lost
    expect_equal(lost, 0, "events lost, as the evidence has it")
    return told


async def a_reader_that_keeps_up_loses_nothing(subject: Subject) -> None:
    """However much comes at once, a reader that keeps up loses nothing: the backend yields once per chunk."""
    expect(await _follow(subject.start("burst_task")) > 0, "burst_task told nothing")


async def two_bursts_at_once_lose_nothing(subject: Subject) -> None:
    """The same for two runs at once."""
    runs = [subject.start("burst_task") for _ in range(2)]
    async with anyio.create_task_group() as tasks:
        for run in runs:
            tasks.start_soon(_follow, run)


async def a_reader_that_sleeps_is_bounded_and_told(subject: Subject) -> None:
    """A reader that sleeps stalls nobody; the log stays bounded, and what fell out is counted.

    For the reader, in a `notice` with code `lost`, and in the evidence.
    """
    async with subject.start("burst_task") as run:
        result = await run.result()  # meanwhile nobody reads
        told = [e async for e in run.events()]
    counted = sum(_lost(e) for e in told)
    expect(len([e for e in told if not _lost(e)]) <= KEPT, f"{len(told)} events are kept")
    expect_equal(counted, result.evidence.events_lost, "events lost, as the reader was told and as the evidence has it")
