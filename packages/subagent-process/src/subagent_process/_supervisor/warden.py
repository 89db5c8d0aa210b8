"""The warden: takes the descriptors of each run, forks its keeper, and sweeps what a killed keeper leaves.

It never reads a request: no argument, environment or secret enters its memory, and a harness that stalls in the
middle of one stalls only that run's keeper.  It is kept tiny because its size is what each fork copies (20 MB of
heap: +0.3 ms).
"""

from __future__ import annotations

import gc
import os
import select
import sys
import time

from . import marker, protocol
from .keeper import keep, rehearse
from .kernel import become_subreaper, poller, quiet, signal, tell, wakeup
from .processes import children

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
else:  # for the reason in kernel
    import _socket as socket

DESCRIPTORS = 4
ROOM = socket.CMSG_SPACE(4 * DESCRIPTORS)
RELEASED = getattr(select, "POLLRDHUP", 0)  # the harness let go, or died; not on macOS, where nobody watches for it
PATIENCE = 30.0  # s that a keeper gets to end its tree once the harness let go of it, before it is killed
SWEEP = 5.0  # s after which a killed keeper's tree counts as not proved gone
REFUSAL = b"R 0\n"


def unpack(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors of a message, not to be inherited by any program."""
    fds: list[int] = []
    for level, kind, raw in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds += [int.from_bytes(raw[at : at + 4], sys.byteorder) for at in range(0, len(raw) - 3, 4)]
    for fd in fds:
        os.set_inheritable(fd, False)  # MSG_CMSG_CLOEXEC is not everywhere, and nothing is executed meanwhile
    return fds


class Run:
    """One keeper: our copy of its ctl, to say L on and to see the harness let go; its number; the mark of its tree.

    The mark is empty where orphans are adopted.
    """

    __slots__ = ("ctl", "mark", "number", "overdue")

    def __init__(self, ctl: int, number: bytes, mark: bytes) -> None:
        self.ctl, self.number, self.mark = ctl, number, mark
        self.overdue: float | None = None

    def expect_end(self) -> None:
        """From now on it has to come to its end."""
        self.overdue = self.overdue or time.monotonic() + PATIENCE


class Warden:
    """The loop over one socket, the guard's pipe, the harness's pidfd and this process's signals."""

    def __init__(
        self,
        channel: int,
        guard: int,
        pidfds: Sequence[int],
        asked: list[int],
        mark: bytes,
    ) -> None:
        """``asked`` is filled by the signal handler: this process was told to stop.  ``mark``: see ``marker``."""
        self.sock = socket.socket(fileno=channel)
        self.pidfds, self.asked, self.mark = pidfds, asked, mark
        become_subreaper(b"warden")
        self.waker, _ = wakeup()
        self.alive, self.alive_writer = os.pipe()  # every keeper sees its end when we die or stop
        self.poll = poller((self.waker, channel, guard, *pidfds))
        self.runs: dict[int, Run] = {}  # by the keeper's pid
        self.lost: list[Run] = []  # whose keepers were killed
        self.looks = 0  # without anybody left
        self.pause: int | None = None  # ms until the next round of a sweep
        self.overdue = 0.0
        self.stopping = False

    def run(self) -> None:
        """Until the harness or the guard is gone, or a signal asks, and every keeper has ended."""
        gc.disable()
        rehearse()
        gc.freeze()  # a collection in a keeper would copy our pages
        while True:
            if self.asked and not self.stopping:
                self.stop()
            if self.stopping and not self.runs and not self.pause:
                os._exit(0)
            expecting = any(run.overdue for run in self.runs.values())
            for fd, _ in self.poll.poll(self.pause or (1000 if expecting else None)):
                if fd == self.waker:
                    quiet(os.read, fd, 4096)
                elif run := next((run for run in self.runs.values() if run.ctl == fd), None):
                    self.poll.unregister(fd)
                    run.expect_end()
                elif fd != self.sock.fileno() or not self.receive():
                    self.asked.append(0)
                    break
            for keeper, run in self.runs.items():
                if run.overdue and time.monotonic() > run.overdue:
                    quiet(os.kill, keeper, signal.SIGKILL)
            self.reap()
            if self.pause:
                self.sweep()

    def receive(self) -> bool:
        """Take one message from the socket; False when the harness is gone."""
        received = quiet(self.sock.recvmsg, protocol.MESSAGE, ROOM, socket.MSG_DONTWAIT)
        if received is None:  # pragma: no cover - nothing there after all, or a reset, behind which comes the end
            return True
        data, ancillary, _, _ = received
        if not data:
            return False
        kind, number = data[:1], data[1:]
        fds = unpack(ancillary)
        if kind == protocol.ABANDON:
            for keeper, run in self.runs.items():
                if run.number == number:
                    quiet(os.kill, keeper, signal.SIGKILL)
            return True
        if len(fds) == DESCRIPTORS:
            self.fork(number, fds[0], fds[1:])
        else:  # the kernel had no descriptor left for us
            for ctl in fds[:1]:
                tell(ctl, REFUSAL)
            for fd in fds:
                os.close(fd)
        return True

    def fork(self, number: bytes, ctl: int, stdio: list[int]) -> None:
        mark = self.mark and self.mark + b"-" + number
        keeper = quiet(os.fork)
        if keeper == 0:  # pragma: no cover - the measurement of a fork begins with the next function
            keep(ctl, stdio, self.alive, self.pidfds, self.asked, mark)
        if keeper is None:  # pragma: no cover - no process left; a scripted warden shows what the harness does
            tell(ctl, REFUSAL)
            os.close(ctl)
        else:
            self.runs[keeper] = Run(ctl, number, mark)
            if RELEASED:
                self.poll.register(ctl, RELEASED)
        for fd in stdio:
            os.close(fd)

    def stop(self) -> None:
        """Take no more runs and let every keeper end its tree politely."""
        self.stopping = True
        for run in self.runs.values():
            run.expect_end()
        self.sock.close()
        os.close(self.alive_writer)
        self.poll = poller((self.waker,))

    def reap(self) -> None:
        while (ended := quiet(os.waitpid, -1, os.WNOHANG | os.WUNTRACED)) and ended[0]:
            keeper, status = ended
            if os.WIFSTOPPED(status):  # a stopped keeper would hear nothing
                quiet(os.kill, keeper, signal.SIGCONT)
                continue
            run = self.runs.pop(keeper, None)
            if run is None:
                continue
            if RELEASED and not run.overdue:
                self.poll.unregister(run.ctl)
            if status == 0:
                os.close(run.ctl)
            else:
                self.lost.append(run)
                self.looks = 0
                self.pause, self.overdue = 1, time.monotonic() + SWEEP

    def sweep(self) -> None:
        """One round: a killed keeper's tree is ours now, and so is every child that is no keeper.

        Where nobody is adopted the marks say who belongs to it, and nothing is proved.
        """
        known = children()
        rest = [pid for pid in known or () if pid not in self.runs]
        for pid in rest:
            quiet(os.kill, pid, signal.SIGKILL)
        struck = sum(marker.strike(run.mark) for run in self.lost if run.mark)
        self.looks = 0 if rest or struck else self.looks + 1
        done = self.looks >= (marker.EMPTY_LOOKS if self.mark else 1)
        self.pause = None if done else min(2 * (self.pause or 1), 50)
        if done or time.monotonic() > self.overdue:
            for run in self.lost:
                tell(run.ctl, b"L %d\n" % (done and known is not None and not self.mark))
                os.close(run.ctl)
            self.lost.clear()
