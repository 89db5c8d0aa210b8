"""The supervisors of this harness process: started on first use, again after their death, and anew after our fork.

Belongs to no event loop and to no thread.  A message to the warden is nine bytes with descriptors, which the kernel
delivers whole, so that threads need no lock to send.
"""

from __future__ import annotations

import array
import errno
import itertools
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

from . import errors
from ._sockets import NO_SIGNAL, pair
from ._supervisor import protocol

_BOOT = """
import sys
sys.path.append(sys.argv[1])
from _supervisor.guard import main
main(int(sys.argv[2]), sys.argv[3] == "1")
"""
adopting = True  # False: do without child-subreapers, as where there are none; so that this is tested on Linux
_CHANNEL = 3  # where _supervisor.guard expects its socket
# A harness without a descriptor, or whose user has too many in flight (ETOOMANYREFS), or whose queue is full: wait
# and try again.
_NOT_NOW = {errno.EAGAIN, errno.ETOOMANYREFS, errno.ENOBUFS}
_SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM}
_ATTEMPTS = 3
_SUPPORTED = ("linux", "darwin")


class Guard:
    """The guard process, our child.  Its exit is kept here: several runs ask for it, and only one look can reap it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._lock = threading.Lock()
        self._exit: int | None = None

    def exit(self) -> int | None:
        """Its exit once it has ended; raises ChildProcessError when somebody else has reaped it."""
        with self._lock:
            if self._exit is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self._exit = os.waitstatus_to_exitcode(status) if pid else None
            return self._exit

    def gone(self) -> bool:
        """Whether it has ended, whoever has reaped it."""
        try:
            return self.exit() is not None
        except ChildProcessError:  # SIGCHLD is ignored here, or somebody waits for every child
            return True

    def resume(self) -> None:
        """Wake it if somebody stopped it."""
        if not self.gone():
            os.kill(self.pid, signal.SIGCONT)

    async def proof(self, seconds: float) -> bool | None:
        """Whether it has proved that nothing is left (exit 0 means ECHILD): True, False, or None if nobody can tell."""
        self.resume()
        with anyio.move_on_after(seconds):
            while True:
                try:
                    code = self.exit()
                except ChildProcessError:
                    return None
                if code is not None:
                    return code == 0
                await anyio.sleep(0.002)
        return False


@dataclass(frozen=True)
class Taken:
    """Which warden has a run, under which number, and its guard."""

    sock: socket.socket
    guard: Guard
    number: int

    def abandon(self) -> None:
        """Have the warden kill a keeper that does not answer, and sweep; synchronous, never waits.

        Whoever stopped all supervisors stopped the guard too, which would resume the warden, which would resume the
        keeper: so it begins with the guard, who is our own child.
        """
        self.guard.resume()
        with suppress(OSError):
            self.sock.sendmsg([protocol.message(protocol.ABANDON, self.number)], [], NO_SIGNAL)


class Launcher:
    """One pair of guard and warden at a time, plus retired ones that still own runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._kept: list[socket.socket] = []
        self._ended: list[Guard] = []
        self._numbers = itertools.count()
        self._ids = _ids()
        self.guard = Guard(0)

    def start(self) -> tuple[socket.socket, Guard]:
        """The warden's socket and the guard, started if need be (5 ms in this thread, 14 beside it).

        A child runs with the ids of its warden: when ours have changed there is a second one, and the first keeps its
        runs.
        """
        with self._lock:
            if self._socket is not None and self._ids != _ids():
                self._drop(keep=True)
            if self._socket is not None:
                return self._socket, self.guard
            self._ended = [guard for guard in self._ended if not guard.gone()]
            self._ids = _ids()
            near, far = pair()
            with far:
                # dup2 onto itself would leave close-on-exec set.
                if far.fileno() == _CHANNEL:  # pragma: no cover - a test shows it in a process of its own
                    os.set_inheritable(_CHANNEL, True)
                try:
                    self.guard = Guard(_spawn_guard(far.fileno()))
                except OSError as error:
                    near.close()
                    if error.errno in _SHORTAGES:
                        raise
                    raise _no_supervisor(error.strerror or str(error)) from error
            self._socket = near
            return near, self.guard

    def retire(self, sock: socket.socket) -> None:
        """This warden takes no more runs, and ends those that it has."""
        with self._lock:
            if self._socket is sock:
                self._drop(keep=False)

    def _drop(self, *, keep: bool) -> None:
        """``keep``: it still owns runs, and closing its socket would end them."""
        assert self._socket is not None
        self._ended.append(self.guard)
        if keep:
            self._kept.append(self._socket)
        else:
            self._socket.close()
        self._socket = None

    def hand_over(self, fds: Sequence[int]) -> Taken | None:
        """Give the warden the descriptors of a run; who took them.  None: not now, wait a moment and try again."""
        number = next(self._numbers)
        for _ in range(_ATTEMPTS):
            sock, guard = self.start()
            try:
                sock.sendmsg(
                    [protocol.message(protocol.HANDOVER, number)],
                    [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))],
                    NO_SIGNAL,
                )
            except OSError as error:
                if error.errno in _NOT_NOW:
                    return None
                self.retire(sock)
            else:
                return Taken(sock, guard, number)
        raise _no_supervisor(f"it ended at once, {_ATTEMPTS} times")

    def after_fork(self) -> None:  # pragma: no cover - runs only in a fork of the harness, which a test starts
        """In a fork of the harness: close the copies, which changes nothing for the parent, and forget."""
        for sock in [self._socket, *self._kept]:
            if sock is not None:
                sock.close()
        Launcher.__init__(self)  # with a new lock: another thread may have held the old one


def _ids() -> tuple[int, ...]:
    return os.getuid(), os.geteuid(), os.getgid(), os.getegid()


def _no_supervisor(why: str) -> errors.ProcessError:
    return errors.ProcessError(
        f"The supervisor of child processes does not start: {why}. It is run as {sys.executable!r} -I -S:"
        " sys.executable has to be a Python interpreter."
    )


def _spawn_guard(channel: int) -> int:
    where = str(Path(__file__).parent)
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    # An empty environment: no secret of ours can be read in /proc/GUARD/environ.  The interpreter itself may need its
    # library path.
    env = {name: value for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if (value := os.environ.get(name))}
    executable = sys.executable or "python"  # empty in some embedded interpreters
    return os.posix_spawn(
        executable,
        [executable, "-I", "-S", "-c", _BOOT, where, str(os.getpid()), str(int(adopting))],
        env,
        file_actions=[(os.POSIX_SPAWN_DUP2, channel, _CHANNEL), *null],
        setsid=True,
    )


LAUNCHER = Launcher()


def require_support() -> None:
    """Raise UnsupportedPlatform where a process tree cannot be owned."""
    if sys.platform not in _SUPPORTED:
        raise errors.UnsupportedPlatform(
            f"Owning a child process needs Linux, or macOS with less of a promise; this is {sys.platform}."
            " Run it in a Linux container, a virtual machine or WSL 2."
        )


with suppress(AttributeError):  # not on Windows
    os.register_at_fork(after_in_child=LAUNCHER.after_fork)
