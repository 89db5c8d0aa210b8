"""What a crash leaves behind, and how the next start recognises it.

A leftover shows two signs at once: nobody holds the lock on its ``.owner`` (the harness does, and the keeper of the
tree that uses it), and the process that ``.owner`` names by pid and start time is gone.  The lock alone would not do
for a harness that closes every descriptor to become a daemon; the pid alone not for one in another PID namespace that
shares /tmp.  Everything that is not plainly ours stays: another user's folder, a link, one without a readable
``.owner``, one on a file system without locks.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import threading
from pathlib import Path

from ._supervisor import folder
from ._supervisor.processes import started

if sys.platform != "win32":  # pragma: no branch
    import fcntl

PREFIX = "subagent-"
OWNER = ".owner"
_OWNER = re.compile(rb"subagents ([0-9]+) ([0-9]+)\n")

_guard = threading.Lock()
_cleaned: set[str] = set()


def claim(root: Path) -> int:
    """Mark a new root as this process's; the descriptor holds the lock.

    The lock comes before the text: a text that can be read is proof that the lock was held once, so that a janitor
    which gets the lock knows that the owner has let go.
    """
    fd = os.open(root / OWNER, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)  # shared with the keeper; waits for a janitor that is just looking
        os.write(fd, b"subagents %d %d\n" % (os.getpid(), started(os.getpid()) or 0))
    except BaseException:
        os.close(fd)
        raise
    return fd


def clean_once(base: str) -> None:
    """Remove the leftovers in a base folder, once per process.  Blocks; never raises."""
    with _guard:
        if base in _cleaned:
            return
        _cleaned.add(base)
        clean(base)


def clean(base: str) -> list[str]:
    """Remove the leftovers in a base folder; the names that are gone."""
    try:
        with os.scandir(base) as listing:
            names = [entry.name for entry in listing if entry.name.startswith(PREFIX)]
    except OSError:
        return []
    return [name for name in names if _clean(os.path.join(base, name))]


def _clean(root: str) -> bool:
    try:
        found = os.lstat(root)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return False
        path = os.path.join(root, OWNER)
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)  # O_NONBLOCK: it may be a pipe
    except OSError:
        return False
    try:
        mark = os.fstat(fd)
        if not stat.S_ISREG(mark.st_mode) or mark.st_uid != os.geteuid() or mark.st_dev != found.st_dev:
            return False
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        owner = _OWNER.fullmatch(os.read(fd, 100))
        if owner is None or started(int(owner[1])) == int(owner[2]):
            return False
        return folder.remove(root, found.st_dev, found.st_ino, patience=0)
    except OSError:  # somebody holds the lock, or there are no locks here
        return False
    finally:
        os.close(fd)
