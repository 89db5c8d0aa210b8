"""A harness that ends badly, run by test_endings.py.

usage: harness.py BACKEND ENDING SOCKET COMMAND...       says "up GUARD" when its child runs, then does what ENDING says
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import sys
import threading
import time

import anyio

from subagent_process import Ladder, OwnedProcess, open_process
from subagent_process import _launcher as launcher  # pyright: ignore[reportPrivateUsage]

BACKEND, ENDING, *COMMAND = sys.argv[1:]
LADDER = Ladder(eof=0.2, term=0.3, kill=5)
kept: list[OwnedProcess] = []


def say(*words: object) -> None:
    print(*words, flush=True)


async def start() -> OwnedProcess:
    process = await open_process(COMMAND, env={}, ladder=LADDER)
    say("up", launcher.LAUNCHER.guard)
    sys.stdin.readline()  # until the test has met the relatives
    return process


async def forgotten() -> None:
    process = await start()
    if ENDING == "drop-while-a-fork-holds":
        hold()
    del process
    gc.collect()
    await asyncio.to_thread(sys.stdin.read) if BACKEND == "asyncio" else await anyio.to_thread.run_sync(sys.stdin.read)


async def main() -> None:
    if ENDING.startswith("drop"):
        await forgotten()
    elif ENDING == "loop-ends":
        await start()
    elif ENDING == "loop-ends-global":
        kept.append(await start())
    elif ENDING == "exit-in-the-middle":
        kept.append(await start())
        sys.exit(3)
    else:
        async with await start():
            if ENDING == "holder":
                hold()
                say("held")
            await anyio.sleep(60)


def hold() -> None:
    """A fork by a C library, which runs no hook of Python, keeps a copy of every descriptor."""
    if ctypes.CDLL(None).fork() == 0:
        time.sleep(20)
        os._exit(0)


if ENDING == "sigchld-ignored":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if BACKEND == "thread":
    thread = threading.Thread(target=anyio.run, args=(main,), daemon=True)
    thread.start()
    thread.join()
elif BACKEND == "uvloop":
    anyio.run(main, backend_options={"use_uvloop": True})
else:
    anyio.run(main, backend=BACKEND)
say("ended")
sys.stdin.read()
