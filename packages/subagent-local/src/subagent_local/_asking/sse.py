"""Server-sent events (the `text/event-stream` of the HTML standard), decoded as the bytes come.

Linear in its input, and bounded: an event that grows beyond the limit is refused, not collected. Lines may end in LF,
CRLF or CR, also split between two reads; comments (`: ping`) and unknown fields pass; bytes that are no UTF-8 are
replaced. An event that the end of the stream cuts off is dropped, as the standard says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LIMIT = 16 << 20  # bytes of one event

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its data lines joined, and the `event:` field, which llama.cpp and most others leave out."""

    data: str
    name: str = ""


class EventTooLong(Exception):
    """The server sends an event without an end."""


class SseDecoder:
    """Feed it what was read; it gives the events that are complete."""

    def __init__(self, limit: int = LIMIT) -> None:
        """`limit` is the most bytes of one event."""
        self._limit = limit
        self._rest: list[bytes] = []  # of a line that has not ended
        self._data: list[str] = []
        self._name = ""
        self._size = 0  # of the event that has not ended, without the rest
        self._rest_size = 0
        self._first = True
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Decode the next bytes.

        Raises:
            EventTooLong: there is no end in sight.
        """
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]  # the second half of a CRLF whose first half has ended the line already
        self._after_cr = chunk.endswith(b"\r") or (not chunk and self._after_cr)
        *lines, rest = _LINE_END.split(chunk)
        if lines:
            lines[0] = b"".join([*self._rest, lines[0]])
            self._rest, self._rest_size = [], 0
        self._rest.append(rest)
        self._rest_size += len(rest)
        events = [event for line in lines if (event := self._line(line)) is not None]
        if self._size + self._rest_size > self._limit:
            raise EventTooLong(f"an event of more than {self._limit} bytes")
        return events

    def close(self) -> list[ServerEvent]:
        """What the end of the stream completes: nothing."""
        return []

    def _line(self, line: bytes) -> ServerEvent | None:
        if self._first:
            self._first, line = False, line.removeprefix(_BOM)
        if not line:
            event = ServerEvent("\n".join(self._data), self._name) if self._data else None
            self._data, self._name, self._size = [], "", 0
            return event
        self._size += len(line)
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        return None
