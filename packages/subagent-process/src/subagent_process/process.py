"""One owned child: spoken to, waited for, and ended with everything that it started."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from ._control import Control
from ._launcher import Taken
from ._pipes import PipeReader, PipeWriter
from ._supervisor.protocol import KILL, TERM
from .errors import ProcessLost
from .lines import LIMIT, Messages
from .report import Ladder, ShutdownReport

__all__ = ["OwnedProcess"]

_HOME = 5.0  # s that a shutdown waits to hear that the home was removed


class OwnedProcess:
    """A child whose whole tree ends with it.

    Made by ``open_process``; an async context manager that ends with ``aclose``.

    Holding it is owning it.  When the last reference goes, when the loop of ``asyncio.run``, ``trio.run`` or
    ``anyio.run`` ends, and when the harness dies of anything, SIGKILL included, the supervisors end the tree:
    SIGTERM, ``ladder.term`` seconds, SIGKILL.  When the leader exits by itself, what it left behind is killed at
    once.

    It belongs to the event loop in which it was opened.  ``terminate``, ``kill`` and ``release`` may be called from
    any thread.
    """

    def __init__(
        self,
        name: str,
        control: Control,
        pipes: tuple[PipeWriter, PipeReader, PipeReader],
        ladder: Ladder,
        taken: Taken,
        home: bool,
    ) -> None:
        """For ``open_process`` alone."""
        self._name, self._control, self._ladder, self._taken, self._home = name, control, ladder, taken, home
        self._stdin, self._stdout, self._stderr = pipes
        self._sending, self._closing = anyio.Lock(), anyio.Lock()
        self._unsent = memoryview(b"")
        self._steps: list[str] = []
        self._released = False
        self._report: ShutdownReport | None = None

    def __repr__(self) -> str:
        """Name, pid and state; never an argument."""
        state = "running" if self.returncode is None else f"exit {self.returncode}"
        return f"<OwnedProcess {self._name} pid={self.pid} {state}>"

    @property
    def name(self) -> str:
        """The program as it was given, for messages."""
        return self._name

    @property
    def pid(self) -> int:
        """Of the leader, which leads a session and a process group of its own."""
        return self._control.status.pid or 0

    @property
    def returncode(self) -> int | None:
        """The leader's exit as far as it was reported to ``wait`` or ``aclose``; ``-N``: signal N ended it."""
        return self._control.status.exit

    @property
    def stdin(self) -> ByteSendStream:
        """The pipe to the child, for one writer at a time; ``send_line`` takes turns by itself."""
        return self._stdin

    @property
    def stdout(self) -> ByteReceiveStream:
        """The pipe from the child, for one reader at a time.  Read it to the end, or the child stalls at 64 KiB."""
        return self._stdout

    @property
    def stderr(self) -> ByteReceiveStream:
        """Like stdout; ``StderrTail`` reads it and keeps the end."""
        return self._stderr

    @property
    def report(self) -> ShutdownReport | None:
        """What the shutdown did; None before it."""
        return self._report

    async def wait(self) -> int:
        """The exit status of the leader; ``-N``: signal N ended it.  Any number of tasks may wait.

        Never waits for a pipe: a grandchild can hold one open for ever.  Cancelling changes nothing.

        Raises:
            ProcessLost: the child's supervisors were killed before they could report; its tree is being ended.
        """
        status = self._control.status
        await self._control.until(lambda: status.over)
        if status.exit is None:
            raise ProcessLost(self._name, status.pid)
        return status.exit

    async def send_line(self, message: Mapping[str, object] | bytes) -> None:
        r"""Write one line to stdin: ``b'{"method":"x","id":1}\n'``.

        Lines of several tasks never mix.  A cancelled call has either sent nothing, or the rest of its line goes out
        in front of the next one.  JSON is pure ASCII, because some readers break lines at U+2028 and U+0085.

        Args:
            message: a JSON object, or the bytes of a line without its end.

        Raises:
            ValueError: bytes with a line end in them; NaN or infinity in a message.
            TypeError: a value that JSON has no form for.
            anyio.BrokenResourceError: the child has closed its stdin, or has ended.
            anyio.ClosedResourceError: our end is closed.
        """
        if isinstance(message, bytes):
            line = message
            if b"\n" in line:
                raise ValueError("send_line sends one line; this holds a line end.")
        else:
            line = json.dumps(dict(message), separators=(",", ":"), allow_nan=False).encode("ascii")
        async with self._sending:
            await self._flush()
            rest = memoryview(line + b"\n")
            rest = rest[await self._stdin.send_some(rest) :]
            self._unsent = rest
            await self._flush()

    async def _flush(self) -> None:
        while self._unsent:
            self._unsent = self._unsent[await self._stdin.send_some(self._unsent) :]

    def messages(self, *, limit: int = LIMIT) -> Messages:
        """The JSON objects that the child writes to stdout, one a line; ends at the end of the pipe.

        Args:
            limit: bytes of one line; a longer one raises LineTooLong, and iterating again goes on behind it.
        """
        return Messages(self._stdout, limit=limit)

    def terminate(self) -> None:
        """Order SIGTERM, and SIGCONT so that a stopped tree hears it, to the leader's group.

        Does not wait; no effect after the end.
        """
        self._control.order(TERM)

    def kill(self) -> None:
        """Order SIGKILL to the leader's group; everything else of the tree follows.

        Does not wait; no effect after the end.
        """
        self._control.order(KILL)

    def release(self) -> None:
        """Let go, as if the harness had died: the supervisors end the tree.  Synchronous, idempotent, from any thread.

        The last resort where nothing can be awaited; ``aclose`` afterwards still waits for the proof.
        """
        self._released = True
        self._control.release()

    async def aclose(self) -> ShutdownReport:
        """End the child and everything that it started: end of stdin, SIGTERM, SIGKILL, with a grace for each.

        Supervisors that do not answer are themselves killed or gone round. Takes at most the sum of the graces (and 5
        s more where a home is to be removed).  Shielded from anyio's cancellation; a raw ``task.cancel()`` cuts it
        short, and the supervisors then go on by themselves: nothing survives either way. Pipes that nobody reads are
        drained meanwhile.  Idempotent; a second caller waits for the first.
        """
        with anyio.CancelScope(shield=True):
            async with self._closing:
                if self._report is None:
                    begun = time.monotonic()
                    try:
                        await self._shut_down()
                    finally:
                        self._conclude(time.monotonic() - begun)
        assert self._report is not None
        return self._report

    async def _shut_down(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._stdout.drain)
            tasks.start_soon(self._stderr.drain)
            await self._climb()
            tasks.cancel_scope.cancel()

    async def _climb(self) -> None:
        control, status, ladder = self._control, self._control.status, self._ladder
        control.poll()
        patience = ladder.kill / 2
        if self._released:
            patience += ladder.term  # which the keeper allows before it kills
        elif not status.over:
            self._steps.append("eof")
            self._stdin.close()
            if not await control.within(ladder.eof, lambda: status.over):
                self._steps.append("term")
                self.terminate()
                if not await control.within(ladder.term, lambda: status.over):
                    self._steps.append("kill")
                    self.kill()
        if not await control.within(patience, lambda: status.clean is not None):
            self._steps.append("warden")
            self._taken.abandon()
            if not await control.within(ladder.kill / 2, lambda: status.clean is not None):
                self._steps.append("leaked")
                return
        if status.clean is None:  # keeper and warden are both dead: only the guard can say
            status.lost = status.exit is None
            status.clean = await self._taken.guard.proof(ladder.kill)
        elif self._home and not status.lost:
            await control.within(_HOME, lambda: status.home_removed is not None)

    def _conclude(self, duration: float) -> None:
        """Synchronous, for a raw cancellation ends here too."""
        status = self._control.status
        self._control.close()
        for pipe in (self._stdin, self._stdout, self._stderr):
            pipe.close()
        self._report = ShutdownReport(
            steps=tuple(self._steps),
            exit=status.exit,
            clean=status.clean,
            killed=status.killed,
            survivors=status.survivors,
            lost=status.lost,
            home_removed=status.home_removed,
            duration=duration,
            missing=status.missing,
        )

    def forget(self) -> None:  # pragma: no cover - runs only in a fork of the harness, which a test starts
        """In a fork of the harness: close the copies of the descriptors, without ending the parent's child."""
        self._control.forget()
        for pipe in (self._stdin, self._stdout, self._stderr):
            pipe.forget()

    async def __aenter__(self) -> Self:
        """Nothing happens here: it runs already."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """``aclose``."""
        await self.aclose()
