"""What the tests of the process floor share: relatives that prove whether they live, and a descriptor count."""

from __future__ import annotations

import os
import select
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio.to_thread
import coverage
import pytest

from subagent_process import _launcher as launcher  # pyright: ignore[reportPrivateUsage]

ROLES = ("leader", "stubborn", "session", "daemon")
PROGRAM = str(Path(__file__).with_name("relatives.py"))


class Relatives:
    """Listens for the relatives of one tree."""

    def __init__(self, *, deaf: bool = False) -> None:
        self.folder = tempfile.mkdtemp(prefix="rel-", dir="/tmp")
        self.path = f"{self.folder}/s"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(8)
        self._listener.settimeout(20)
        self._members: dict[str, socket.socket] = {}
        self.pids: dict[str, int] = {}
        self._deaf = deaf

    @property
    def argv(self) -> list[str]:
        """The command that grows them."""
        return [sys.executable, "-I", "-S", PROGRAM, self.path, *ROLES[1:], *(["deaf"] if self._deaf else [])]

    def grow(self) -> None:
        """Wait until all of them have said that they live."""
        while len(self._members) < len(ROLES):
            connection, _ = self._listener.accept()
            connection.settimeout(20)
            role, pid = connection.makefile("r").readline().split()
            self._members[role] = connection
            self.pids[role] = int(pid)
        assert set(self._members) == set(ROLES)

    async def agrow(self) -> None:
        """The same from a task."""
        await anyio.to_thread.run_sync(self.grow)

    def exit_leader(self) -> None:
        """Let the leader exit by itself, with status 7."""
        self._members["leader"].sendall(b"exit")

    def survivors(self, patience: float = 10) -> list[str]:
        """Who still lives when everybody who dies within the patience is dead; at once when all are."""
        left, deadline = dict(self._members), time.monotonic() + patience
        while left and (rest := deadline - time.monotonic()) > 0:
            for connection in select.select(list(left.values()), [], [], rest)[0]:
                if not _received(connection):
                    left = {role: each for role, each in left.items() if each is not connection}
        return [role for role, connection in left.items() if _answers(connection)]

    async def asurvivors(self, patience: float = 10) -> list[str]:
        """The same from a task."""
        return await anyio.to_thread.run_sync(self.survivors, patience)

    def alive(self) -> list[str]:
        """Who answers now."""
        return [role for role, connection in self._members.items() if _answers(connection)]

    def close(self) -> None:
        """Ends also whoever survived: a relative exits at the end of its connection."""
        for connection in (*self._members.values(), self._listener):
            connection.close()
        shutil.rmtree(self.folder)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(64)
    except ConnectionResetError:
        return b""


def _answers(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"ping")
    except OSError:
        return False
    return _received(connection) == b"ping"


# The supervisors run as `python -I -S`, where coverage cannot start by itself.  When the tests are measured, this boot
# text is used in place of the library's: the same, with a measurement around each process of theirs.  What a SIGKILL
# ends writes nothing.
MEASURED = """
import os, sys
sys.path.append(sys.argv[1])
sys.path.append({site!r})
import coverage

def begin():
    global measured
    only = [sys.argv[1] + "/_supervisor/*"]
    measured = coverage.Coverage({data!r}, True, branch=True, include=only, config_file=False)
    measured.start()

def leave(code, leave=os._exit):
    measured.stop()
    measured.save()
    leave(code)

os._exit = leave
begin()
os.register_at_fork(after_in_child=lambda: (measured.stop(), begin()))
from _supervisor.guard import main
main(int(sys.argv[2]))
"""


@pytest.fixture(scope="session", autouse=True)
def measured_supervisors() -> None:
    """Measure the supervisors too, where the tests are measured."""
    current = coverage.Coverage.current()
    if current is not None:
        site = str(Path(coverage.__file__).parent.parent)
        data = str(Path(current.config.data_file).absolute())
        launcher._BOOT = MEASURED.format(site=site, data=data)  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def relatives() -> Iterator[Relatives]:
    """A tree whose leader obeys."""
    family = Relatives()
    yield family
    family.close()


@pytest.fixture
def deaf_relatives() -> Iterator[Relatives]:
    """A tree whose leader ignores SIGTERM and the end of its stdin."""
    family = Relatives(deaf=True)
    yield family
    family.close()


@pytest.fixture
def descriptors() -> Callable[[], int]:
    """Counts the descriptors of this process."""
    return lambda: len(os.listdir("/proc/self/fd"))
