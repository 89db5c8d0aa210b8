"""The guard: waits for the warden to end, then for proof that nothing below it lives.

It knows nothing and holds no socket, so that nothing but a signal can end it.  Its exit status 0 means ECHILD:
everything that it was the last resort for is dead.  How it tells a keeper, which is ending its own tree politely,
from an orphan: every leader is the leader of a session of its own, so that no descendant of one can be in the guard's
session, and every keeper is.
"""

from __future__ import annotations

import os
import time

from . import kernel, marker
from .kernel import (
    HANDLED,
    become_subreaper,
    close_others,
    listen,
    pidfd_of,
    quiet,
    raise_file_limit,
    reset_signals,
    signal,
)
from .processes import children
from .warden import Warden

PATIENCE = 30.0  # s until also the keepers are killed
CHANNEL = 3  # the descriptor that the launcher puts the warden's socket on


def guard(warden: int, mark: bytes) -> None:
    """Wait for the warden, then end what it left; never returns.

    With a mark and without adoption: once the keepers, whom init has now, have ended their trees.
    """
    while (ended := quiet(os.waitpid, warden, os.WUNTRACED)) and os.WIFSTOPPED(ended[1]):
        quiet(os.kill, warden, signal.SIGCONT)  # a stopped warden would hear nothing
    mine, end = os.getsid(0), time.monotonic() + PATIENCE
    while True:
        for pid in children() or ():
            foreign = quiet(os.getsid, pid) != mine or time.monotonic() > end
            quiet(os.kill, pid, signal.SIGKILL if foreign else signal.SIGCONT)  # nor would a stopped keeper
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            break
        time.sleep(0.002)
    if not mark:
        os._exit(0)
    looks = 0
    while looks < marker.EMPTY_LOOKS:
        looks = 0 if companions_left(end) or marker.strike(mark) else looks + 1
        time.sleep(0.01)
    os._exit(1)  # nothing was proved


def companions_left(end: float) -> bool:
    """Whether keepers are still at work; resumes them as long as they have time, for a stopped one hears nothing."""
    left = marker.companions() if time.monotonic() < end else []
    for pid in left:
        quiet(os.kill, pid, signal.SIGCONT)
    return bool(left)


def main(harness: int, adopting: bool = True) -> None:
    """Become the guard of this harness, and fork its warden.

    ``adopting``: False tests on Linux the mode that does without child-subreapers.
    """
    kernel.adopting = adopting
    asked: list[int] = []
    reset_signals()
    listen(lambda number, _frame: asked.append(number))
    close_others({CHANNEL})
    os.set_inheritable(CHANNEL, False)
    os.chdir("/")
    # The warden holds a descriptor per run; a harness may start it while it has few, and raise its limit later.
    raise_file_limit()
    mark = b"" if become_subreaper(b"guard") else marker.fresh()
    pidfd = pidfd_of(harness)
    if os.getppid() != harness:  # pragma: no cover - it died while we were starting: a test shows it, unmeasured
        os._exit(0)  # the number may be another process's by now
    reader, writer = os.pipe()  # the warden sees its end when we die
    warden = os.fork()
    if warden == 0:  # pragma: no cover - the measurement of a fork begins with the next function
        os.close(writer)
        try:
            pidfds = [] if pidfd is None else [pidfd]
            Warden(CHANNEL, reader, pidfds, asked, mark).run()
        finally:
            os._exit(126)
    close_others({writer})
    for number in HANDLED:  # a stop of the service reaches every process of it: let the warden end things politely
        signal.signal(number, lambda number, _frame: quiet(os.kill, warden, number))
    if asked:  # pragma: no cover - a signal that came before those handlers
        quiet(os.kill, warden, signal.SIGTERM)
    guard(warden, mark)
