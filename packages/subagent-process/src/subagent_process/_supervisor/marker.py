"""What stands in for child-subreapers where the kernel has none: a mark in the environment of every run.

A descendant that re-parents away is found by the variable that its leader was started with; the search is repeated
until it comes back empty twice, for a process may fork between two looks.  Weaker in two ways, which
``ShutdownReport.missing`` says: who clears its environment is not found (nor, on macOS, a program whose environment the
system withholds), and nothing found is no proof.  The search runs inside the supervisors, for the harness may be dead.
"""

from __future__ import annotations

import os

from .kernel import quiet, signal
from .processes import environment, pids

VARIABLE = b"SUBAGENT_TREE"
EMPTY_LOOKS = 2  # in a row, until nothing more is expected


def fresh() -> bytes:
    """The part of the mark that all runs of one harness share: nobody else's processes have it."""
    return os.urandom(8).hex().encode()


def carries(pid: int, mark: bytes) -> bool:
    """Whether a process was started with a mark that begins like this; never true for one that we may not read."""
    sign = b"%s=%s" % (VARIABLE, mark)
    return any(pair.startswith(sign) for pair in environment(pid))


def strike(mark: bytes) -> int:
    """Kill everybody who carries the mark; how many were found.

    By number, a moment after the look: a number is not given to another process within microseconds.
    """
    found = [pid for pid in pids() if carries(pid, mark)]
    for pid in found:
        quiet(os.kill, pid, signal.SIGKILL)
    return len(found)


def companions() -> list[int]:
    """Who else is in this process's session: of a guard, the keepers that a dead warden left to init."""
    me, session = os.getpid(), os.getsid(0)
    return [pid for pid in pids() if pid != me and quiet(os.getsid, pid) == session]
