"""Who is there, as Linux tells it in ``/proc``; ``sysctl`` tells the same on macOS.

Trap: *unknown is not empty*.  Where the list of children cannot be read the answer is None; an empty list would be
taken as proof that nothing lives.
"""

from __future__ import annotations

import os


def pids() -> list[int]:
    """Every process that can be seen; empty when none can."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def children() -> list[int] | None:
    """Pids of this process's children, zombies included; None when it cannot be told.

    Only the caller reaps them, so that no entry goes away while the list is read.
    """
    me = os.getpid()
    try:
        with open(f"/proc/self/task/{me}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return scan(me)


def scan(parent: int) -> list[int] | None:
    """The same by reading every process's stat: for a kernel without CONFIG_PROC_CHILDREN."""
    parents = {pid: int(fields[1]) for pid in pids() if (fields := _stat(pid))}
    return [pid for pid in parents if parents[pid] == parent] if parents else None


def started(pid: int) -> int | None:
    """When a process started, in the kernel's ticks; None if there is none."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def name_of(pid: int) -> bytes:
    """What a process calls itself, on one line; empty when it is gone."""
    return b" ".join(_read(pid, "comm").split())


def environment(pid: int) -> list[bytes]:
    """The NAME=VALUE pairs that a process was started with; none for one that we may not read, or that has ended."""
    return _read(pid, "environ").split(b"\0")


def fields_of(stat: bytes) -> list[bytes]:
    """What stands behind the name in a ``stat`` line (it may hold spaces and parentheses): state, parent and so on."""
    return stat.rpartition(b")")[2].split()


def _stat(pid: int) -> list[bytes]:
    return fields_of(_read(pid, "stat"))


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""
