"""What is written to a peer, until nobody listens or answers any more; and the error that says why."""

from __future__ import annotations

from contextlib import suppress

import anyio

from ._rpc import JsonObject
from .errors import PeerClosed
from .process import OwnedProcess

_STATUS = 0.5  # s that a broken pipe waits for the exit that explains it


class Outgoing:
    """The way to the child.

    Attributes:
        ended: from here on nothing is sent.
        over: set when it is known why nothing more comes.
        why: goes on from the program's name; empty where the exit status says it.
    """

    def __init__(self, process: OwnedProcess, head: JsonObject) -> None:
        """``head`` are the members that every message begins with."""
        self._process, self._head = process, head
        self._writing: set[anyio.CancelScope] = set()
        self.ended = False
        self.over = anyio.Event()
        self.why = ""

    async def write(self, message: JsonObject, undone: str) -> None:
        """Write one message; ``undone`` is what stays without an answer otherwise.

        Raises:
            PeerClosed: it was not written.
            TypeError, ValueError, RecursionError: JSON has no form for it.
        """
        if not self.ended:
            with anyio.CancelScope() as scope, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._writing.add(scope)
                try:
                    return await self._process.send_line(self._head | message)
                finally:
                    self._writing.discard(scope)
        # Most often the exit that explains it is on its way; when the reading has ended, `over` comes for certain.
        with anyio.move_on_after(None if self.ended else _STATUS):
            await self.over.wait()
        raise self.closed(undone)

    def end(self) -> None:
        """Send nothing more; whoever writes to a child that does not read is let go."""
        self.ended = True
        for scope in self._writing:
            scope.cancel()

    def closed(self, undone: str) -> PeerClosed:
        """The error for what stays undone, as far as it is known why."""
        status = self._process.returncode
        if self.why:
            why = self.why
        elif status is not None:
            why = f"was ended by signal {-status}" if status < 0 else f"has ended with exit status {status}"
        elif self.over.is_set():
            why = "has closed its output, and it is not known that it has ended"
        else:
            why = "does not read its input any more, and it is not known that it has ended"
        return PeerClosed(self._process.name, status, why, undone)
