"""The log is bounded, merges only what nobody has read, and counts what is lost."""

from __future__ import annotations

import anyio
import pytest

from subagents import (
    Event,
    NoticeEvent,
    PermissionEvent,
    PermissionRequest,
    PlanEntry,
    PlanEvent,
    TextEvent,
    ThoughtEvent,
    ToolEvent,
    Usage,
    UsageEvent,
)
from subagents._log import LOG_BYTES, LOG_EVENTS, MERGE_BYTES, EventLog

pytestmark = pytest.mark.anyio


def tool(i: int, output: str = "") -> ToolEvent:
    return ToolEvent(str(i), "step", output=output)


async def drain(log: EventLog) -> list[Event]:
    log.close()
    with anyio.fail_after(10):
        return [event async for event in log.reader()]


async def test_a_reader_gets_everything_in_order_from_the_start() -> None:
    log = EventLog()
    for i in range(100):
        log.put(tool(i))
    assert await drain(log) == [tool(i) for i in range(100)]
    assert await drain(log) == [tool(i) for i in range(100)]
    assert log.lost == 0


async def test_text_of_one_message_is_merged_while_nobody_reads() -> None:
    log = EventLog()
    for i in range(50_000):
        log.put(TextEvent(f"{i} ", "m"))
    events = await drain(log)
    assert "".join(e.text for e in events if isinstance(e, TextEvent)) == "".join(f"{i} " for i in range(50_000))
    assert len(events) < 50
    assert all(isinstance(e, TextEvent) and len(e.text) <= MERGE_BYTES for e in events)


async def test_different_messages_parents_and_types_are_not_merged() -> None:
    log = EventLog()
    events: list[Event] = [
        TextEvent("a", "1"),
        TextEvent("b", "2"),
        ThoughtEvent("c", "2"),
        ThoughtEvent("d", "2", "p"),
    ]
    for event in events:
        log.put(event)
    assert await drain(log) == events


async def test_what_a_reader_has_taken_is_not_merged_into() -> None:
    log = EventLog()
    reader = log.reader()
    log.put(TextEvent("a", "m"))
    with anyio.fail_after(5):
        assert await anext(reader) == TextEvent("a", "m")
        log.put(TextEvent("b", "m"))
        log.put(TextEvent("c", "m"))
        assert await anext(reader) == TextEvent("bc", "m")
    assert [e.text for e in await drain(log) if isinstance(e, TextEvent)] == ["a", "bc"]


async def test_the_oldest_fall_out_by_count_and_the_loss_is_told_in_its_place() -> None:
    log = EventLog()
    for i in range(LOG_EVENTS + 10):
        log.put(tool(i))
    reader = log.reader()
    log.close()
    with anyio.fail_after(10):
        events = [event async for event in reader]
    assert isinstance(events[0], NoticeEvent)
    assert (events[0].code, events[0].data) == ("lost", {"count": 10})
    assert events[0].text.startswith("10 events fell out")
    assert events[1:] == [tool(i) for i in range(10, LOG_EVENTS + 10)]
    assert (log.lost, getattr(reader, "lost", None)) == (10, 10)


async def test_the_oldest_fall_out_by_bytes() -> None:
    log = EventLog()
    for i in range(100):
        log.put(tool(i, "x" * 100_000))
    kept = [e for e in await drain(log) if isinstance(e, ToolEvent)]
    assert 38 <= len(kept) <= LOG_BYTES // 100_000
    assert kept[-1] == tool(99, "x" * 100_000)
    assert log.lost == 100 - len(kept)


@pytest.mark.parametrize(
    "event",
    [
        NoticeEvent("n", data={"a": [{"b": "x" * 1_000_000}]}),
        PlanEvent((PlanEntry("x" * 1_000_000),)),
        PermissionEvent(PermissionRequest("t", data={"diff": "x" * 1_000_000})),
        ToolEvent("t", "t", paths=("x" * 1_000_000,)),
        TextEvent("\U0001f600" * 250_000, "m"),
        NoticeEvent("n", data={"a": {"b": {"c": {"d": {"e": {"f": "x" * 1_000_000}}}}}}),
    ],
    ids=["notice", "plan", "permission", "paths", "wide text", "deep notice"],
)
async def test_whatever_is_large_in_an_event_counts(event: Event) -> None:
    log = EventLog()
    for _ in range(20):
        log.put(event)
        log.put(tool(0))
    assert len(await drain(log)) <= 2 * 4 + 2


async def test_one_enormous_event_does_not_push_itself_out() -> None:
    log = EventLog()
    log.put(tool(0, "x" * 12_000_000))
    for i in range(1, 438):
        log.put(tool(i, "y" * 80))
    assert len(await drain(log)) == 438
    assert log.lost == 0


async def test_what_a_reader_has_taken_is_no_loss_when_it_falls_out() -> None:
    log = EventLog()
    reader = log.reader()
    with anyio.fail_after(10):
        for i in range(LOG_EVENTS * 2):
            log.put(tool(i))
            assert await anext(reader) == tool(i)
    assert log.lost == 0


async def test_a_waiting_reader_is_woken_and_one_that_was_cancelled_leaves_nothing() -> None:
    log = EventLog()
    got: list[Event] = []
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:

            async def read() -> None:
                got.extend([event async for event in log.reader()])

            group.start_soon(read)
            with anyio.move_on_after(0.01):
                await anext(log.reader())
            log.put(UsageEvent(Usage(1)))
            log.close()
    assert got == [UsageEvent(Usage(1))]
    assert vars(log)["_waiting"] == []


async def test_what_comes_after_the_end_is_counted_and_not_delivered() -> None:
    log = EventLog()
    log.put(tool(0))
    log.close()
    log.put(tool(1))
    assert await drain(log) == [tool(0)]
    assert log.late == 1
