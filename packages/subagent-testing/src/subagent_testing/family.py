"""The process family: a program that grows every awkward kind of descendant, and proof of who lives.

    async with Family() as family:
        async with await open_process(family.argv, env=child_env()) as process:
            await family.grow()
        assert await family.survivors() == ()

Each member holds a socket whose other end is ours.  The kernel closes it when the member dies, and only then: its end
is proof of death that no look at a process list can give, and an answer on it is proof of life.  Whoever stops this
program ends the family with it: its members end with the socket.

Trap: members of a family that is stopped (SIGSTOP) answer nothing and live; so whoever has not ended counts as alive.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import sys
import tempfile
from collections import deque
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
"""More: one that is in a fresh session and process every millisecond, and a daemon that keeps the leader's pipes."""

_PROGRAM: Final = Path(__file__).with_name("_relative.py")
_LONGEST: Final = 100
"""Bytes that a socket's path may have: 103 on macOS, 107 on Linux."""

_ANSWER: Final = 5.0
"""Seconds after which a member that does not answer is taken for stopped."""


class Family:
    """A family that has yet to be started; an async context manager, on asyncio and trio.

    Args:
        extras: names out of `EXTRAS`.
        deaf_leader: the leader ignores SIGTERM, SIGINT and SIGHUP.

    Attributes:
        argv: the program to start, by whatever is under test.
        pids: name -> pid of those that came.
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
        self._asked = 0
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
        """End whoever still lives, and remove the folder."""
        for name, line in self._lines.items():
            # Not by the end of its socket alone, which a stopped process does not see.  Who is there still has its pid;
            # 0 is one that our PID namespace does not know.
            if name != "hopper" and self.pids[name] > 0 and _is_open(line):
                with suppress(ProcessLookupError):
                    os.kill(self.pids[name], signal.SIGKILL)
            line.close()
        self._lines.clear()
        self._door.close()
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
                name, pid = (await _hear(line)).split()  # one write of a few bytes on a local socket comes whole
                self._lines[name.decode()] = line
                self.pids[name.decode()] = _peer(line, int(pid))
        if missing := [name for name in self._waited if name not in self._lines]:
            raise TimeoutError(f"the family has not grown within {within:g} s: {', '.join(missing)} did not come")

    async def survivors(self, *, within: float = 10.0) -> tuple[str, ...]:
        """Who lives: waits until all have ended, at most so many seconds, then asks the others.

        Empty as soon as nobody is left.  A member that neither ended nor answers (it was stopped) lives.
        """
        ended: set[str] = set()

        async def mourn(name: str) -> None:
            await self._end(name)
            ended.add(name)

        async def ask(name: str) -> None:
            if await self.answers(name) is None:
                ended.add(name)

        for wait, bound in ((mourn, within), (ask, 2 * _ANSWER)):
            with anyio.move_on_after(bound):
                async with anyio.create_task_group() as tasks:
                    for name in self._lines.keys() - ended:
                        tasks.start_soon(wait, name)
        return tuple(name for name in self._waited if name in self._lines.keys() - ended)

    async def answers(self, name: str) -> bool | None:
        """Whether a member answers: True, False (it lives, and is stopped or very slow), None (it has ended)."""
        self._asked += 1
        word, heard = f"pong {self._asked}\n".encode(), b""  # a late answer to an earlier question proves nothing
        self.tell(name, f"ping {self._asked}")
        with anyio.move_on_after(_ANSWER):
            while word not in heard:
                if not (more := await _hear(self._lines[name])):
                    return None
                heard += more
            return True
        return False

    def tell(self, name: str, order: str) -> None:
        """Give a member an order: `exit CODE`, or `stop` (SIGSTOP to itself); without effect when it has ended.

        Raises:
            ValueError: the hopper was to be stopped; nobody would know which process it is in.
        """
        if (name, order) == ("hopper", "stop"):
            raise ValueError("the hopper cannot be stopped: nobody would find it again")
        with suppress(OSError):
            self._lines[name].send(f"{order}\n".encode())

    async def exit_leader(self, code: int = 0, *, within: float = 10.0) -> None:
        """Make the leader exit by itself, and wait for its end.

        Raises:
            TimeoutError: it did not end within so many seconds.
        """
        self.tell("leader", f"exit {code}")
        with anyio.fail_after(within):
            await self._end("leader")

    async def _end(self, name: str) -> None:
        while await _hear(self._lines[name]):
            pass


def _is_open(line: socket.socket) -> bool:
    """Whether the other end is there; takes what is unread, which would hide the end."""
    try:
        deque(iter(lambda: line.recv(64), b""), maxlen=0)
    except BlockingIOError:
        return True
    except OSError:  # it ended with something unread, or our end is closed
        pass
    return False


def _peer(line: socket.socket, said: int) -> int:
    """The pid of the other end as we know it: what it says itself counts in its own PID namespace."""
    option = getattr(socket, "SO_PEERCRED", None)
    return said if option is None else struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, option, 12))[0]


async def _hear(line: socket.socket) -> bytes:
    """The next bytes; none at the end, also when the other side ended with something unread."""
    await anyio.wait_readable(line)
    with suppress(ConnectionResetError):
        return line.recv(64)
    return b""
