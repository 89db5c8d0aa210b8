"""The new file, finished beside the old one before anything is replaced.

It is never more open than the old one: owner-only until it has the owner, then the old mode, and the bytes last.
Kept are the permission bits, owner and group, the access list and the attributes of the `user.` namespace; what the
system itself sets (security labels) is left to it.  A default access list of the folder does not reach a file that had
none of its own.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from typing import Final

__all__ = ["remove", "stage"]

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ACL: Final = "system.posix_acl_access"
_NO_ATTRIBUTES: Final = {errno.ENOTSUP, errno.ENODATA, errno.ENOSYS}


def stage(parent: int, data: bytes, old: int | None) -> str:
    """Write a file under a name of its own, on the disk when this returns; nothing is left when it fails.

    `old` is a descriptor of the file whose mode, owner and attributes it gets; without one, those of any new file.

    Returns:
        Its name in the folder `parent`.

    Raises:
        OSError: the disk is full, or whatever else the system says.
    """
    name = f".subagents-{secrets.token_hex(8)}.tmp"
    st = None if old is None else os.fstat(old)
    fd = os.open(name, _NEW, 0o666 if st is None else st.st_mode & 0o600, dir_fd=parent)
    try:
        try:
            if old is not None and st is not None:
                _dress(fd, old, st)
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        finally:
            os.close(fd)
    except BaseException:
        remove(parent, name)
        raise
    return name


def _dress(fd: int, old: int, st: os.stat_result) -> None:
    mine = os.fstat(fd)
    if (mine.st_uid, mine.st_gid) != (st.st_uid, st.st_gid):
        os.fchown(fd, st.st_uid, st.st_gid)
    kept = _attributes(old)
    if _ACL not in kept and _ACL in _attributes(fd):
        os.removexattr(fd, _ACL)
    for attribute, value in kept.items():
        os.setxattr(fd, attribute, value)
    os.fchmod(fd, stat.S_IMODE(st.st_mode))  # last: with an access list, its mask stands where the group's bits do


def _attributes(fd: int) -> dict[str, bytes]:
    if not hasattr(os, "listxattr"):  # pragma: no cover  # not Linux: they are not kept there
        return {}
    try:
        names = os.listxattr(fd)
        return {name: os.getxattr(fd, name) for name in names if name == _ACL or name.startswith("user.")}
    except OSError as exc:
        if exc.errno in _NO_ATTRIBUTES:
            return {}
        raise


def remove(parent: int, name: str) -> bool:
    """Remove a staged file; False when it is still there."""
    try:
        os.unlink(name, dir_fd=parent)
    except OSError as exc:
        return exc.errno == errno.ENOENT
    return True
