"""Who is there, as macOS tells it through ``sysctl``: the same questions as in ``procfs``.

The layouts are those of ``struct kinfo_proc`` (648 bytes on arm64 and x86-64; xnu's ``sys/sysctl.h``) and of
KERN_PROCARGS2 (xnu's ``kern_sysctl.c``): only read, never run on a Mac.  A table without this very process in it was
misunderstood, and counts as unknown.

Traps: the environment of a program that System Integrity Protection shields (``/bin/sh``, ``/bin/sleep`` and most that
Apple ships) is withheld, also from root; what follows the environment in the same block (Apple's own strings) looks
like it.
"""

from __future__ import annotations

import ctypes
import os
import struct

_KERN, _PROC, _ARGUMENTS = 1, 14, 49  # CTL_KERN, KERN_PROC, KERN_PROCARGS2
_ALL, _ONE = 0, 1  # KERN_PROC_ALL, KERN_PROC_PID
_ENTRY = 648  # sizeof(struct kinfo_proc)
_PID, _NAME, _PARENT = 40, slice(243, 260), 560  # kp_proc.p_pid, kp_proc.p_comm, kp_eproc.e_ppid
_STARTED = struct.Struct("=qi")  # kp_proc.p_starttime, which comes first: seconds and microseconds

libc = ctypes.CDLL(None)


def pids() -> list[int]:
    """Every process; empty when it cannot be told."""
    return list(_parents())


def children() -> list[int] | None:
    """Pids of this process's children, zombies included; None when it cannot be told."""
    me, parents = os.getpid(), _parents()
    return [pid for pid, parent in parents.items() if parent == me] if parents else None


def started(pid: int) -> int | None:
    """When a process started, in microseconds since 1970; None if there is none."""
    entry = _entry(pid)
    if not entry:
        return None
    seconds, micros = _STARTED.unpack_from(entry)
    return seconds * 1_000_000 + micros


def name_of(pid: int) -> bytes:
    """What a process calls itself, on one line; empty when it is gone."""
    return b" ".join(_entry(pid)[_NAME].partition(b"\0")[0].split())


def environment(pid: int) -> list[bytes]:
    r"""The NAME=VALUE pairs that a process was started with; none for one that we may not read, or that has ended.

    The block is argc (4 bytes), ``b"PATH\0"``, more ``b"\0"``, then argc arguments and the pairs, each with its NUL.
    """
    block = _read(_KERN, _ARGUMENTS, pid)
    if len(block) < 4:
        return []
    (argc,) = struct.unpack_from("=i", block)
    words = block[4:].partition(b"\0")[2].lstrip(b"\0").split(b"\0")
    pairs = words[argc:]
    return pairs[: pairs.index(b"")] if b"" in pairs else pairs


def _parents() -> dict[int, int]:
    """Process -> parent; empty when it cannot be told."""
    table = _read(_KERN, _PROC, _ALL)
    found = {_int(table, at + _PID): _int(table, at + _PARENT) for at in range(0, len(table) - _ENTRY + 1, _ENTRY)}
    return found if os.getpid() in found else {}


def _entry(pid: int) -> bytes:
    entry = _read(_KERN, _PROC, _ONE, pid)
    return entry if len(entry) == _ENTRY and _int(entry, _PID) == pid else b""


def _int(data: bytes, at: int) -> int:
    return struct.unpack_from("=i", data, at)[0]


def _read(*name: int) -> bytes:
    """What the kernel says under this name; empty when it refuses."""
    words = (ctypes.c_int * len(name))(*name)
    size = ctypes.c_size_t(0)
    if libc.sysctl(words, len(name), None, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        return b""
    size.value += size.value // 8  # more may have come meanwhile
    room = ctypes.create_string_buffer(size.value)
    if libc.sysctl(words, len(name), room, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        return b""
    return ctypes.string_at(room, size.value)
