"""How long a turn may say nothing while only the model can be the cause.

The engine bounds the silence of an answer that has begun, and nothing before that: a server that takes a request and
never sends the head of an answer is waited for without an end (observed for 30 s, and 0.163.0 has no setting for it).
What it hears it does not always tell: while the arguments of a call or hidden thoughts stream, it is as silent
(observed).  So the bound is a long one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio

from subagents import Failure


class Patience:
    """The bound of one turn. It does not run while `busy` says that something else than the model is waited for."""

    def __init__(self, bound: float | None, busy: Callable[[], bool], give_up: Callable[[Failure], object]) -> None:
        """`bound` is in seconds; None waits for ever."""
        self._bound, self._busy, self._give_up = bound, busy, give_up
        self._touched = time.monotonic()

    def touch(self) -> None:
        """The engine has said something."""
        self._touched = time.monotonic()

    async def run(self) -> None:
        """Give the turn up when the bound is over; until then, for ever."""
        if self._bound is None:
            return
        self.touch()
        while (left := self._touched + self._bound - time.monotonic()) > 0:
            await anyio.sleep(left)
            if self._busy():
                self.touch()
        message = (
            f"the engine has said nothing for {self._bound:g} s, and only the model server can be the cause. To do:"
            " check its address, then try again, or raise silence_timeout, which is the bound."
        )
        self._give_up(Failure("network", "run", message, retryable=True))
