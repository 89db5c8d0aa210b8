"""A program that holds runs, in every kind of surroundings: they end as the table says, or it comes to a bad end.

usage: harness.py JSON      {"context", "containment", "mutant"}

Reads orders, `{"ending", "argv"}` on a line each; says `{"up": PID, "guard": PID}` when the child runs, waits for a
line, does what the ending says, and reports.
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
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import asdict
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import mutants
from endings import ENDINGS, LADDER, Run, helpers
from measured import measure_supervisors

from subagent_process import Ladder, open_process, run_command
from subagent_process import _launcher as launcher  # pyright: ignore[reportPrivateUsage]

ORDER: dict[str, Any] = json.loads(sys.argv[1])
CONTEXT = ORDER["context"]
kept: list[Run] = []


def say(**words: object) -> None:
    print(json.dumps(words), flush=True)


async def hear() -> str:
    return await anyio.to_thread.run_sync(sys.stdin.readline)


async def open_run(argv: list[str], ladder: Ladder) -> Run:
    return Run(await open_process(argv, env={}, ladder=ladder, containment=ORDER["containment"]))


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
    "dead-keeper-and-warden": strike(signal.SIGKILL, "keeper", "warden"),
    "drop-while-held": drop_while_held,
}


# --- what goes on around ------------------------------------------------------------------------------------------


async def start_and(steps: int, argv: list[str]) -> None:
    """End in the middle of a start: after so many rounds of the loop."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(open_run, argv, LADDER)
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        os._exit(3)


async def main() -> None:
    await run_command(["/bin/true"], env={}, timeout=20)
    say(ready=os.getpid())
    while line := await hear():
        order = json.loads(line)
        if not await obey(order["ending"], order["argv"]):
            return


async def obey(name: str, argv: list[str]) -> bool:
    """One run to its end; whether there may be another one."""
    if name.startswith("in-start-"):
        say(up=os.getpid(), guard=launcher.LAUNCHER.start()[1].pid)
        await start_and(int(name.rpartition("-")[2]), argv)
    ending = ENDINGS.get(name)
    run = await open_run(argv, ending.ladder if ending else LADDER)
    process = run.process if ending and name != "drop" else None
    async with bystander() if CONTEXT == "two-loops" else nullcontext() as other:
        say(up=os.getpid(), guard=launcher.LAUNCHER.guard.pid)
        await hear()  # until the test has met the relatives
        await (ending.act if ending else BAD[name])(run)
    if ending:
        report = asdict(process.report) if process and process.report else None
        say(report=report, bystander=other)
    return ending is not None


@asynccontextmanager
async def bystander() -> AsyncGenerator[list[object]]:
    """A run in another loop, of another kind, which is none the wiser: the list then holds what its child said."""
    up, over, said = threading.Event(), threading.Event(), list[object]()

    async def other() -> None:
        async with await open_process(["/bin/cat"], env={}) as process:
            up.set()
            await anyio.to_thread.run_sync(over.wait)
            with suppress(
                anyio.BrokenResourceError, StopAsyncIteration
            ):  # it may have shared the warden that was killed
                await process.send_line({"still": "here"})
                said.append(await anext(process.messages()))

    thread = in_a_thread("asyncio", other)
    await anyio.to_thread.run_sync(up.wait)
    yield said
    over.set()
    await anyio.to_thread.run_sync(thread.join)


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
            in_a_thread("trio", main).join()
        case "forked":
            anyio.run(partial(run_command, ["/bin/true"], env={}, timeout=20))
            if (child := os.fork()) == 0:
                anyio.run(main)
            else:
                os.waitpid(child, 0)
        case backend:
            anyio.run(main, backend=backend)


if __name__ == "__main__":
    measure_supervisors()
    mutants.apply(ORDER["mutant"])
    around()
    say(ended=True)
    sys.stdin.read()
