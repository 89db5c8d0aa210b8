"""The calls to the kernel that the supervisors share, and what is done where one is not there.

Linux has them all.  macOS has no child-subreapers (``marker``), no pidfds (a fork of a killed harness that holds its
descriptors delays the end), no ``close_range``, and a ``waitid`` that takes a stopped child for one that has ended.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import select
import sys

TYPE_CHECKING = False  # the typing module costs more milliseconds than a child does
if TYPE_CHECKING:
    import signal as signal  # the others take it from here
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    T = TypeVar("T")
else:  # what is inside of it: the enumerations around that take longer to make than all that is ours
    import _signal as signal

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PARENT_DEATH = 1  # PR_SET_PDEATHSIG
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, linux/prctl.h
_NAME = 15  # PR_SET_NAME
adopting = True  # False: as if there were no child-subreapers, to test the mode that does without (see marker)
PEEKS = sys.platform == "linux"  # whether the exit of a child can be seen without reaping it
_MOST_FILES = 10_240  # macOS allows no more, whatever the hard limit says (OPEN_MAX)
_libc = ctypes.CDLL(None, use_errno=True)
# Looked up once, before the forks: it takes longer than a fork.
_prctl: Callable[..., int] = getattr(_libc, "prctl", lambda *_: -1)


def quiet(function: Callable[..., T], *args: object) -> T | None:
    """The function's result, or None where the kernel refuses: a supervisor has nobody to tell."""
    try:
        return function(*args)
    except OSError:
        return None


def become_subreaper(name: bytes) -> bool:
    """Orphans below this process re-parent to it from now on; False where the kernel has no such thing.

    The flag is not inherited by fork: each supervisor asks for itself.
    """
    _prctl(_NAME, name, 0, 0, 0)
    return adopting and _prctl(_SUBREAPER, 1, 0, 0, 0) == 0


def die_with_parent() -> None:
    """SIGKILL for this process when its parent ends, of whatever; its own forks do not inherit that."""
    _prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0)


def unshare(flags: int) -> None:
    """Like ``os.unshare``, which came with Python 3.12."""
    if not hasattr(_libc, "unshare"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    _checked(_libc.unshare(flags))


def mount(source: bytes, target: bytes, kind: bytes, flags: int) -> None:
    """Mount a file system."""
    _checked(_libc.mount(source, target, kind, ctypes.c_ulong(flags), None))


def _checked(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def pidfd_of(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None where there is no such thing."""
    return quiet(os.pidfd_open, pid) if hasattr(os, "pidfd_open") else None


def raise_file_limit() -> None:
    """Allow this process as many descriptors as can be."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if not limit_files(hard):
        limit_files(_MOST_FILES)


def limit_files(soft: int) -> bool:
    """Give this process, and what it starts, this limit of descriptors; False where the system refuses."""
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    except (OSError, ValueError):
        return False
    return True


def tell(channel: int, text: bytes) -> None:
    """Report to the harness.  The channel does not block: nobody waits for a slow or dead harness."""
    quiet(os.write, channel, text)


def wakeup() -> tuple[int, int]:
    """Both ends of a pipe whose first becomes readable at every signal of this process."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    return reader, writer


def listen(handler: Callable[[int, object], object]) -> None:
    """Route the signals that ask for an end to the handler, and SIGCHLD to the wake-up pipe alone."""
    for number in HANDLED:
        signal.signal(number, handler)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)


def reset_signals() -> None:
    """Undo what survived exec: an ignored SIGCHLD would break every waitpid below, a blocked mask every handler."""
    for number in signal.valid_signals():
        if signal.getsignal(number) == signal.SIG_IGN and number not in (signal.SIGPIPE, signal.SIGXFSZ):
            quiet(signal.signal, number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def poller(fds: Iterable[int]) -> select.poll:
    """A poll object that waits for input on these descriptors."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return poll


def gaps(keep: Iterable[int], top: int) -> list[tuple[int, int]]:
    """Half-open ranges of the descriptors from 3 up to top that are not in keep."""
    found: list[tuple[int, int]] = []
    low = 3
    for fd in [*sorted(keep), top]:
        if fd > low:
            found.append((low, fd))
        if fd >= low:
            low = fd + 1
    return found


def close_others(keep: Iterable[int]) -> None:
    """Close every descriptor above 2 that is not in keep."""
    if sys.platform == "linux":  # close_range: a microsecond, however high the limit is
        for low, high in gaps(keep, os.sysconf("SC_OPEN_MAX")):
            os.closerange(low, high)
        return
    for fd in {int(name) for name in os.listdir("/dev/fd")} - {0, 1, 2, *keep}:
        quiet(os.close, fd)  # one of them was the listing itself
