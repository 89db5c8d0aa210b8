"""Read a stream to its end and keep the last of it."""

from __future__ import annotations

import anyio
from anyio.abc import ByteReceiveStream

from .redaction import redact_cut

__all__ = ["StderrTail"]

_SLACK = 4096  # bytes kept in front of the tail, so that a secret which its edge cuts through is still recognised


class StderrTail:
    r"""Drains a child's stderr, so that the child never stalls on it, and keeps the last 8 KiB.

    Start ``run`` in a task group; read ``text`` when something went wrong::

        tail = StderrTail(process.stderr)
        tasks.start_soon(tail.run)
    """

    def __init__(self, stream: ByteReceiveStream, *, limit: int = 8192) -> None:
        """``limit`` is in bytes of what ``text`` gives."""
        self._stream, self._limit = stream, limit
        self._kept = bytearray()
        self.total = 0

    async def run(self) -> None:
        """Read until the end of the stream, or until it is closed."""
        while True:
            try:
                data = await self._stream.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                return
            self.total += len(data)
            self._kept += data
            if len(self._kept) > 4 * (self._limit + _SLACK):  # not at every chunk: each cut copies
                del self._kept[: -(self._limit + _SLACK)]

    @property
    def text(self) -> str:
        """The end of what was read, redacted; invalid UTF-8 as U+FFFD, a character cut by the edge left out."""
        kept = bytes(self._kept[-(self._limit + _SLACK) :])
        if self.total > len(kept):  # the edge may have cut a character
            kept = kept.lstrip(bytes(range(0x80, 0xC0)))
        slack = len(kept[: -self._limit].decode("utf-8", "ignore")) if self.total > len(kept) else 0
        text = redact_cut(kept.decode("utf-8", "replace"), left=slack)
        return text.encode()[-self._limit :].decode("utf-8", "ignore")
