"""The event log of one run: bounded, with any number of readers, each from the start of what is kept.

Traps that shaped it: text is merged only into an event that nobody has read (a reader would see it twice); a reader
is a plain iterator, not an async generator (one that is left early would be closed in another task); one event counts
for at most half of the byte limit, so that a 12 MB line does not push itself out before its reader has had a turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from sys import getsizeof
from typing import Final, Self, cast

import anyio
import anyio.lowlevel

from subagents._events import Event, NoticeEvent, PermissionEvent, PlanEvent, TextEvent, ThoughtEvent, ToolEvent

LOG_BYTES: Final = 4 * 1024 * 1024
LOG_EVENTS: Final = 16_384
"""Several read chunks: 64 KiB hold 437 events of 150 bytes, or 4,096 of 16."""
MERGE_BYTES: Final = 16 * 1024
_OVERHEAD: Final = 64
_EMPTY: Final = getsizeof("")
_MOST: Final = LOG_BYTES // 2
_TEXTS: Final = (TextEvent, ThoughtEvent)


def _weigh(value: object, depth: int = 4) -> int:
    """About how many bytes of memory a plain value takes."""
    if isinstance(value, str):
        return getsizeof(value)  # by the width of its characters
    if depth and isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return _OVERHEAD + sum(_weigh(k, depth - 1) + _weigh(v, depth - 1) for k, v in items)
    if depth and isinstance(value, list | tuple):
        return _OVERHEAD + sum(_weigh(v, depth - 1) for v in cast("list[object]", value))
    # Deeper than that: its text stands for it.
    return _OVERHEAD if isinstance(value, int | float | None) else getsizeof(repr(value))


def _size(event: Event) -> int:
    if isinstance(event, ToolEvent):  # the commonest first: this runs for every event
        size = getsizeof(event.output) + getsizeof(event.title)
        if event.command or event.paths:
            size += _weigh((event.command, event.paths))
    elif isinstance(event, _TEXTS):
        size = getsizeof(event.text)
    elif isinstance(event, NoticeEvent):
        size = getsizeof(event.text)
        if event.data:
            size += _weigh(event.data)
    else:
        match event:
            case PlanEvent():
                size = sum(getsizeof(entry.content) for entry in event.entries)
            case PermissionEvent():
                request = event.request
                size = _weigh((request.title, request.command, request.reason, request.paths, request.data), 6)
            case _:
                size = 256
    size += _OVERHEAD
    return size if size < _MOST else _MOST


class EventLog:
    """What a run has told.  `put` and `close` never wait; they belong to the run's event loop."""

    def __init__(self) -> None:
        self.kept: deque[tuple[Event, int]] = deque()
        self.end = 0  # index after the newest event; the oldest kept is end - len(kept)
        self.seen = 0  # index after the newest event that any reader has taken
        self.lost = 0  # fell out before any reader took them
        self.late = 0  # came after close
        self.closed = False
        self._bytes = 0
        self._more: list[str] = []  # text that belongs to the newest event, which nobody has read
        self._waiting: list[anyio.Event] = []

    def put(self, event: Event) -> None:
        """Append, merging text into an unread neighbour, and let the oldest fall out where the bounds ask for it."""
        if self.closed:
            self.late += 1
            return
        if not isinstance(event, _TEXTS) or not self._merge(event):
            self.join()
            size, kept = _size(event), self.kept
            kept.append((event, size))
            self.end += 1
            self._bytes += size
            while len(kept) > LOG_EVENTS or (self._bytes > LOG_BYTES and len(kept) > 1):
                self._bytes -= kept.popleft()[1]
                if self.end - len(kept) > self.seen:
                    self.lost += 1
        if self._waiting:
            self._wake()

    def _merge(self, event: TextEvent | ThoughtEvent) -> bool:
        if not self.kept or self.seen == self.end:
            return False
        last, size = self.kept[-1]
        if type(last) is not type(event) or not isinstance(last, _TEXTS):
            return False
        grown = getsizeof(event.text) - _EMPTY
        if last.id != event.id or last.parent != event.parent or size + grown > MERGE_BYTES:
            return False
        # Joined when somebody reads: this runs once per token, and text of 16 KiB would be copied each time.
        self._more.append(event.text)
        self.kept[-1] = (last, size + grown)
        self._bytes += grown
        return True

    def join(self) -> None:
        """Make the newest event whole."""
        if self._more:
            last, size = self.kept[-1]
            assert isinstance(last, _TEXTS)
            text = "".join((last.text, *self._more))
            self.kept[-1] = (type(last)(text, last.id, last.parent), size)
            self._more.clear()

    def close(self) -> None:
        """No more events: readers end after what is kept."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            event.set()

    def reader(self) -> EventReader:
        """A new reader, from the start of what is kept."""
        return EventReader(self)

    async def wait(self) -> None:
        """Until something was put or the log was closed."""
        event = anyio.Event()
        self._waiting.append(event)
        try:
            await event.wait()
        finally:
            if event in self._waiting:
                self._waiting.remove(event)


class EventReader:
    """An asynchronous iterator over the events of a run; it ends after the last one before the verdict.

    A reader that keeps up loses nothing: it takes all that is there in one turn of the loop, for the backend has the
    next one.  One that is too slow for the bounds of the log finds a `notice` with code `lost` in the place of what it
    missed, and the sum in `lost`.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._at = 0
        self._started = False
        self.lost = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        log = self._log
        if not self._started:  # one turn of the loop for a reader that never has to wait
            self._started = True
            await anyio.lowlevel.checkpoint()
        while self._at >= log.end:
            if log.closed:
                raise StopAsyncIteration
            await log.wait()
        oldest = log.end - len(log.kept)
        if self._at < oldest:
            missed, self._at = oldest - self._at, oldest
            self.lost += missed
            text = f"{missed} event{'s' * (missed != 1)} fell out of the log before this reader came"
            return NoticeEvent(text, "lost", "warning", {"count": missed})
        if self._at == log.end - 1:
            log.join()
        event = log.kept[self._at - oldest][0]
        self._at += 1
        if self._at > log.seen:
            log.seen = self._at
        return event
