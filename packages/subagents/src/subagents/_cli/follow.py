"""One run of the command: entered, followed, interrupted, told."""

from __future__ import annotations

import os
import stat
import sys
from functools import partial

import anyio

from subagents import Result, Run
from subagents._cli.ending import ending, exit_code
from subagents._cli.loop import attend, beside
from subagents._cli.signals import INTERRUPTS
from subagents._cli.streams import OutputLost
from subagents._cli.view import View
from subagents._short import complete


async def follow(run: Run, view: View) -> int:
    """Do the run, show it, and return the exit code when nothing of it is left.

    Where standard output cannot be written any more, the run is stopped.
    """
    with view:
        result, lost = await _watched(run, view)
    with ending() as end:
        if lost is not None:
            raise lost
        end.code = exit_code(result)
        view.result(result)
    if result.evidence.left_behind:
        INTERRUPTS.leave(end.code)  # the loop would wait for it at its end
    return end.code


async def _watched(run: Run, view: View) -> tuple[Result, OutputLost | None]:
    lost: list[OutputLost] = []

    def stop(why: str) -> None:
        view.stopping(why)
        run.cancel(why)

    async def show() -> None:
        try:
            async for event in run.events():
                view.event(event)
        except OutputLost as exc:
            lost.append(exc)
            stop(str(exc))

    async def watch() -> None:
        await _reader_gone()
        lost.append(OutputLost("nobody reads it", closed=True))
        stop(str(lost[0]))

    results: list[Result] = []

    async def work() -> None:
        results.append(await complete(run))

    async with beside(partial(attend, view, stop), watch), anyio.create_task_group() as tasks:
        tasks.start_soon(show)  # it ends with the last event before the verdict
        tasks.start_soon(work)
    return results[0], lost[0] if lost else None


async def _reader_gone() -> None:
    """Return when standard output is a pipe that nobody reads any more: its writing end is `readable` then.

    Without this a run whose reader left (`| head -1`) would go on until it has something to write.
    """
    fd = sys.stdout.fileno()
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        await anyio.sleep_forever()
    await anyio.wait_readable(fd)
