"""A child's three pipes as anyio streams.

Pipes and not socketpairs: a shell cannot open ``/dev/stdin`` or ``/dev/stdout`` on a socket (ENXIO).  Our own few
lines and not the loops' transports: the same code runs on asyncio, uvloop and trio; nothing is read ahead, so that
memory stays flat and a cancelled read loses nothing; and no transport kills a process that it believes is its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

CHUNK = 65536  # what a pipe holds by default
_LEFT = 1 << 20  # bytes: more than an exited child's pipe holds; what comes later is another process's
_IDLE = 0.05  # s without a reader after which a shutdown reads instead


class _Pipe:
    """One end, closed at the latest when nobody holds it any more."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        if fd >= 0:
            os.set_blocking(fd, False)

    @property
    def fd(self) -> int:
        """The descriptor; raises ClosedResourceError after close."""
        if self._fd < 0:
            raise anyio.ClosedResourceError
        return self._fd

    def close(self) -> None:
        """Close at once; a task that waits on this end gets ClosedResourceError.  Idempotent."""
        if self._fd >= 0:
            with suppress(RuntimeError):  # outside an event loop nobody waits
                anyio.notify_closing(self._fd)
            self.forget()

    def forget(self) -> None:
        """Close without a word to any loop: for a fork of the harness, and for the last reference."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.forget()


class PipeReader(_Pipe, ByteReceiveStream):
    """The end of stdout or stderr that we read; one reader at a time."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._calls = 0
        self._waiting = False
        self._abandoned = False

    async def receive(self, max_bytes: int = CHUNK) -> bytes:
        """What is there, at most ``max_bytes``; raises EndOfStream when every writer is gone.

        A cancelled call has read nothing: the read is the last thing that it does.
        """
        if self._abandoned:
            raise anyio.ClosedResourceError
        self._calls += 1
        self._waiting = True
        try:
            return await self._receive(max_bytes)
        finally:
            self._waiting = False

    async def _receive(self, max_bytes: int) -> bytes:
        while True:
            await anyio.wait_readable(self.fd)
            with suppress(BlockingIOError):
                if data := os.read(self.fd, max_bytes):
                    return data
                raise anyio.EndOfStream

    def left(self) -> Iterator[bytes]:
        """What a child that has ended left in the pipe: all of it is there, and any timer could be too short."""
        left = _LEFT
        with suppress(BlockingIOError, anyio.ClosedResourceError):
            while left > 0 and (data := os.read(self.fd, CHUNK)):
                left -= len(data)
                yield data

    async def drain(self) -> None:
        """Throw away what nobody reads any more: a child that stalls on a full pipe cannot end politely.

        Starts when no ``receive`` was called for a moment; from then on ``receive`` raises ClosedResourceError.
        """
        seen = -1
        while self._waiting or seen != self._calls:
            seen = self._calls
            await anyio.sleep(_IDLE)
        self._abandoned = True
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError):
            while True:
                await self._receive(CHUNK)

    async def aclose(self) -> None:
        """Close this end; the child gets EPIPE if it goes on writing."""
        self.close()


class PipeWriter(_Pipe, ByteSendStream):
    """The end of stdin that we write; one writer at a time."""

    async def send(self, item: bytes) -> None:
        """Write all of it; raises BrokenResourceError when the child has closed its end.

        A cancelled call may have written a part: ``OwnedProcess.send_line`` is for lines.
        """
        view = memoryview(item)
        while view:
            view = view[await self.send_some(view) :]

    async def send_some(self, view: memoryview) -> int:
        """Write once, as soon as the pipe takes something: how much it took.  A cancelled call has written nothing."""
        while True:
            await anyio.wait_writable(self.fd)
            with suppress(BlockingIOError):
                try:
                    return os.write(self.fd, view)
                except BrokenPipeError:
                    raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        """Close this end; the child reads the end of its stdin."""
        self.close()
