"""One run of the command: entered, followed, interrupted, told."""

from __future__ import annotations

import os
import stat
import sys
from functools import partial
from typing import Final

import anyio

from subagents import Result, Run
from subagents._cli.ending import ending, exit_code
from subagents._cli.loop import attend, beside
from subagents._cli.signals import INTERRUPTS
from subagents._cli.streams import OutputLost
from subagents._cli.view import View
from subagents._short import complete

_PATIENCE: Final = 5.0  # s that a reader may take for the rest when the run was stopped and is over


async def follow(run: Run, view: View) -> int:
    """Do the run, show it, and return the exit code when nothing of it is left.

    Where standard output cannot be written any more, the run is stopped.
    """
    results: list[Result] = []
    lost: list[OutputLost] = []
    stopped, over, telling = anyio.Event(), anyio.Event(), anyio.CancelScope()

    def stop(why: str) -> None:
        view.stopping(why)
        run.cancel(why)
        stopped.set()

    async def work() -> None:
        results.append(await complete(run))
        over.set()

    async def tell() -> None:
        with telling:
            try:
                async for event in run.events():
                    await view.event(event)
                await over.wait()
                if not lost:
                    await view.result(results[0])
            except OutputLost as exc:
                lost.append(exc)
                stop(str(exc))

    async def watch() -> None:
        await _reader_gone()
        lost.append(OutputLost("nobody reads it", closed=True))
        stop(str(lost[0]))

    async def hurry() -> None:
        await stopped.wait()
        await over.wait()
        await anyio.sleep(_PATIENCE)
        telling.cancel()

    with view:
        async with beside(partial(attend, view, stop), watch, hurry), anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            tasks.start_soon(tell)
    with ending() as end:
        if lost:
            raise lost[0]
        if telling.cancelled_caught:
            raise KeyboardInterrupt  # not all of it has been told
        end.code = exit_code(results[0])
    if results[0].evidence.left_behind:
        INTERRUPTS.leave(end.code)  # the loop would wait for it at its end
    return end.code


async def _reader_gone() -> None:
    """Return when standard output is a pipe that nobody reads any more: its writing end is `readable` then.

    Without this a run whose reader left (`| head -1`) would go on until it has something to write.
    """
    fd = sys.stdout.fileno()
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        await anyio.sleep_forever()
    await anyio.wait_readable(fd)
