"""What this program holds, before and after: descriptors, threads, child processes, temporary folders, tasks.

A leak is what is there now, was not there before, and stays.  Traps: a loop closes its own descriptors a moment after
its end, so `Snapshot.left` looks again until a bound; trio keeps idle worker threads for ten seconds, and they are
nobody's leak; other programs fill the system's temporary folder meanwhile, so `private_temp` gives this one its own.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.lowlevel

from subagent_process import ProcessError, run_command

_PROC: Final = Path("/proc/self")
_IDLE: Final = re.compile(r"Trio thread \d+")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What this program held at one moment.

    Attributes:
        held: how many of each, as `descriptor pipe:[4711]`, `thread NAME`, `child 4711`, `temporary entry /tmp/…`.
    """

    held: Counter[str]

    @classmethod
    def take(cls, folder: Path | None = None) -> Snapshot:
        """Look now.

        Args:
            folder: whose entries count as temporary ones; None looks at none.
        """
        return cls(
            Counter(
                [
                    *(f"descriptor {target}" for target in _descriptors()),
                    *(f"thread {t.name}" for t in threading.enumerate() if not _IDLE.fullmatch(t.name)),
                    *(f"child {pid}" for pid in children()),
                    *(f"temporary entry {entry}" for entry in (folder.iterdir() if folder else ())),
                ]
            )
        )

    def left(self, folder: Path | None = None, *, within: float = 5.0) -> list[str]:
        """What is there now and was not there then; looks again until nothing is, or for `within` seconds."""
        end = time.monotonic() + within
        while True:
            gc.collect()  # what only a cycle holds is not held
            found = sorted((Snapshot.take(folder).held - self.held).elements())
            if not found or time.monotonic() >= end:
                return found
            time.sleep(0.01)


def _descriptors() -> Iterator[str]:
    folder = _PROC / "fd" if _PROC.exists() else Path("/dev/fd")
    for entry in os.listdir(folder):
        with suppress(OSError):  # the one that listed the folder is closed again
            yield os.readlink(folder / entry) if _PROC.exists() else entry


def children() -> list[int]:
    """The pids of the direct children of this program, zombies included; empty where the system does not tell."""
    pids: list[int] = []
    with suppress(OSError):
        for thread in (_PROC / "task").iterdir():
            with suppress(OSError):  # the thread ended meanwhile
                pids += map(int, (thread / "children").read_text().split())
    return sorted(pids)


@cache
def warm_up() -> None:
    """Start what a program starts once and keeps, so that it is no leak: the supervisor of its child processes."""

    async def run_one() -> None:
        with suppress(ProcessError):  # whoever needs a process will hear of it
            await run_command([sys.executable, "-I", "-S", "-c", ""], env={}, timeout=30.0)

    thread = threading.Thread(target=anyio.run, args=[run_one], name="subagent-testing warm-up")
    thread.start()
    thread.join()


@contextmanager
def environment(name: str, value: str) -> Generator[None]:
    """Set a variable of this program's environment meanwhile."""
    before = {name: os.environ[name]} if name in os.environ else {}
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        os.environ.update(before)


@contextmanager
def private_temp() -> Generator[Path]:
    """Give this program and its children a temporary folder of their own, with a short path; remove it afterwards."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="st-", ignore_cleanup_errors=True) as name, environment("TMPDIR", name):
        tempfile.tempdir = name
        try:
            yield Path(name)
        finally:
            tempfile.tempdir = before


def loop_tasks() -> dict[int, str]:
    """The tasks of the running loop, the current one left out: identity -> name."""
    if isinstance(anyio.lowlevel.current_token().native_token, asyncio.AbstractEventLoop):
        me = asyncio.current_task()
        return {id(task): task.get_name() for task in asyncio.all_tasks() if task is not me}
    import trio

    return {id(t): t.name for t in _below(trio.lowlevel.current_root_task()) if t is not trio.lowlevel.current_task()}


def _below(task: Any) -> Iterator[Any]:
    for nursery in task.child_nurseries if task else ():
        for child in nursery.child_tasks:
            yield child
            yield from _below(child)


async def tasks_left(before: dict[int, str], *, within: float = 5.0) -> list[str]:
    """The names of the tasks that are there now and were not there then, once they have had their time to end."""
    end = anyio.current_time() + within
    while True:
        found = [f"task {name}" for task, name in loop_tasks().items() if task not in before]
        if not found or anyio.current_time() >= end:
            return found
        await anyio.sleep(0.005)
