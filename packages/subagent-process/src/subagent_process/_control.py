"""The control channel of one run: what its supervisors report, and the orders that we give.

No thread, no waitpid and no pidfd per child: the exit is a line on a socket.  Whichever task holds the lock reads for
all that wait (two tasks on one descriptor would be a BusyResourceError).  Letting go is ``shutdown(SHUT_WR)``:
synchronous, idempotent, allowed from a finalizer, and, unlike ``close()``, effective while a forked sibling still
holds a copy.
"""

from __future__ import annotations

import os
import socket
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

import anyio

from ._sockets import NO_SIGNAL, pair


class Status:
    """What was reported so far; ``feed`` is the whole of its logic."""

    def __init__(self) -> None:
        self._rest = b""
        self.begun = False  # the request arrived: from here on the program may have been started
        self.missing: tuple[str, ...] = ()
        self.pid: int | None = None
        self.error: tuple[int, str] | None = None  # errno and the stage that failed
        self.refused = False
        self.exit: int | None = None
        self.clean: bool | None = None
        self.killed = 0
        self.survivors: tuple[str, ...] = ()
        self.lost = False
        self.home_removed: bool | None = None
        self.ended = False  # the channel: nothing more will be reported

    @property
    def over(self) -> bool:
        """The leader has ended, or nobody will ever say so."""
        return self.exit is not None or self.lost or self.ended

    @property
    def decided(self) -> bool:
        """Whether the program was started is known."""
        return self.pid is not None or self.error is not None or self.refused or self.lost

    def feed(self, data: bytes) -> None:
        """Take what was read; empty is the end of the channel."""
        if not data:
            self.ended = True
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            kind, *words = line.decode("utf-8", "backslashreplace").split()
            self._take(kind, words)

    def _take(self, kind: str, words: list[str]) -> None:
        yes = words[0] == "1"
        match kind:
            case "B":
                self.begun = True
                have = zip(("daemons", "forked-harness"), words, strict=True)
                self.missing = tuple(name for name, present in have if present != "1")
            case "S":
                self.pid = int(words[0])
            case "E":
                self.error = (int(words[0]), words[1])
            case "R":
                self.refused = True
            case "X":
                self.exit = int(words[0])
            case "A":
                self.survivors += (f"{' '.join(words[1:])} ({words[0]})",)
            case "D":
                self.clean, self.killed = yes, int(words[1])
            case "L":
                self.clean, self.lost = yes, self.exit is None
                if yes:  # whom the keeper could not end
                    self.survivors = ()
            case "H":
                self.home_removed = yes
            case _:
                raise AssertionError(f"the supervisor said {kind}")


class Control:
    """Our end of the channel, and the ways in which it lets go."""

    def __init__(self) -> None:
        near, self.far = pair()
        self.far.setblocking(False)
        self.socket, self.status = near, Status()
        self._lock = anyio.Lock()
        self._tie = _tie(near, os.getpid())
        # Garbage collection and the interpreter's exit.  It holds the tie, which must not be collected before it was
        # closed.
        self._finalizer = weakref.finalize(self, _let_go, near, os.getpid(), self._tie)
        with suppress(StopIteration):
            self._tie.__anext__().send(None)

    async def until(self, done: Callable[[], bool]) -> None:
        """Read reports until done, or until there will be no more."""
        status = self.status
        while not (done() or status.ended):
            async with self._lock:
                if done() or status.ended:
                    return
                await anyio.wait_readable(self.socket)
                self._read()

    def poll(self) -> None:
        """Take what is there already, unless a task is about to."""
        if not self._lock.locked():
            self._read()

    def _read(self) -> None:
        try:
            self.status.feed(self.socket.recv(4096))
        except BlockingIOError:
            return
        except OSError:
            self.status.feed(b"")

    async def within(self, seconds: float, done: Callable[[], bool]) -> bool:
        """Whether it was done (or there is nothing more to wait for) in time."""
        with anyio.move_on_after(seconds):
            await self.until(done)
        return done() or self.status.ended

    async def send(self, data: bytes) -> None:
        """Send the request; a supervisor that dies meanwhile shows in the status."""
        view = memoryview(data)
        while view:
            try:
                view = view[self.socket.send(view, NO_SIGNAL) :]
            except BlockingIOError:
                await anyio.wait_writable(self.socket)
            except OSError:
                return

    def order(self, order: bytes) -> None:
        """Give an order; of no effect when the run is over.  Never waits."""
        with suppress(OSError):
            self.socket.send(order, NO_SIGNAL)

    def release(self) -> None:
        """Let go: the keeper ends the tree.  Its reports still arrive."""
        if self._finalizer.alive:
            _shutdown(self.socket, os.getpid())

    def close(self) -> None:
        """Let go and close; no more reports."""
        with suppress(RuntimeError):  # outside an event loop nobody waits on it
            anyio.notify_closing(self.socket)
        self.status.ended = True
        self._finalizer()

    def forget(self) -> None:  # pragma: no cover - runs only in a fork of the harness, which a test starts
        """In a fork of the harness: close the copies; shutting down is the parent's business (``_shutdown``)."""
        self._finalizer()
        self.far.close()


def _shutdown(sock: socket.socket, owner: int) -> None:
    if os.getpid() == owner:  # pragma: no branch - a fork of us that exits must not end our runs
        with suppress(OSError):
            sock.shutdown(socket.SHUT_WR)


def _let_go(sock: socket.socket, owner: int, tie: AsyncGenerator[None, None]) -> None:
    _shutdown(sock, owner)
    sock.close()
    # By hand and not awaited: it has nothing to wait for, and a finalizer has no loop.  A tie that was never finished
    # would be reported as a leak by trio.
    with suppress(StopIteration, RuntimeError):
        tie.aclose().send(None)


async def _tie(sock: socket.socket, owner: int) -> AsyncGenerator[None, None]:
    """Left suspended: ``asyncio.run`` and ``trio.run`` close such generators at their end, whoever holds the run."""
    try:
        yield
    finally:
        _shutdown(sock, owner)
