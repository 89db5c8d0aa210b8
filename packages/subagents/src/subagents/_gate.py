"""A gate that opens once: a flag that any thread or signal handler may set, and a wake-up that belongs to the loop.

Not an `anyio.Event`: setting one in a signal handler, between the two steps in which its `wait` looks and then queues
itself, loses the wake-up for ever.  Here a handler only marks, and a call that is posted to the loop wakes.
"""

from __future__ import annotations

import anyio


class Gate:
    """Closed, then open for ever."""

    def __init__(self) -> None:
        self.open = False
        self._waiting: list[anyio.Event] = []

    async def wait(self) -> None:
        """Until it is open."""
        while not self.open:
            event = anyio.Event()
            self._waiting.append(event)
            try:
                if not self.open:
                    await event.wait()
            finally:
                if event in self._waiting:
                    self._waiting.remove(event)

    def mark(self) -> None:
        """Open it, and wake nobody yet.  From anywhere."""
        self.open = True

    def wake(self) -> None:
        """Wake who waits; a call of the loop's own."""
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            event.set()

    def set(self) -> None:
        """Open it and wake who waits; a call of the loop's own."""
        self.mark()
        self.wake()
