"""Putting a finished file in the place of another, in one step, without losing what somebody else put there meanwhile.

`rename` says nothing about what it replaced: between the last check and the call somebody may have saved the file in an
editor.  Linux can exchange two names in one step instead; then what was replaced can be looked at, and put back.  A new
file is placed under a name that must be free.  Where the system or the file system lacks this, the plain forms are
used: `rename`, with a moment in which a change of others is lost, and `link`.
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import Final

__all__ = ["exchange", "place"]

_NOREPLACE: Final = 1
_EXCHANGE: Final = 2
_LACKING: Final = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}


def exchange(folder: int, new: str, old: str) -> bool:
    """Put `new` in the place of `old`; both are names in one open folder.

    Returns:
        True when `new` is now the name of what was replaced; False when that is gone (a plain rename).
    """
    if _rename(folder, new, old, _EXCHANGE):
        return True
    os.rename(new, old, src_dir_fd=folder, dst_dir_fd=folder)
    return False


def place(folder: int, new: str, name: str) -> None:
    """Give `new` a name that must be free.

    Raises:
        FileExistsError: it is not.
    """
    if not _rename(folder, new, name, _NOREPLACE):
        os.link(new, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        os.unlink(new, dir_fd=folder)


def _rename(folder: int, new: str, old: str, flag: int) -> bool:
    """False where that flag is lacking, and nothing was done."""
    if (renameat2 := _renameat2()) is None:
        return False
    if renameat2(folder, os.fsencode(new), folder, os.fsencode(old), flag) == 0:
        return True
    if (code := ctypes.get_errno()) in _LACKING:
        return False
    raise OSError(code, os.strerror(code), old)


@cache
def _renameat2():
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)  # glibc 2.28, musl 1.2.5
    if function is not None:  # pragma: no branch  # a system without it is simulated one level above
        function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return function
