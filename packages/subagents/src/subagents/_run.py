"""`Run`: the handle of one delegated task.  Holding it is owning the run; losing it cancels."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self, final

import anyio
import anyio.lowlevel

import subagent_process
from subagents import _host
from subagents._events import Event
from subagents._permission import Permission
from subagents._result import Failure, Result
from subagents._state import RunState, aborted
from subagents._task import Task, check_text
from subagents.errors import RunEnded, StartError, SubagentError, Unsupported

if TYPE_CHECKING:
    from subagents._provider import Provider


@final
class Run(AbstractAsyncContextManager["Run"]):
    """One run.  It exists, can be followed and can be cancelled before it is entered; it can be entered once.

    `async with provider.start(task) as run:` returns when the child has accepted the work, or raises `StartError`
    when it never will. Leaving stops it, and waits at most `Provider.leave_timeout` seconds for the proof that
    nothing is left; an exception of the body comes out as it is.  It may be entered in one task and left in another.
    """

    def __init__(self, provider: Provider, task: Task, permission: Permission) -> None:
        self.id = uuid.uuid4().hex
        self.provider = provider.name
        self.task = task
        self.permission = permission
        self._state = RunState(provider, task, self, subagent_process.depth() + 1)
        self._entered = False
        self._stopped: str | None = None  # cancelled before it was entered
        self._token: _host.Token | None = None  # of the loop that waits for it, or has entered it
        self._on_ended: list[Callable[[], object]] = []
        self._adopt()

    def _adopt(self) -> None:
        """Know the loop that has to be woken; say so when it is gone."""
        if not self._entered:
            self._token = _host.running() or self._token
        elif not self._state.ended.open and _host.gone(self._token):
            self._state.abandon("the event loop was closed")

    @property
    def leave_timeout(self) -> float:
        """Seconds that leaving waits at most, and that teardown may take after the verdict."""
        return self._state.provider.leave_timeout

    def __repr__(self) -> str:
        verdict = self._state.verdict
        state = verdict.stop_reason if verdict else "running" if self._entered else "not entered"
        return f"<Run {self.id} of {self.provider}: {state}>"

    def events(self) -> AsyncIterator[Event]:
        """All that is told from the start of what is kept; ends after the last event before the verdict.

        Any number of readers, at any time, also before the run is entered and after it has ended.  A slow reader
        stalls nobody: what fell out of the log (4 MiB, 16,384 events) before it came is one `notice` with code
        `lost`.
        """
        self._adopt()
        return self._state.log.reader()

    async def result(self) -> Result:
        """The verdict, as soon as it is known: before the child is gone.

        Never raises for anything that the child did.  Valid for ever; cancelling one waiter cancels nothing else.
        """
        self._adopt()
        await self._state.settled.wait()
        assert self._state.verdict is not None
        return self._state.verdict

    async def closed(self) -> Result:
        """The same verdict when nothing is left, with the process report and what came late in its evidence.

        A backend that ignores its end is given up on: `leave_timeout` seconds after the run was left, or twice that
        after the verdict where nobody leaves it; `evidence.left_behind` says so then.
        """
        self._adopt()
        state = self._state
        await state.settled.wait()
        await state.over(2 * state.provider.leave_timeout)
        if not state.gone.open:
            state.give_up()
        return state.final()

    async def send(self, text: str) -> None:
        """Say something to the child while it works.

        Raises:
            Unsupported: the provider does not take messages ("send" is not among its capabilities).
            RunEnded: the run has its verdict.
            TaskError: it is no text, empty, or cannot be written as UTF-8.
        """
        state = self._state
        if "send" not in state.provider.capabilities:
            raise Unsupported(f"{self.provider} does not take messages during a run")
        if state.verdict is not None:
            raise RunEnded(f"run {self.id} has ended as {state.verdict.stop_reason}: start a new one")
        check_text("a message", text, required=True)
        state.messages.put(text)
        await anyio.lowlevel.checkpoint()

    def when_ended(self, call: Callable[[], object]) -> None:
        """Have it called, in the loop, once `drive` has ended (now, if it has): nothing of the run is left then.

        It must not raise, and is kept by the handle: one that is dropped calls nobody.
        """
        if self._state.ended.open:
            call()
        else:
            self._on_ended.append(call)

    def tell_ended(self) -> None:
        """For the seam alone: call what waits for the end."""
        for call in self._on_ended:
            call()

    def cancel(self, reason: str = "") -> None:
        """Stop it: the verdict is `aborted` at once, and nothing of it stays.

        Synchronous, idempotent, from any thread and at any moment; without effect on a verdict that is there already.
        """
        # No lock: a signal handler may come here while this thread is here already.  The order is what counts.  Who
        # waits sets the token and then looks at the verdict; here it is the other way round, so that one sees the
        # other.  And in a signal handler nobody is woken, only marked: see Gate.
        state = self._state
        self._stopped = self._stopped or reason or "cancelled"
        token = self._token
        if token is None or _host.running() is token:
            state.decide(aborted(reason))
        if token is None:
            state.never_began()
            token = self._token
        if token is not None and not _host.post(token, state.cancel, reason):
            state.abandon(reason)

    async def __aenter__(self) -> Self:
        """Start, and wait until the child has accepted the work.

        Raises:
            StartError: it did not; nothing of it is left.
        """
        state = self._state
        if self._entered:
            raise SubagentError(f"run {self.id} was entered before: a run is entered once")
        self._token, self._entered = _host.current(), True
        if self._stopped is not None:
            state.cancel(self._stopped)
        elif refusal := self._refusal():
            state.settle(Result.error(refusal))
            state.end()
        else:
            weakref.finalize(self, _drop, self._token, state).atexit = False
            state.begin()
            try:
                await state.published.wait()
            except BaseException:
                state.cancel("entering was cancelled")
                await state.leave()
                raise
        verdict = state.verdict
        if verdict is not None and not state.accepted and verdict.failure is not None:
            await self._teardown()
            raise StartError(verdict.failure)
        return self

    async def _teardown(self) -> None:
        """Leave it, but give the backend's own teardown its time: leaving at once would cut it short."""
        bound = self._state.provider.leave_timeout
        end = anyio.current_time() + bound
        try:
            await self._state.over(bound)
        finally:
            await self._state.leave(max(end - anyio.current_time(), bound / 4))

    async def see_through(self) -> Result:
        """For the seam alone: the closed result of an entered run, which is left; also when the caller is cancelled."""
        try:
            await self.result()
        except BaseException:
            await self._state.leave()
            raise
        await self._teardown()
        return await self.closed()

    async def leave(self, bound: float) -> None:
        """For the seam alone: leave it, waiting at most so many seconds."""
        await self._state.leave(bound)

    def _refusal(self) -> Failure | None:
        depth, most = self._state.depth, self._state.provider.max_depth
        if depth <= most:
            return None
        why = (
            f"this program is itself a delegated agent (SUBAGENT_DEPTH={depth - 1}), and {self.provider} may be "
            f"delegated to at most {most} level{'s' * (most != 1)} deep: do the work here, or raise its max_depth"
        )
        return Failure("policy", "start", why)

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._state.leave()


def _drop(token: _host.Token, state: RunState) -> None:
    """The handle was lost.  In whatever thread the garbage is collected."""
    if not _host.post(token, state.cancel, "the handle was dropped"):
        state.abandon("the handle was dropped")
