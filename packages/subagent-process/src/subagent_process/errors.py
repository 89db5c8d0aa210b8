"""What can go wrong with a child process.

::

    ProcessError
    ├── UnsupportedPlatform     this system lacks what owning a process tree needs
    ├── SpawnError              the program was not started: program, PATH searched or cwd, errno
    ├── ProcessLost             its supervisors were killed before they could report how it ended
    ├── CommandTimeout          run_command: the time limit passed, the tree was ended
    ├── LineTooLong             one line of output beyond the limit: size, limit
    ├── RpcError                a peer answered a request with an error: code, message, data
    ├── InvalidAnswer           a peer's answer holds neither a result nor an error, or both
    ├── PeerClosed              a peer has ended, or is no longer heard: exit
    └── HomeError               a throwaway home could not be made: where, why

A mistake of the caller (an empty argv, a NUL character, a negative grace) is a ValueError, raised before anything
starts. No message holds an argument other than the program's name, nor an environment value other than PATH.
"""

from __future__ import annotations

import errno as _errno
import os
from typing import Self

__all__ = [
    "CommandTimeout",
    "HomeError",
    "InvalidAnswer",
    "LineTooLong",
    "PeerClosed",
    "ProcessError",
    "ProcessLost",
    "RpcError",
    "SpawnError",
    "UnsupportedPlatform",
]


class ProcessError(Exception):
    """The root of everything that this package raises on its own account."""


class UnsupportedPlatform(ProcessError):
    """This system lacks what owning a process tree needs."""


class SpawnError(ProcessError):
    """The program was not started, and nothing is left of the attempt.

    Attributes:
        program: what was to be started, as it was given.
        errno: the system's reason (``errno.ENOENT`` …), or None when the supervisor refused.
        path_searched: the child's PATH, when the program was a bare name that had to be searched for; else None.
        cwd: the working directory, when that is what was wrong; else None.
    """

    def __init__(
        self,
        message: str,
        *,
        program: str,
        errno: int | None = None,
        path_searched: str | None = None,
        cwd: str | None = None,
    ) -> None:
        """The message says the whole of it; the rest is for a program to act on."""
        super().__init__(message)
        self.program, self.errno, self.path_searched, self.cwd = program, errno, path_searched, cwd


class ProcessLost(ProcessError):
    """The child's supervisors were killed before they could report; its tree is being ended by those that are left."""

    def __init__(self, program: str, pid: int | None) -> None:
        """``pid`` is None when it is not known whether the program was started at all."""
        where = "before it was known whether it had started" if pid is None else f"(pid {pid})"
        super().__init__(
            f"{program} {where} was lost: the processes that supervise it were killed. Its whole process tree is being"
            " ended; how it would have ended by itself is not known. It is not started again: do so if that is safe."
        )
        self.program, self.pid = program, pid


class CommandTimeout(ProcessError):
    """A command did not end in time; its whole tree was ended.

    Attributes:
        program: what ran.
        timeout: the limit, in seconds.
        stdout: what it had written until then, cut at the limit of the call.
        stderr: likewise.
    """

    def __init__(self, program: str, timeout: float, stdout: bytes, stderr: bytes) -> None:
        """Output is kept as attributes and not in the message: it may hold anything."""
        super().__init__(f"{program} did not end within {timeout:g} s and was ended with everything it had started.")
        self.program, self.timeout, self.stdout, self.stderr = program, timeout, stdout, stderr


class LineTooLong(ProcessError):
    """A line of output went beyond the limit.

    Attributes:
        size: the real length of the line in bytes, without its line end.
        limit: the limit in bytes.
    """

    def __init__(self, size: int, limit: int) -> None:
        """Both in bytes."""
        super().__init__(
            f"A line of {size:,} bytes is longer than the limit of {limit:,} bytes, and was dropped."
            " Raise the limit if such a line is expected."
        )
        self.size, self.limit = size, limit


class RpcError(ProcessError):
    """A request was answered with an error; the answerer of a ``Peer`` raises it too, to answer with one.

    Attributes:
        code: of JSON-RPC 2.0 section 5.1, or the peer's own.
        message: the peer's words, redacted.
        data: what the peer said beside that, any JSON, as it came: not redacted; None when it said nothing.
    """

    def __init__(self, code: int, message: str, data: object = None, *, method: str | None = None) -> None:
        """``method`` is what was asked for, for the text; leave it out in an answerer."""
        super().__init__(f"{'The answer' if method is None else f'The answer to {method}'} is error {code}: {message}")
        self.code, self.message, self.data = code, message, data

    @classmethod
    def method_not_found(cls, method: str) -> Self:
        """What an answerer raises for a method that it does not know: code -32601."""
        return cls(-32601, f"Method not found: {method}")


class InvalidAnswer(ProcessError):
    """A request was answered with something that is no answer; it counts as answered.

    Attributes:
        method: what was asked for.
    """

    def __init__(self, program: str, method: str, answer: str) -> None:
        """The answer is redacted, and cut."""
        super().__init__(
            f"{program} answered {method} with something that is not one result or one error: {answer}"
            " It does not speak JSON-RPC there: check its version."
        )
        self.method = method


class PeerClosed(ProcessError):
    """Nothing that is sent will be answered any more.

    Attributes:
        program: the peer, as it was started.
        exit: its exit status, ``-N`` when signal N ended it; None when it has not ended, or that is not known.
    """

    def __init__(self, program: str, exit: int | None, why: str, undone: str) -> None:  # noqa: A002  # as in the report
        """``undone`` is what was asked for, ``why`` goes on from the program's name."""
        super().__init__(f"{program} {why}; {undone} stays without an answer. Its stderr may say more.")
        self.program, self.exit = program, exit


class HomeError(ProcessError):
    """A throwaway home could not be made.

    Attributes:
        path: the folder in which it was to be made.
    """

    def __init__(self, path: str, reason: str) -> None:
        """The reason is a sentence that says what to do."""
        super().__init__(f"No throwaway home could be made in {path}: {reason}")
        self.path = path


def spawn_error(program: str, code: int, *, path: str | None, cwd: str, resolved: str | None) -> SpawnError:
    """The error for an errno of exec.

    Args:
        program: as it was given.
        code: the errno.
        path: the child's PATH if the program was searched for there.
        cwd: the child's working directory.
        resolved: the file that the name leads to, if there is one.
    """
    if code == _errno.ENOENT and resolved is not None:
        why = (
            f"the file {resolved} exists, but what its first line (#!) names, or its loader, is missing: "
            "install that, or name the interpreter yourself"
        )
    elif code == _errno.ENOENT and path is not None:
        why = f"no such program in the child's PATH ({path or 'which is empty'}): install it, or give its full path"
    elif code == _errno.ENOENT:
        why = f"no such file (seen from {cwd}): install it, or correct the path"
    elif code == _errno.EACCES:
        why = f"{resolved or program} is not an executable file, or its file system is noexec: check its mode"
        why += "" if path is None else f" (PATH searched: {path})"
    elif code == _errno.ENOEXEC:
        why = f"{resolved or program} is no program for this system: no #! in its first line, or of another machine"
    elif code == _errno.E2BIG:
        why = "arguments and environment are too large (one argument: 131,071 bytes on Linux): pass it over stdin"
    else:
        why = os.strerror(code)
    return SpawnError(f"{program} could not be started: {why}.", program=program, errno=code, path_searched=path)


def cwd_error(program: str, code: int, cwd: str) -> SpawnError:
    """The error for a working directory that cannot be entered."""
    return SpawnError(
        f"{program} could not be started in {cwd}: {os.strerror(code)}. Give a directory that can be entered.",
        program=program,
        errno=code,
        cwd=cwd,
    )


def namespace_error(program: str, code: int) -> SpawnError:
    """The error for a PID namespace that cannot be made; code is 0 when its first process was killed."""
    why = os.strerror(code) if code else "its first process was killed"
    return SpawnError(
        f"{program} could not be started in a PID namespace of its own: {why}. Privileges or unprivileged user"
        " namespaces are needed, and a container that lets /proc be mounted: allow them, or ask for the containment"
        " 'subreaper'.",
        program=program,
        errno=code or None,
    )


def shortage_error(program: str, code: int, limit: int) -> SpawnError:
    """The error for what this process could not get before anything was started; with its limit of descriptors."""
    if code == _errno.EMFILE:
        why = f"no file descriptor is left: the limit (RLIMIT_NOFILE, ulimit -n) is {limit}, and a child takes 5"
    elif code == _errno.ENFILE:
        why = "the system has no file descriptor left (fs.file-max)"
    else:
        why = os.strerror(code)
    return SpawnError(f"{program} could not be started: {why}.", program=program, errno=code)
