"""The event loop of a command: interrupts, the clock of a view, and an end that nothing can hold up."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

import anyio

from subagents._cli.ending import ending
from subagents._cli.signals import INTERRUPTS
from subagents._cli.view import View

_FRAME: Final = 0.1  # s between two drawings, and two looks at the signals
T = TypeVar("T")


def run_loop(body: Callable[[], Awaitable[int]], *, end_now: bool = False) -> int:
    """Run the body, which returns the exit code, in an event loop; what it raises is told and becomes the code.

    After an interrupt the process ends in here, once the body has ended; with `end_now` always, since the end of Python
    waits for whatever somebody else's code has started and left.
    """

    async def main() -> int:
        with ending() as end:
            end.code = await body()
        if INTERRUPTS.caught or end_now:
            INTERRUPTS.leave(end.code)
        return end.code

    with INTERRUPTS.held():
        return anyio.run(main)


async def attend(view: View, interrupted: Callable[[str], object]) -> None:
    """For ever: let the view draw, and say that a signal has come, again and again."""
    while True:
        if INTERRUPTS.caught:
            interrupted(f"interrupted by {INTERRUPTS.caught}")
        view.tick()
        await anyio.sleep(_FRAME)


@asynccontextmanager
async def beside(*helpers: Callable[[], Coroutine[Any, Any, object]]) -> AsyncGenerator[None]:
    """Run the helpers for as long as the body runs."""
    scope = anyio.CancelScope()  # theirs alone: the body is never cancelled by its own end

    async def help_out() -> None:
        with scope:
            async with anyio.create_task_group() as tasks:
                for helper in helpers:
                    tasks.start_soon(helper)

    async with anyio.create_task_group() as both:
        both.start_soon(help_out)
        try:
            yield
        finally:
            scope.cancel()


async def interruptible(view: View, work: Callable[[], Awaitable[T]]) -> T:
    """What `work` returns or raises.

    Raises:
        KeyboardInterrupt: a signal came; the work was cancelled, and has ended.
    """
    scope = anyio.CancelScope()
    box: list[T | Exception] = []

    def stop(why: str) -> None:
        view.stopping(why)
        scope.cancel()

    async def do() -> None:
        with scope:
            try:
                box.append(await work())
            except Exception as exc:  # noqa: BLE001  # raised below, without a group around it
                box.append(exc)

    with view:
        async with beside(partial(attend, view, stop)), anyio.create_task_group() as tasks:
            tasks.start_soon(do)
    if not box:
        raise KeyboardInterrupt
    if isinstance(box[0], Exception):
        raise box[0]
    return box[0]
