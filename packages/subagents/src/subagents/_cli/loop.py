"""The event loop of a command: interrupts, the clock of a view, and an end that nothing can hold up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio

from subagents._cli.ending import ending
from subagents._cli.signals import INTERRUPTS
from subagents._cli.view import View

_FRAME: Final = 0.1  # s between two drawings, and two looks at the signals
T = TypeVar("T")


def run_loop(body: Callable[[], Awaitable[int]]) -> int:
    """Run the body, which returns the exit code, in an event loop; what it raises is told and becomes the code.

    After an interrupt the process ends in here, once the body has ended.
    """

    async def main() -> int:
        with ending() as end:
            end.code = await body()
        if INTERRUPTS.caught:
            INTERRUPTS.leave(end.code)
        return end.code

    with INTERRUPTS.held():
        return anyio.run(main)


async def attend(view: View, interrupted: Callable[[str], object]) -> None:
    """For ever: let the view draw, and report the first signal, once."""
    told = False
    while True:
        if INTERRUPTS.caught and not told:
            told = True
            interrupted(f"interrupted by {INTERRUPTS.caught}")
        view.tick()
        await anyio.sleep(_FRAME)


async def interruptible(view: View, work: Callable[[], Awaitable[T]]) -> T:
    """What `work` returns or raises.

    Raises:
        KeyboardInterrupt: a signal came; the work was cancelled, and has ended.
    """

    def stop(why: str) -> None:
        view.stopping(why)
        scope.cancel()

    box: list[T | Exception] = []
    with view:
        async with anyio.create_task_group() as helpers:
            helpers.start_soon(attend, view, stop)
            with anyio.CancelScope() as scope:
                try:
                    box.append(await work())
                except Exception as exc:  # noqa: BLE001  # raised below, without the group around it
                    box.append(exc)
            helpers.cancel_scope.cancel()
    if not box:
        raise KeyboardInterrupt
    if isinstance(box[0], Exception):
        raise box[0]
    return box[0]
