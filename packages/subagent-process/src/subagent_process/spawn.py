"""Start a child through the shared supervisors."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import weakref
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Literal, get_args

import anyio

from . import errors
from ._control import Control
from ._launcher import LAUNCHER, Taken, require_support
from ._pipes import PipeReader, PipeWriter
from ._supervisor.protocol import KILL, Request
from .process import OwnedProcess
from .report import Ladder

if sys.platform != "win32":  # pragma: no branch
    import resource

if TYPE_CHECKING:
    from .home import ThrowawayHome

__all__ = ["Containment", "open_process"]

Containment = Literal["subreaper", "pid-namespace"]
"""Who ends the tree: our supervisors, or also the kernel, which ends a PID namespace with its first process."""

_ATTEMPTS = 3
_BEFORE_ANOTHER = 0.01  # s
# s that our copies of what is handed over stay open, at most: macOS may end what is only on the way (read in Chromium's
# sources; elsewhere a copy of ours would hide the end of a warden that never took it).
_ON_THE_WAY = 1.0 if sys.platform == "darwin" else 0.0
_IN_FLIGHT = 0.002  # s until the kernel has delivered descriptors that are in flight

_live: weakref.WeakSet[OwnedProcess] = weakref.WeakSet()


async def open_process(
    argv: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str],
    cwd: str | os.PathLike[str] | None = None,
    umask: int = -1,
    ladder: Ladder = Ladder(),  # noqa: B008 - frozen
    home: ThrowawayHome | None = None,
    containment: Containment = "subreaper",
) -> OwnedProcess:
    """Start a program whose whole tree ends with the handle.

    The child gets exactly ``env``, descriptors 0, 1 and 2 (pipes) and no other, default signals, a session of its
    own. It is not our child but a supervisor's, which is started once per harness; ``SIGCHLD`` and ``waitpid`` here
    do not see it.  On macOS, for which this is written and where it was never run, less is promised:
    ``ShutdownReport.missing`` says what.

    Args:
        argv: the program and its arguments.  A name without a slash is searched for in the PATH of ``env``.
        env: the whole environment; ``child_env`` makes one.
        cwd: the working directory; ours as it is now if None.
        umask: the child's, -1 for the one that the supervisor was started with.
        ladder: the graces of the shutdown.
        home: a throwaway home that is removed when the tree is gone, also when this process was killed.
        containment: ``"pid-namespace"`` puts the tree into a PID namespace of its own (and a user namespace, where we
            have no privileges): the kernel then ends all of it at once, also when all of our supervisors are killed
            in one instant.  ``pid`` is that of its first process; inside, pids count from 1, and ``/proc`` shows no
            other processes.  Never replaced by something weaker.

    Raises:
        SpawnError: the program or the directory is not there or not usable, or descriptors have run out, or the
            system allows no PID namespace.
        ProcessLost: the supervisors were killed at the moment of the start; it is not known whether it ran.
        UnsupportedPlatform: neither Linux nor macOS.
        ValueError: an empty argv, a NUL character, a name in ``env`` that no environment can hold, an unknown
            containment.

    A cancelled call leaves nothing: what was started already is killed before it returns.
    """
    require_support()
    if containment not in get_args(Containment):
        raise ValueError(f"containment is {containment!r}: it is one of {', '.join(get_args(Containment))}.")
    request = _request(argv, env, cwd, umask, ladder, home)
    request.contained = containment == "pid-namespace"
    return await _open(request, ladder)


async def open_without_stdin(
    argv: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str],
    cwd: str | os.PathLike[str] | None,
    ladder: Ladder,
) -> OwnedProcess:
    """Like ``open_process``, with the null device as the child's stdin."""
    require_support()
    return await _open(_request(argv, env, cwd, -1, ladder, None), ladder, stdin=False)


def _request(
    argv: Sequence[str | os.PathLike[str]],
    env: Mapping[str, str],
    cwd: str | os.PathLike[str] | None,
    umask: int,
    ladder: Ladder,
    home: ThrowawayHome | None,
) -> Request:
    """What the keeper is told; raises ValueError for what no program can be given."""
    if isinstance(argv, str | bytes):
        raise ValueError("argv is one string: give a sequence, the program first.")
    arguments = [os.fsencode(word) for word in argv]
    if not arguments or not arguments[0]:
        raise ValueError("argv is empty: its first item is the program.")
    if any(b"\0" in word for word in arguments):
        raise ValueError(
            f"argv of {os.fsdecode(arguments[0])!r} holds a NUL character, which no argument can: pass it over stdin."
        )
    variables: dict[bytes, bytes] = {}
    for name, value in env.items():
        if not name or "=" in name or "\0" in name:
            raise ValueError(f"{name!r} cannot be the name of an environment variable.")
        if "\0" in value:
            raise ValueError(f"The environment variable {name} holds a NUL character, which no variable can.")
        variables[os.fsencode(name)] = os.fsencode(value)
    if not -1 <= umask <= 0o777:
        raise ValueError(f"umask is {umask:#o}: it is 0 to 0o777, or -1 to leave it alone.")
    where = os.fspath(cwd) if cwd is not None else "."
    if "\0" in where:
        raise ValueError("cwd holds a NUL character, which no path can.")
    try:
        folder = os.path.abspath(where)
    except OSError as error:  # our own working directory was removed
        raise errors.cwd_error(os.fsdecode(arguments[0]), error.errno or 0, where) from error
    request = Request(arguments, variables, os.fsencode(folder), umask=umask, files=_soft_limit(), grace=ladder.term)
    if home is not None:
        request.home, request.device, request.inode = os.fsencode(home.root), home.device, home.inode
    return request


async def _open(request: Request, ladder: Ladder, *, stdin: bool = True) -> OwnedProcess:
    """Try until the program was started, or refused for good.  Only what has provably not begun is tried again."""
    name, data = _shown(request.argv[0]), request.encode()
    for _ in range(_ATTEMPTS):
        attempt = _Attempt(name)
        try:
            taken = await attempt.begin(data, stdin=stdin)
        except BaseException:
            await attempt.abandon(ladder.kill)
            raise
        status = attempt.control.status
        if status.pid is not None:
            process = OwnedProcess(name, attempt.control, attempt.pipes(), ladder, taken, bool(request.home))
            _live.add(process)
            return process
        await attempt.abandon(ladder.kill)
        if status.error is not None:
            raise _refused(request, *status.error)
        if status.begun:
            raise errors.ProcessLost(name, None)
        await anyio.sleep(_BEFORE_ANOTHER)
    raise errors.SpawnError(
        f"{name} could not be started: its supervisor has no process or descriptor left (RLIMIT_NPROC, RLIMIT_NOFILE),"
        " or is killed again and again. End some runs, or raise the limit.",
        program=name,
        errno=errno.EAGAIN,
    )


def _soft_limit() -> int:
    """How many descriptors this process may have."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _shown(text: bytes) -> str:
    """A name for messages, which can be printed whatever bytes it has."""
    return text.decode("utf-8", "backslashreplace")


def _refused(request: Request, code: int, stage: str) -> errors.SpawnError:
    program, cwd = _shown(request.argv[0]), _shown(request.cwd)
    if stage == "cwd":
        return errors.cwd_error(program, code, cwd)
    if stage == "home":
        return errors.SpawnError(
            f"{program} could not be started: its home {os.fsdecode(request.home)} is gone, or is being removed."
            " A throwaway home serves one process tree; make a new one.",
            program=program,
        )
    if stage == "pid-namespace":
        return errors.namespace_error(program, code)
    path = os.fsdecode(request.env.get(b"PATH", os.defpath.encode())) if "/" not in program else None
    resolved = shutil.which(program if path is not None else os.path.join(cwd, program), os.F_OK, path)
    return errors.spawn_error(program, code, path=path, cwd=cwd, resolved=resolved)


@contextmanager
def _shortages_named(program: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise errors.shortage_error(program, error.errno or 0, _soft_limit()) from error


class _Attempt:
    """The descriptors of one attempt, and their end whatever happens."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._ours: list[int] = []
        self._theirs: list[int] = []
        self._sent = False
        self._taken: Taken | None = None
        with _shortages_named(name):
            self.control = Control()
            try:
                for reads in (False, True, True):
                    reader, writer = os.pipe()
                    self._ours.append(reader if reads else writer)
                    self._theirs.append(writer if reads else reader)
            except OSError:
                self.close()
                raise

    def pipes(self) -> tuple[PipeWriter, PipeReader, PipeReader]:
        stdin, stdout, stderr = self._ours
        self._ours = []
        return PipeWriter(stdin), PipeReader(stdout), PipeReader(stderr)

    async def begin(self, data: bytes, *, stdin: bool) -> Taken:
        """Hand over, send the request, and wait for the answer; who took it."""
        try:
            with _shortages_named(self._name):
                if not stdin:
                    self._use_null_device()
                fds = [self.control.far.fileno(), *self._theirs]
                while (taken := LAUNCHER.hand_over(fds)) is None:  # noqa: ASYNC110
                    await anyio.sleep(_IN_FLIGHT)  # the kernel says nothing when it has delivered them
                self._taken = taken
            if _ON_THE_WAY:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._ask, data)
                    status = self.control.status
                    await self.control.within(_ON_THE_WAY, lambda: status.begun or status.decided)
                    self._close_theirs()
                return taken
        finally:
            self._close_theirs()
        await self._ask(data)
        return taken

    async def _ask(self, data: bytes) -> None:
        await self.control.send(data)
        self._sent = True
        status = self.control.status
        await self.control.until(lambda: status.decided)

    def _use_null_device(self) -> None:
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.close(self._theirs[0])
        os.close(self._ours[0])
        self._theirs[0], self._ours[0] = null, -1

    def _close_theirs(self) -> None:
        self.control.far.close()
        while self._theirs:
            os.close(self._theirs.pop())

    def close(self) -> None:
        self._close_theirs()
        while self._ours:
            fd = self._ours.pop()
            if fd >= 0:
                os.close(fd)
        self.control.close()

    async def abandon(self, patience: float) -> None:
        """End what this attempt may have started, and wait for the proof."""
        status = self.control.status
        self._close_theirs()
        try:
            if self._sent:  # in the middle of a request it would be taken for a part of it
                self.control.order(KILL)
            self.control.release()
            with anyio.CancelScope(shield=True):
                if not await self.control.within(patience / 2, lambda: status.clean is not None) and self._taken:
                    self._taken.abandon()  # the keeper is stopped, or waits for a file system to deliver the program
                    await self.control.within(patience / 2, lambda: status.clean is not None)
        finally:
            self.close()


def _after_fork() -> None:  # pragma: no cover - runs only in a fork of the harness, which a test starts
    for process in list(_live):
        process.forget()


with suppress(AttributeError):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
