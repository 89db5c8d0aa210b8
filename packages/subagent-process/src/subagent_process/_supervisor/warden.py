"""The warden: takes the descriptors of each run, forks its keeper, and sweeps what a killed keeper leaves.

It never reads a request: no argument, environment or secret enters its memory, and a harness that stalls in the
middle of one stalls only that run's keeper.  It is kept tiny because its size is what each fork copies (20 MB of
heap: +0.3 ms).
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import time

from .keeper import keep
from .kernel import become_subreaper, children, poller, quiet, tell, wakeup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTORS = 4
ROOM = socket.CMSG_SPACE(4 * DESCRIPTORS) + socket.CMSG_SPACE(12)  # SCM_RIGHTS, SCM_CREDENTIALS
FLAGS = socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
PATIENCE = 30.0  # s that a stopping warden waits for its keepers before it kills one that hangs
SWEEP = 5.0  # s after which a killed keeper's tree counts as not proved gone


def unpack(ancillary: list[tuple[int, int, bytes]]) -> tuple[list[int], list[int]]:
    """The descriptors of a message and its kernel-made credentials ``[pid, uid, gid]`` (empty if it has none)."""
    fds: list[int] = []
    credentials: list[int] = []
    for level, kind, raw in ancillary:
        if level != socket.SOL_SOCKET:
            continue
        numbers = [int.from_bytes(raw[at : at + 4], sys.byteorder) for at in range(0, len(raw) - 3, 4)]
        if kind == socket.SCM_RIGHTS:
            fds += numbers
        elif kind == socket.SCM_CREDENTIALS:  # pragma: no branch - there is no third kind
            credentials = numbers
    return fds, credentials


def refusal(fds: Sequence[int], credentials: Sequence[int], expected: Sequence[int]) -> bytes:
    """Why a run is not taken; empty if it is.

    The sender must be the harness with the ids that it had when the warden started: a child runs with the warden's.
    """
    if len(fds) != DESCRIPTORS:
        return b"R 0\n"  # the kernel had no descriptor left for us
    return b"" if list(credentials) == list(expected) else b"R 1\n"


class Warden:
    """The loop over one socket, the guard's pipe, the harness's pidfd and this process's signals."""

    def __init__(self, sock: socket.socket, guard: int, pidfds: Sequence[int], harness: int, asked: list[int]) -> None:
        """``asked`` is filled by the signal handler: this process was told to stop."""
        self.sock, self.pidfds, self.asked = sock, pidfds, asked
        self.expected = [harness, os.getuid(), os.getgid()]
        become_subreaper(b"warden")
        self.waker, _ = wakeup()
        self.alive, self.alive_writer = os.pipe()  # every keeper sees its end when we die or stop
        self.poll = poller((self.waker, sock.fileno(), guard, *pidfds))
        self.runs: dict[int, int] = {}  # keeper -> our copy of its ctl, to say L on
        self.lost: list[int] = []  # ctl of keepers that were killed
        self.pause: int | None = None  # ms until the next round of a sweep
        self.overdue = 0.0
        self.stopping: float | None = None

    def run(self) -> None:
        """Until the harness or the guard is gone, or a signal asks, and every keeper has ended."""
        gc.disable()
        gc.freeze()  # a collection in a keeper would copy our pages
        while True:
            if self.asked and self.stopping is None:
                self.stop()
            if self.stopping is not None and not self.runs and not self.pause:
                os._exit(0)
            timeout = self.pause or (1000 if self.stopping else None)
            for fd, _ in self.poll.poll(timeout):
                if fd == self.waker:
                    quiet(os.read, fd, 4096)
                elif fd != self.sock.fileno() or not self.receive():
                    self.asked.append(0)
                    break
            if self.stopping is not None and time.monotonic() > self.stopping:  # pragma: no cover - takes 30 s
                for keeper in self.runs:
                    quiet(os.kill, keeper, signal.SIGKILL)
            self.reap()
            if self.pause:
                self.sweep()

    def receive(self) -> bool:
        """Take one run from the socket; False when the harness is gone."""
        received = quiet(self.sock.recvmsg, 1, ROOM, FLAGS)
        if received is None:  # pragma: no cover - nothing there after all, or a reset, behind which comes the end
            return True
        data, ancillary, _, _ = received
        if not data:
            return False
        fds, credentials = unpack(ancillary)
        reason = refusal(fds, credentials, self.expected)
        if reason:
            if fds:  # pragma: no branch - none at all came when the kernel had none left
                tell(fds[0], reason)
            for fd in fds:
                os.close(fd)
        else:
            self.fork(fds[0], fds[1:])
        return True

    def fork(self, ctl: int, stdio: list[int]) -> None:
        keeper = quiet(os.fork)
        if keeper == 0:  # pragma: no cover - the measurement of a fork begins with the next function
            keep(ctl, stdio, self.alive, self.pidfds, self.asked)
        if keeper is None:  # pragma: no cover - no process left; a scripted warden shows what the harness does
            tell(ctl, b"R 0\n")
            os.close(ctl)
        else:
            self.runs[keeper] = ctl
        for fd in stdio:
            os.close(fd)

    def stop(self) -> None:
        """Take no more runs and let every keeper end its tree politely."""
        self.stopping = time.monotonic() + PATIENCE
        self.sock.close()
        os.close(self.alive_writer)
        self.poll = poller((self.waker,))

    def reap(self) -> None:
        while (ended := quiet(os.waitpid, -1, os.WNOHANG)) and ended[0]:
            ctl = self.runs.pop(ended[0], None)
            if ctl is None:
                continue
            if ended[1] == 0:
                os.close(ctl)
            else:
                self.lost.append(ctl)
                self.pause, self.overdue = 1, time.monotonic() + SWEEP

    def sweep(self) -> None:
        """One round: a killed keeper's tree is ours now, and so is every child that is no keeper."""
        known = children()
        rest = [pid for pid in known or () if pid not in self.runs]
        for pid in rest:
            quiet(os.kill, pid, signal.SIGKILL)
        self.pause = min(2 * (self.pause or 1), 50) if rest else None
        if not rest or time.monotonic() > self.overdue:
            for ctl in self.lost:
                tell(ctl, b"L %d\n" % (known is not None and not rest))
                os.close(ctl)
            self.lost.clear()
