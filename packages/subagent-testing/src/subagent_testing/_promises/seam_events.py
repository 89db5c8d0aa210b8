"""The seam: the log of a run, its bounds and its readers."""

from __future__ import annotations

import anyio
import anyio.lowlevel

from subagent_testing import scripted
from subagent_testing._promise import expect, expect_equal
from subagent_testing._promises.bursting import KEPT
from subagent_testing.scripted import CHUNK, Scripted
from subagents import Event, Link, NoticeEvent, Result, Run, Task, TextEvent, ToolEvent

_CHUNKS = 60  # 26,220 events: more than a log keeps


async def _read(run: Run, into: list[Event], rest: float = 0) -> None:
    async for event in run.events():
        into.append(event)
        if rest:
            await anyio.sleep(rest)


async def every_event_of_a_burst_reaches_a_reader_that_keeps_up() -> None:
    """64 KiB in one read, over and over: a reader that keeps up gets every event, also with two runs at once."""
    told: list[list[Event]] = [[], []]
    async with anyio.create_task_group() as tasks:
        for each in told:

            async def follow(into: list[Event]) -> None:
                async with Scripted(scripted.bursts(_CHUNKS)).start("x") as run:
                    await _read(run, into)

            tasks.start_soon(follow, each)
    for each in told:
        ids = [e.id for e in each if isinstance(e, ToolEvent)]
        expect_equal(len(ids), _CHUNKS * CHUNK, "events told")
        expect(ids == [str(i) for i in range(_CHUNKS * CHUNK)], "they came in another order")


async def what_a_sleeping_reader_missed_is_counted_to_the_event() -> None:
    """A log keeps at most 16,384 events; kept and lost are together all that was told."""
    async with Scripted(scripted.bursts(_CHUNKS)).start("x") as run:
        result = await run.result()
    told = [e async for e in run.events()]
    lost = [e.data["count"] for e in told if isinstance(e, NoticeEvent) and e.code == "lost"]
    everything = _CHUNKS * CHUNK + 1  # and `started`
    expect_equal(lost, [everything - KEPT], "events lost, as the reader was told")
    expect_equal(result.evidence.events_lost, everything - KEPT, "events lost, as the evidence has it")
    expect_equal(len(told) - 1, KEPT, "events kept")
    last = told[-1]
    expect(isinstance(last, ToolEvent) and last.id == str(_CHUNKS * CHUNK - 1), f"the newest is not there: {last}")


async def two_readers_get_the_same_text_and_nothing_twice() -> None:
    """Text is merged only into what nobody has read: a quick and a slow reader get the same words, none twice."""
    words = [f"{i} " for i in range(300)]

    async def script(task: Task, link: Link) -> None:
        link.ready()
        for i, word in enumerate(words):
            link.emit(TextEvent(word, "m1"))
            if i % 7 == 0:
                await anyio.lowlevel.checkpoint()
        link.finish(Result.completed("done"))

    quick: list[Event] = []
    slow: list[Event] = []
    async with Scripted(script).start("x") as run, anyio.create_task_group() as tasks:
        tasks.start_soon(_read, run, quick)
        tasks.start_soon(_read, run, slow, 0.0005)
    for told in (quick, slow, late := [e async for e in run.events()]):
        expect_equal(_text(told), "".join(words), "the text")
    expect(len(late) < len(words), "nothing was merged")


def _text(told: list[Event]) -> str:
    return "".join(e.text for e in told if isinstance(e, TextEvent))


async def nothing_is_told_after_the_verdict() -> None:
    """What a backend emits after the verdict is counted as late and told to nobody; readers end with the verdict."""

    async def script(task: Task, link: Link) -> None:
        link.ready()
        try:
            await anyio.sleep_forever()
        finally:
            link.emit(TextEvent("too late", "m1"))

    told: list[Event] = []
    async with Scripted(script).start("x") as run:
        run.cancel()
        await _read(run, told)
    expect_equal([e.type for e in told if e.type != "started"], [], "told after the verdict")
    expect_equal((await run.closed()).evidence.events_late, 1, "events that came late")


async def a_reader_begins_at_the_beginning() -> None:
    """Any number of readers, each from the start of what is kept, also after one of them was cancelled."""
    async with Scripted(scripted.lasts()).start("x") as run:
        for _ in range(2):
            told: list[Event] = []
            with anyio.move_on_after(0.05):
                await _read(run, told)
            expect_equal([e.type for e in told], ["notice", "started", "text"], "told")
    expect_equal([e.type async for e in run.events()], ["notice", "started", "text"], "told after the end")


async def one_huge_event_is_told() -> None:
    """An event larger than the whole log is told all the same."""

    async def script(task: Task, link: Link) -> None:
        link.ready()
        link.emit(TextEvent("x" * 12_000_000, "m1"))
        link.emit(TextEvent("end", "m2"))
        link.finish(Result.completed("done"))

    async with Scripted(script).start("x") as run:
        expect_equal([len(e.text) async for e in run.events() if isinstance(e, TextEvent)], [12_000_000, 3], "told")
