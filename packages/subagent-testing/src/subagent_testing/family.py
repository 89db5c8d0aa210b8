"""The process family: a program that grows every awkward kind of descendant, and proof of who lives.

    async with Family() as family:
        async with await open_process(family.argv, env=child_env()) as process:
            await family.grow()
        assert await family.survivors() == ()

Each member holds a socket whose other end is ours.  The kernel closes it when the member dies, and only then: its end is
proof of death that no look at a process list can give, and an answer on it is proof of life.  Whoever stops this
program ends the family with it: its members end with the socket.

Trap: members of a family that is stopped (SIGSTOP) answer nothing and live; so whoever has not ended counts as alive.
"""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

import anyio

RELATIVES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "leader": (),
        "same-group": (),
        "deaf": ("deaf",),
        "own-group": ("group",),
        "own-session": ("session",),
        "daemon": ("session", "orphan", "quiet"),
        "bare-daemon": ("session", "orphan", "quiet", "bare"),
    }
)
"""The seven of every family: name -> traits."""

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "hopper": ("hops",),
        "pipe-holder": ("session", "orphan"),
    }
)
"""More that a family may have: one in a fresh session and process every millisecond, and a daemon that keeps the pipes."""

_PROGRAM: Final = Path(__file__).with_name("_relative.py")
_LONGEST: Final = 100
"""Bytes that a socket's path may have: 103 on macOS, 107 on Linux."""


class Family:
    """A family that has yet to be started; an async context manager, on asyncio and trio.

    Args:
        extras: names out of `EXTRAS`.
        deaf_leader: the leader ignores SIGTERM, SIGINT and SIGHUP.

    Attributes:
        argv: the program to start, by whatever is under test.
        pids: name -> pid of those that came, for messages; signals are the business of what is under test.
    """

    def __init__(self, *extras: str, deaf_leader: bool = False) -> None:
        members = {**RELATIVES, **{name: EXTRAS[name] for name in extras}}
        if deaf_leader:
            members["leader"] = ("deaf",)
        folder = tempfile.gettempdir()
        if len(folder) + len("/fm-12345678/s") > _LONGEST:
            folder = "/tmp"
        self._folder = tempfile.mkdtemp(prefix="fm-", dir=folder)
        path = f"{self._folder}/s"
        self._waited = tuple(members)
        self.argv: tuple[str, ...] = (
            *(sys.executable, "-I", "-S", str(_PROGRAM), path),
            *(f"{name}:{','.join(traits)}" for name, traits in members.items()),
        )
        self.pids: dict[str, int] = {}
        self._lines: dict[str, socket.socket] = {}
        self._door = socket.socket(socket.AF_UNIX)
        self._door.setblocking(False)
        self._door.bind(path)
        self._door.listen(len(members))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the sockets, which ends whoever still lives, and remove the folder."""
        for line in (self._door, *self._lines.values()):
            line.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def grow(self, *, within: float = 30.0) -> None:
        """Wait until every member has come, once the program was started.

        Raises:
            TimeoutError: some did not come within so many seconds; the message names them.
        """
        with anyio.move_on_after(within):
            while len(self._lines) < len(self._waited):
                await anyio.wait_readable(self._door)
                line, _ = self._door.accept()
                line.setblocking(False)
                name, pid = (await _receive(line, until=b"\n")).split()
                self._lines[name.decode()] = line
                self.pids[name.decode()] = int(pid)
        if missing := [name for name in self._waited if name not in self._lines]:
            raise TimeoutError(f"the family has not grown within {within:g} s: {', '.join(missing)} did not come")

    async def survivors(self, *, within: float = 10.0) -> tuple[str, ...]:
        """Who still lives: waits until everybody has ended, at most so many seconds, and then asks the others."""
        alive = set(self._lines)

        async def mourn(name: str) -> None:
            while await _receive(self._lines[name]):  # a `pong` of an earlier question
                pass
            alive.discard(name)

        with anyio.move_on_after(within):
            async with anyio.create_task_group() as tasks:
                for name in self._lines:
                    tasks.start_soon(mourn, name)
        for name in tuple(alive):
            if not await self.answers(name, within=0.0) and await self._ended(name):
                alive.discard(name)
        return tuple(name for name in self._lines if name in alive)
