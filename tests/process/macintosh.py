"""This Linux machine, as macOS would look to our code: what Linux alone has is gone, and `sysctl` answers.

`python macintosh.py SCRIPT …` runs a script there.  The table of processes and their environments come from /proc, in
macOS's layout (`struct kinfo_proc`, `KERN_PROCARGS2`), declared here once more, apart from the code under test.
Whatever of that code looks into /proc all the same fails.

Not shown here: that macOS's own calls (`kill`, `poll`, `posix_spawn`, `sendmsg`) do what its manual says.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable
from types import ModuleType

TYPE_CHECKING = False  # typing is slow to import, and the supervisors run this too
if TYPE_CHECKING:
    from typing import Any

ABSENT: dict[ModuleType, tuple[str, ...]] = {
    os: (
        *("pidfd_open", "waitid", "P_ALL", "P_PID", "P_PIDFD", "WNOWAIT", "WEXITED", "CLD_EXITED", "pipe2", "unshare"),
        *("O_PATH", "O_TMPFILE", "eventfd", "memfd_create", "getresuid", "sched_setaffinity", "posix_fadvise"),
    ),
    select: ("POLLRDHUP", "epoll"),
    signal: ("pidfd_send_signal", "signalfd", "sigtimedwait", "sigwaitinfo"),
    socket: (
        *("MSG_CMSG_CLOEXEC", "MSG_NOSIGNAL", "SO_PASSCRED", "SO_PEERCRED", "SCM_CREDENTIALS", "SOCK_CLOEXEC"),
        "SOCK_NONBLOCK",
    ),
    resource: ("prlimit",),
}
FUNCTIONS = ("prctl", "unshare", "setns", "pidfd_open", "close_range")  # of the C library
SHIELDED = (b"sleep", b"sh", b"dash", b"bash")  # as programs of Apple's are: their environments are withheld
OPEN_MAX = 10_240
ROOM = 1 << 17
_sources: list[str] = []


class Timeval(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_int64), ("micros", ctypes.c_int32))


class ExternProc(ctypes.Structure):
    """`struct extern_proc`, bsd/sys/proc.h."""

    _fields_ = (
        ("p_starttime", Timeval), ("p_vmspace", ctypes.c_void_p), ("p_sigacts", ctypes.c_void_p),
        ("p_flag", ctypes.c_int), ("p_stat", ctypes.c_char), ("p_pid", ctypes.c_int), ("p_oppid", ctypes.c_int),
        ("p_dupfd", ctypes.c_int), ("user_stack", ctypes.c_void_p), ("exit_thread", ctypes.c_void_p),
        ("p_debugger", ctypes.c_int), ("sigwait", ctypes.c_int), ("p_estcpu", ctypes.c_uint),
        ("p_cpticks", ctypes.c_int), ("p_pctcpu", ctypes.c_uint32), ("p_wchan", ctypes.c_void_p),
        ("p_wmesg", ctypes.c_void_p), ("p_swtime", ctypes.c_uint), ("p_slptime", ctypes.c_uint),
        ("p_realtimer", Timeval * 2), ("p_rtime", Timeval), ("p_uticks", ctypes.c_uint64),
        ("p_sticks", ctypes.c_uint64), ("p_iticks", ctypes.c_uint64), ("p_traceflag", ctypes.c_int),
        ("p_tracep", ctypes.c_void_p), ("p_siglist", ctypes.c_int), ("p_textvp", ctypes.c_void_p),
        ("p_holdcnt", ctypes.c_int), ("p_sigmask", ctypes.c_uint32), ("p_sigignore", ctypes.c_uint32),
        ("p_sigcatch", ctypes.c_uint32), ("p_priority", ctypes.c_ubyte), ("p_usrpri", ctypes.c_ubyte),
        ("p_nice", ctypes.c_char), ("p_comm", ctypes.c_char * 17), ("p_pgrp", ctypes.c_void_p),
        ("p_addr", ctypes.c_void_p), ("p_xstat", ctypes.c_ushort), ("p_acflag", ctypes.c_ushort),
        ("p_ru", ctypes.c_void_p),
    )  # fmt: skip


class Pcred(ctypes.Structure):
    _fields_ = (
        *(("pc_lock", ctypes.c_char * 72), ("pc_ucred", ctypes.c_void_p)),
        *(("ids", ctypes.c_uint32 * 4), ("p_refcnt", ctypes.c_int)),
    )


class Ucred(ctypes.Structure):
    _fields_ = (
        *(("cr_ref", ctypes.c_int32), ("cr_uid", ctypes.c_uint32)),
        *(("cr_ngroups", ctypes.c_short), ("cr_groups", ctypes.c_uint32 * 16)),
    )


class Vmspace(ctypes.Structure):
    _fields_ = (
        *(("dummy", ctypes.c_int32), ("dummy2", ctypes.c_void_p)),
        *(("dummy3", ctypes.c_int32 * 5), ("dummy4", ctypes.c_void_p * 3)),
    )


class Eproc(ctypes.Structure):
    """`struct eproc`, bsd/sys/sysctl.h."""

    _fields_ = (
        ("e_paddr", ctypes.c_void_p), ("e_sess", ctypes.c_void_p), ("e_pcred", Pcred), ("e_ucred", Ucred),
        ("e_vm", Vmspace), ("e_ppid", ctypes.c_int), ("e_pgid", ctypes.c_int), ("e_jobc", ctypes.c_short),
        ("e_tdev", ctypes.c_int32), ("e_tpgid", ctypes.c_int), ("e_tsess", ctypes.c_void_p),
        ("e_wmesg", ctypes.c_char * 8), ("e_xsize", ctypes.c_int32), ("e_xrssize", ctypes.c_short),
        ("e_xccount", ctypes.c_short), ("e_xswrss", ctypes.c_short), ("e_flag", ctypes.c_int32),
        ("e_login", ctypes.c_char * 12), ("e_spare", ctypes.c_int32 * 4),
    )  # fmt: skip


class KinfoProc(ctypes.Structure):
    _fields_ = (("kp_proc", ExternProc), ("kp_eproc", Eproc))


def entry(pid: int, parent: int, name: bytes, started: int) -> bytes:
    """One `struct kinfo_proc`; started in microseconds."""
    found = KinfoProc()
    found.kp_proc.p_pid, found.kp_proc.p_comm, found.kp_eproc.e_ppid = pid, name[:16], parent
    found.kp_proc.p_starttime = Timeval(*divmod(started, 1_000_000))
    return bytes(found)


def arguments(path: bytes, argv: list[bytes], env: list[bytes], *, shielded: bool = False) -> bytes:
    """What KERN_PROCARGS2 gives: argc, the path padded to 8 bytes, argv, the environment, and Apple's own strings."""
    head = len(argv).to_bytes(4, sys.byteorder) + path + b"\0" * (8 - len(path) % 8)
    rest = [] if shielded else [*env, b"", b"ptr_munge=", b"main_stack="]
    return head + b"".join(word + b"\0" for word in [*argv, *rest])


def _slurp(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _entry(pid: int) -> bytes:
    try:
        name, _, rest = _slurp(f"/proc/{pid}/stat").partition(b" (")[2].rpartition(b") ")
    except OSError:
        return b""
    fields = rest.split()
    return entry(pid, int(fields[1]), name, int(fields[19]) * 10_000)


def _answer(name: tuple[int, ...]) -> bytes | None:
    match name:
        case (1, 14, 0):
            return b"".join(_entry(int(pid)) for pid in os.listdir("/proc") if pid.isdigit())
        case (1, 14, 1, pid):
            return _entry(pid)
        case (1, 49, pid):
            try:
                argv, env = (_slurp(f"/proc/{pid}/{part}").split(b"\0")[:-1] for part in ("cmdline", "environ"))
                path = os.readlink(f"/proc/{pid}/exe").encode()
            except OSError:
                return None
            return arguments(path, argv, env, shielded=os.path.basename(path) in SHIELDED)
        case _:
            return None


_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.c_uint,
    ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t), ctypes.c_void_p, ctypes.c_size_t,
)  # fmt: skip


def sysctl_with(answer: Callable[[tuple[int, ...]], bytes | None]) -> Callable[..., int]:
    """A C function `sysctl` that says what `answer` says for a name; None is a refusal."""

    def sysctl(name: list[int], length: int, room: int | None, size: list[int], _new: int, _newlen: int) -> int:
        if not room:
            size[0] = ROOM  # the real one says how much it is; this saves the false one half of its work
            return 0
        said = answer(tuple(name[at] for at in range(length)))
        if said is None or len(said) > size[0]:
            return -1
        ctypes.memmove(room, said, len(said))
        size[0] = len(said)
        return 0

    return _PROTOTYPE(sysctl)


_sysctl = sysctl_with(_answer)


class Library(ctypes.CDLL):
    """The C library of macOS, as far as it goes."""

    def __getattr__(self, name: str) -> Any:
        if name in FUNCTIONS:
            raise AttributeError(name)
        return _sysctl if name == "sysctl" else super().__getattr__(name)


def _watch(_event: str, words: tuple[object, ...]) -> None:
    if words and isinstance(words[0], str) and words[0].startswith("/proc"):
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while frame.f_back and not frame.f_code.co_filename.startswith((os.path.dirname(__file__), *_sources)):
            frame = frame.f_back
        assert not frame.f_code.co_filename.startswith(tuple(_sources)), f"{words[0]} in {frame}"


def pretend(*sources: str) -> None:
    """From now on this process is on macOS, as far as the code below the folders `sources` can tell."""
    _sources.extend(sources)
    for module, names in ABSENT.items():
        for name in names:
            for each in (module, sys.modules.get(f"_{module.__name__}")):
                if hasattr(each, name):
                    delattr(each, name)
    ctypes.CDLL = Library  # pyright: ignore[reportAttributeAccessIssue]
    limit = resource.setrlimit

    def setrlimit(which: int, limits: tuple[int, int]) -> None:
        if which == resource.RLIMIT_NOFILE and not 0 <= limits[0] <= OPEN_MAX:
            raise ValueError("current limit exceeds maximum limit")
        limit(which, limits)

    resource.setrlimit = setrlimit  # pyright: ignore[reportAttributeAccessIssue]
    sys.platform = "darwin"
    sys.addaudithook(_watch)


if __name__ == "__main__":
    import importlib.util
    import runpy

    # They look at the platform when they are imported.
    import anyio._backends._asyncio  # noqa: F401  # pyright: ignore[reportUnusedImport]
    import coverage  # noqa: F401  # pyright: ignore[reportUnusedImport]
    import trio  # noqa: F401  # pyright: ignore[reportUnusedImport]

    spec = importlib.util.find_spec("subagent_process")
    assert spec
    assert spec.submodule_search_locations
    pretend(*spec.submodule_search_locations)
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
