"""CLAUDE_CONFIG_DIR: a throwaway one, a pinned one, or the person's own."""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio

from subagent_claude_code.options import ClaudeCodeOptions
from subagent_process import ThrowawayHome, throwaway_home
from subagents import Failure, Link, NoticeEvent, StartError

_LOCK: Final = ".subagents.lock"
_LOCK_POLL: Final = (0.02, 0.5)  # s, from the first look to the longest pause


@dataclass(frozen=True, slots=True)
class Home:
    """Where a run's engine keeps its files.

    Attributes:
        config: CLAUDE_CONFIG_DIR; None where it is the person's own.
        private: HOME, TMPDIR and the rest, removed after the run; in an inherited home only what tools need.
    """

    config: Path | None
    private: ThrowawayHome

    @property
    def own(self) -> Path:
        """The folder for what we write for the engine."""
        return self.private.path("own")


@asynccontextmanager
async def open_home(options: ClaudeCodeOptions, link: Link) -> AsyncGenerator[Home]:
    """The home of one run.

    Raises:
        StartError: a pinned home cannot be made.
        subagent_process.HomeError: no private folder could be made.
    """
    async with throwaway_home("claude", "own") as private:
        if options.home == "isolated":
            yield Home(private.path("claude"), private)
        elif options.home == "inherit":
            yield Home(None, private)
        else:
            path = Path(options.home)
            async with _pinned(path, link):
                yield Home(path, private)


@asynccontextmanager
async def _pinned(path: Path, link: Link) -> AsyncGenerator[None]:
    descriptor = _made(path)
    try:
        await _locked(descriptor, path, link)
        yield
    finally:
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
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not told:
                link.emit(NoticeEvent(f"waiting for the home {path}, which another run uses", "waiting"))
                told = True
            await anyio.sleep(pause)
            pause = min(pause * 2, longest)
        else:
            return
