"""A PID namespace around one tree: when its first process ends, the kernel itself kills everybody in it.

That first process is a fork of the keeper, which starts the leader, reaps, tells the keeper how the leader ended, and
ends.  It is needed in between because the kernel shields the first process of a namespace from every signal that it
has no handler for: a leader in its place would not hear SIGTERM.  It leads the session that the leader is in, and dies
with the keeper, so that nothing is left even when all supervisors are killed in one instant.

Without privileges a user namespace is made too, in which our ids are mapped to themselves.  ``/proc`` is mounted anew:
with the outer one no process in there would find itself.
"""

from __future__ import annotations

import os

from .kernel import HANDLED, close_others, die_with_parent, mount, quiet, signal, unshare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .protocol import Request

_MOUNTS, _USERS, _PIDS = 0x00020000, 0x10000000, 0x20000000  # CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID
_PRIVATE = 0x4000 | 1 << 18  # MS_REC | MS_PRIVATE
_PLAIN = 2 | 4 | 8  # MS_NOSUID | MS_NODEV | MS_NOEXEC


def start(
    request: Request, stdio: Sequence[int], launch: Callable[[Request, Sequence[int]], tuple[int, bytes]]
) -> tuple[int, bytes, int]:
    """The first process's pid, nothing, and a descriptor for ``exit_code``; or 0, ``b"ERRNO STAGE"`` and -1."""
    try:
        _enter()
        reader, writer = os.pipe()
        first = os.fork()
    except OSError as error:
        return 0, b"%d pid-namespace" % (error.errno or 0), -1
    if first == 0:  # pragma: no cover - the measurement of a fork begins with the next function
        try:
            _first(request, stdio, writer, launch)
        finally:
            os._exit(126)
    os.close(writer)
    if os.read(reader, 1) == b"S":  # and not more: the leader's exit may be there already
        return first, b"", reader
    refusal = os.read(reader, 100) or b"0 pid-namespace"
    os.waitpid(first, 0)
    os.close(reader)
    return 0, refusal, -1


def exit_code(reader: int) -> int:
    """The leader's exit once the first process has ended; SIGKILL's if that was killed."""
    return int(os.read(reader, 100) or -signal.SIGKILL)


def _enter() -> None:
    """From now on forks of this process are in a new namespace, itself is not."""
    user, group = os.geteuid(), os.getegid()
    try:
        unshare(_PIDS)
    except OSError:  # no privileges
        unshare(_PIDS | _USERS)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def _first(
    request: Request, stdio: Sequence[int], writer: int, launch: Callable[[Request, Sequence[int]], tuple[int, bytes]]
) -> None:
    """Process 1: never returns."""
    die_with_parent()
    for number in HANDLED:
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    os.setsid()
    close_others({*stdio, writer})
    try:
        unshare(_MOUNTS)
        mount(b"none", b"/", b"none", _PRIVATE)
        mount(b"proc", b"/proc", b"proc", _PLAIN)
        leader, refusal = launch(request, stdio)
    except OSError as error:
        leader, refusal = 0, b"%d pid-namespace" % (error.errno or 0)
    for fd in stdio:
        os.close(fd)
    os.write(writer, b"E" + refusal if refusal else b"S")  # fails, and so ends us, if the keeper was killed before
    while leader and (ended := quiet(os.waitpid, -1, 0)):
        if ended[0] == leader:
            os.write(writer, b"%d" % os.waitstatus_to_exitcode(ended[1]))
            break
    os._exit(0)
