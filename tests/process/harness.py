"""A program that holds a run, in every kind of surroundings, and comes to a bad end, or does what the table says.

usage: harness.py JSON      {"context", "ending", "argv", "deaf", "mutant"}

Says `{"up": PID, "guard": PID}` when its child runs, waits for a line, does what its ending says, and reports.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import mutants
from endings import ENDINGS, LADDER, Run, helpers

from subagent_process import _launcher as launcher  # pyright: ignore[reportPrivateUsage]
from subagent_process import open_process, run_command

ORDER: dict[str, Any] = json.loads(sys.argv[1])
CONTEXT, ENDING = ORDER["context"], ORDER["ending"]
kept: list[Run] = []
over = threading.Event()


def say(**words: object) -> None:
    print(json.dumps(words), flush=True)


async def hear() -> str:
    return await anyio.to_thread.run_sync(sys.stdin.readline)


# --- endings that only a program of its own can come to -------------------------------------------------------------


async def sleep(run: Run) -> None:
    """Until the test has done its worst."""
    kept.append(run)
    say(asleep=True)
    await anyio.sleep(60)


async def forget(run: Run) -> None:
    """The loop ends while the run is open, and nobody holds it."""


async def keep(run: Run) -> None:
    """The loop ends while the run is open, and a global holds it."""
    kept.append(run)


async def leave(run: Run) -> None:
    kept.append(run)
    sys.exit(3)


async def vanish(run: Run) -> None:
    kept.append(run)
    os._exit(3)


def strike(number: int, *who: str) -> Callable[[Run], Awaitable[None]]:
    """A signal to helpers, and then nothing.  A warden does not see its keeper's end when it is to be killed too."""

    async def act(run: Run) -> None:
        pids = helpers(run.process)
        if len(who) > 1:
            os.kill(pids["warden"], signal.SIGSTOP)
        for name in who:
            os.kill(pids[name], number)
        say(struck=True)
        await sleep(run)

    return act


async def hold(run: Run) -> None:
    """A fork by a C library, which runs no hook of Python, keeps a copy of every descriptor; then somebody kills us."""
    fork_in_c()
    await sleep(run)


async def drop_while_held(run: Run) -> None:
    fork_in_c()
    run.held = None
    gc.collect()
    say(dropped=True)
    await hear()


def fork_in_c() -> None:
    pid = ctypes.CDLL(None).fork()
    if pid == 0:
        time.sleep(20)
        os._exit(0)
    say(holder=pid)


BAD: dict[str, Callable[[Run], Awaitable[None]]] = {
    "sleep": sleep,
    "loop-ends": forget,
    "loop-ends-global": keep,
    "sys-exit": leave,
    "os-exit": vanish,
    "hold": hold,
    "stopped-keeper": strike(signal.SIGSTOP, "keeper"),
    "dead-keeper": strike(signal.SIGKILL, "keeper"),
    "dead-warden": strike(signal.SIGKILL, "warden"),
    "dead-guard": strike(signal.SIGKILL, "guard"),
    "dead-keeper-and-warden": strike(signal.SIGKILL, "keeper", "warden"),
    "drop-while-held": drop_while_held,
}


# --- what goes on around ------------------------------------------------------------------------------------------


async def start_and(steps: int) -> None:
    """End in the middle of a start: after so many rounds of the loop."""
    say(up=os.getpid(), guard=launcher.LAUNCHER.guard)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(open_process, ORDER["argv"], env={}, ladder=LADDER))
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        os._exit(3)


async def main() -> None:
    await run_command(["/bin/true"], env={}, timeout=20)
    if ENDING.startswith("in-start-"):
        await start_and(int(ENDING.rpartition("-")[2]))
    known = ENDINGS.get(ENDING)
    run = Run(await open_process(ORDER["argv"], env={}, ladder=known.ladder if known else LADDER))
    process = run.process if known and ENDING != "drop" else None
    say(up=os.getpid(), guard=launcher.LAUNCHER.guard)
    await hear()  # until the test has met the relatives
    await (known.act if known else BAD[ENDING])(run)
    if ENDING == "drop":
        say(dropped=True)
        await hear()
    if process:
        say(report=asdict(process.report) if process.report else None)


async def bystander() -> None:
    """A run in another loop, which is none the wiser."""
    async with await open_process(["/bin/cat"], env={}) as process:
        await anyio.to_thread.run_sync(over.wait)
        await process.send_line({"still": "here"})
        say(bystander=await anext(process.messages()))


def in_a_thread(backend: str, work: Callable[[], Awaitable[None]]) -> threading.Thread:
    thread = threading.Thread(target=anyio.run, args=(work,), kwargs={"backend": backend}, daemon=True)
    thread.start()
    return thread


def around() -> None:
    match CONTEXT:
        case "uvloop":
            anyio.run(main, backend_options={"use_uvloop": True})
        case "sigchld-ignored":
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            anyio.run(main)
        case "thread":
            in_a_thread("asyncio", main).join()
        case "two-loops":
            other = in_a_thread("asyncio", bystander)
            in_a_thread("trio", main).join()
            over.set()
            other.join()
        case "forked":
            anyio.run(partial(run_command, ["/bin/true"], env={}, timeout=20))
            if (child := os.fork()) == 0:
                anyio.run(main)
            else:
                os.waitpid(child, 0)
        case backend:
            anyio.run(main, backend=backend)


if __name__ == "__main__":
    mutants.apply(ORDER["mutant"])
    around()
    say(ended=True)
    sys.stdin.read()
