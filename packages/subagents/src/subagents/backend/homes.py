"""Homes that last: a folder of an engine that one run at a time may use."""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio

from subagents import Failure, Link, NoticeEvent, StartError

_LOCK: Final = ".subagents.lock"
_LOCK_POLL: Final = (0.02, 0.5)  # s, from the first look to the longest pause

_held: Final[set[int]] = set()


def _after_fork() -> None:  # pragma: no cover - runs only in a fork of the harness, which a test starts
    """A fork of the harness shares the lock, and would hold it after the run."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_after_fork)


@asynccontextmanager
async def pinned_home(path: Path, link: Link) -> AsyncGenerator[None]:
    """A folder that lasts, for one run at a time; the others wait, and say so in a notice of code `waiting`.

    It is made (0700) when it is missing, and never removed. The lock ends with the run, also in a fork of this program,
    and with the death of the program.

    Args:
        path: the folder, absolute.
        link: of the run.

    Raises:
        StartError: of kind `launch`: it cannot be made, written in, or locked.
    """
    descriptor = _made(path)
    _held.add(descriptor)
    try:
        await _locked(descriptor, path, link)
        yield
    finally:
        _held.discard(descriptor)
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a fork may not have closed its copy yet
        os.close(descriptor)


def _made(path: Path) -> int:
    """The folder, and its open lock file."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        reason = f"the home {path} cannot be used: {error.strerror}; give a folder that can be written in"
        raise StartError(Failure("launch", "start", reason)) from error


async def _locked(descriptor: int, path: Path, link: Link) -> None:
    pause, longest = _LOCK_POLL
    told = False
    while not _taken(descriptor, path):
        if not told:
            link.emit(NoticeEvent(f"waiting for the home {path}, which another run uses", "waiting"))
            told = True
        await anyio.sleep(pause)
        pause = min(pause * 2, longest)


def _taken(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        reason = f"the home {path} cannot be locked ({error.strerror}): give a folder on a local disk"
        raise StartError(Failure("launch", "start", reason)) from error
    return True
