"""Run a short command to its end: version, sign-in status, a git question."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import anyio
from anyio.abc import ByteReceiveStream

from ._pipes import PipeReader
from .errors import CommandTimeout, ProcessLost
from .report import Ladder
from .spawn import open_without_stdin

__all__ = ["CompletedCommand", "run_command"]

_MEBIBYTE = 1024 * 1024
_LAST_WORDS = 0.5  # s for what the pipes still hold after the exit
_LADDER = Ladder(eof=0, term=0.5, kill=8)


@dataclass(frozen=True)
class CompletedCommand:
    """How a command ended and what it wrote.

    Attributes:
        exit: its status; ``-N``: signal N ended it.
        stdout: what it wrote, cut at the limit.
        stderr: likewise.
        truncated: one of them was cut.
    """

    exit: int
    stdout: bytes
    stderr: bytes
    truncated: bool


class _Collected:
    """One stream: kept up to the limit, drained beyond it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._room = limit
        self.truncated = False

    async def collect(self, stream: ByteReceiveStream) -> None:
        try:
            while True:
                self.take(await stream.receive())
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return

    def take(self, data: bytes) -> None:
        if len(data) > self._room:
            self.truncated = True
        self._parts.append(data[: self._room])
        self._room -= len(self._parts[-1])

    @property
    def data(self) -> bytes:
        return b"".join(self._parts)


async def run_command(
    argv: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str],
    cwd: str | os.PathLike[str] | None = None,
    timeout: float,
    limit: int = _MEBIBYTE,
) -> CompletedCommand:
    """Run a command to its end, with the null device as its stdin, and return what it wrote.

    It ends at the command's exit and not at the end of its pipes; whatever it left running is killed.  Nothing is
    left either when the call is cancelled.  A status other than 0 is no error.

    Args:
        argv: the program and its arguments.
        env: the whole environment.
        cwd: the working directory.
        timeout: seconds for all of it, the start included.
        limit: bytes kept of each of stdout and stderr; the rest is read and thrown away.

    Raises:
        CommandTimeout: it did not end in time; what it wrote is in the error.
        SpawnError: it could not be started.
        ProcessLost: its supervisors were killed.
    """
    out, err = _Collected(limit), _Collected(limit)
    code: int | None = None
    lost: ProcessLost | None = None
    with anyio.move_on_after(timeout):
        async with await open_without_stdin(argv, env=env, cwd=cwd, ladder=_LADDER) as process:
            streams = ((out, cast("PipeReader", process.stdout)), (err, cast("PipeReader", process.stderr)))
            async with anyio.create_task_group() as readers:
                for collected, stream in streams:
                    readers.start_soon(collected.collect, stream)
                try:
                    code = await process.wait()
                except ProcessLost as error:  # out of the task group it would come as a group
                    lost = error
                readers.cancel_scope.deadline = anyio.current_time() + _LAST_WORDS
            for collected, stream in streams:  # on a busy machine the time may have passed before anybody read
                for data in stream.left():
                    collected.take(data)
    if lost:
        raise lost
    if code is None:
        raise CommandTimeout(os.fspath(argv[0]), timeout, out.data, err.data)
    return CompletedCommand(code, out.data, err.data, out.truncated or err.truncated)
