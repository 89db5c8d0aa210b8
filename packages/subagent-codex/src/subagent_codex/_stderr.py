"""The engine's standard error: drained, its end kept, each complaint told once.

It logs lines of `TIME LEVEL TARGET: message` with colours, and can repeat one cause five times a second for hours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream

from subagent_process import StderrTail, redact
from subagents import Event, NoticeEvent

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_COMPLAINT: Final = re.compile(r"\d{4}-\d\d-\d\dT\S+\s+(ERROR|WARN)\s+([\w:]+):\s*(.+)")
EXPECTED: Final = "could not find bubblewrap on PATH"
"""A warning that our short PATH causes: codex then takes the bubblewrap that comes with it."""

_TOLD: Final = 20  # different ones
_LINE: Final = 2000  # characters of one that are looked at


class Stderr(ByteReceiveStream):
    """The stream on its way to the tail: each complaint in it becomes one notice of code `stderr`."""

    def __init__(self, stream: ByteReceiveStream, emit: Callable[[Event], object]) -> None:
        self._stream, self._emit = stream, emit
        self._rest = b""
        self._told: set[str] = set()
        self._tail = StderrTail(self)
        self._drained = anyio.Event()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        data = await self._stream.receive(max_bytes)
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:_LINE]
        for line in lines:
            self._look(line[:_LINE])
        return data

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def run(self) -> None:
        """Read it to its end."""
        await self._tail.run()
        self._drained.set()

    def _look(self, line: bytes) -> None:
        if len(self._told) >= _TOLD or (b"ERROR" not in line and b"WARN" not in line):
            return
        found = _COMPLAINT.match(_COLOUR.sub("", line.decode("utf-8", "replace")))
        if found and found[3] not in self._told and EXPECTED not in found[3]:
            self._told.add(found[3])
            level = "error" if found[1] == "ERROR" else "warning"
            self._emit(NoticeEvent(redact(found[3]), "stderr", level, {"target": found[2]}))

    @property
    def text(self) -> str:
        """The end of what was read, without colours and repetitions; redacted."""
        return condensed(self._tail.text)

    async def last_words(self, patience: float) -> str:
        """`text` once the stream has ended.

        `patience` is in seconds, for what is still on its way.
        """
        with anyio.move_on_after(patience):
            await self._drained.wait()
        return self.text


def condensed(text: str) -> str:
    """Log lines without colours and without what is expected, each message once, in order of its first time."""
    seen: dict[str, str] = {}
    for line in _COLOUR.sub("", text).splitlines():
        found = _COMPLAINT.match(line)
        message = found[3] if found else line.strip()
        if message and EXPECTED not in message:
            seen.setdefault(message, line.strip())
    # The tail may begin and end in the middle of a line that is repeated.
    first, *others = seen or ("",)
    if any(first.endswith(other) or other.endswith(first) for other in others):
        del seen[first]
    *others, last = seen or ("",)
    if any(other.startswith(last) for other in others):
        del seen[last]
    return "\n".join(seen.values())
