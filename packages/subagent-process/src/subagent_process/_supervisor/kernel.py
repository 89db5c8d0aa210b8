"""The calls to the kernel that the supervisors share.

Trap: *unknown is not empty*.  Where the list of children cannot be read the answer is None; an empty list would be
taken as proof that nothing lives.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal

TYPE_CHECKING = False  # the typing module costs more milliseconds than a child does
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    T = TypeVar("T")

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PARENT_DEATH = 1  # PR_SET_PDEATHSIG
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, linux/prctl.h
_NAME = 15  # PR_SET_NAME
adopting = True  # False: as if there were no child-subreapers, to test the mode that does without (see marker)
_libc = ctypes.CDLL(None, use_errno=True)
_prctl = _libc.prctl  # looked up once, before the forks: it takes longer than a fork


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
    _checked(_libc.unshare(flags))


def mount(source: bytes, target: bytes, kind: bytes, flags: int) -> None:
    """Mount a file system."""
    _checked(_libc.mount(source, target, kind, ctypes.c_ulong(flags), None))


def _checked(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def tell(channel: int, text: bytes) -> None:
    """Report to the harness.  The channel does not block: nobody waits for a slow or dead harness."""
    quiet(os.write, channel, text)


def wakeup() -> tuple[int, int]:
    """Both ends of a pipe whose first becomes readable at every signal of this process."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
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
    edges = [2, *sorted(fd for fd in keep if fd > 2), top]
    return [
        (low + 1, high)
        for low, high in zip(edges, edges[1:], strict=False)  # noqa: RUF007 - no itertools here
        if low + 1 < high
    ]


def close_others(keep: Iterable[int]) -> None:
    """Close every descriptor above 2 that is not in keep (close_range: a microsecond, however high the limit is)."""
    for low, high in gaps(keep, os.sysconf("SC_OPEN_MAX")):
        os.closerange(low, high)


def name_of(pid: int) -> bytes:
    """What a process calls itself, on one line; empty when it is gone."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return b" ".join(file.read().split())
    except OSError:
        return b""


def parent_of(stat: str) -> int:
    """The parent's pid in a ``/proc/PID/stat`` line, whose second field may hold spaces and parentheses."""
    return int(stat.rpartition(")")[2].split()[1])


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


def pids() -> list[int]:
    """Every process that can be seen; empty when none can."""
    return [int(name) for name in quiet(os.listdir, "/proc") or () if name.isdigit()]


def scan(parent: int) -> list[int] | None:
    """The same by reading every process's stat: for a kernel without CONFIG_PROC_CHILDREN."""
    found: list[int] = []
    readable = False
    for pid in pids():
        try:
            with open(f"/proc/{pid}/stat", errors="replace") as file:
                mine = parent_of(file.read()) == parent
        except (OSError, IndexError, ValueError):
            continue
        readable = True
        if mine:
            found.append(pid)
    return found if readable else None
