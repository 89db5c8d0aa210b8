"""One run from the inside: the task that owns it, its verdict, its clocks.

`RunState` is what the owning task and the backend hold; the caller holds a `Run`, and losing that cancels this.  All
methods belong to the run's event loop.
"""

from __future__ import annotations

import inspect
import logging
import time
import traceback
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio

from subagent_process import ShutdownReport, redact
from subagents import _host
from subagents._events import Event, PermissionEvent, StartedEvent, ToolEvent
from subagents._link import Inbox, Link
from subagents._log import EventLog
from subagents._permission import Choice, Permission, PermissionRequest, choose, rejected
from subagents._result import Evidence, Failure, Result
from subagents._task import Task
from subagents._verdict import failure_of, judge, leaves, unfinished
from subagents.errors import StartError

if TYPE_CHECKING:
    from subagents._provider import Provider

_EDITS: Final = frozenset({"edit", "delete", "move"})


class RunState(Link):
    """The state of one run, and the `Link` that its backend sees."""

    def __init__(self, provider: Provider, task: Task, permission: Permission, run_id: str, depth: int) -> None:
        self.provider, self.task, self.permission, self.id = provider, task, permission, run_id
        self.log, self.messages = EventLog(), Inbox()
        self.logger = logging.getLogger(f"subagents.{provider.name}")
        self.verdict: Result | None = None
        self.accepted = False  # the child has taken the work, or there is a verdict that says it did
        self.published = anyio.Event()  # entering may return
        self.settled = anyio.Event()  # there is a verdict
        self.ended = anyio.Event()  # drive has ended: nothing is left
        self.gone = anyio.Event()  # ended, or given up on
        self.on_ended: list[Callable[[], object]] = []
        self._depth = depth
        self._scope: anyio.CancelScope | None = None
        self._clock_scope: anyio.CancelScope | None = None
        self._began = time.monotonic()
        self._touched = self._began
        self._asking = 0
        self._edits = 0
        self._notes: list[str] = []
        self._left_behind = False
        self._report: ShutdownReport | None = None
        self._session: str | None = None
        self._model: str | None = None
        self._started_at: float | None = None

    # -- the backend's side ------------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        return self._depth

    @property
    def inbox(self) -> AsyncIterator[str]:
        return self.messages

    def ready(self, *, session: str | None = None, model: str | None = None) -> None:
        self._session, self._model = session or self._session, model or self._model
        if not self.accepted and self.verdict is None:
            self.accepted = True
            self.emit(StartedEvent(session, model))
            self.published.set()

    def emit(self, event: Event) -> None:
        self._touched = time.monotonic()
        if isinstance(event, ToolEvent) and event.status == "completed" and event.kind in _EDITS:
            self._edits += 1
        self.log.put(event)

    async def ask(self, request: PermissionRequest) -> Choice:
        self.emit(PermissionEvent(request))
        self._asking += 1
        try:
            choice = await self._answer(request)
        finally:
            self._asking -= 1
            self._touched = time.monotonic()
        self.emit(PermissionEvent(request, choice))
        return choice

    async def _answer(self, request: PermissionRequest) -> Choice:
        if not callable(self.permission):
            return choose(request, self.permission)
        try:
            with anyio.fail_after(self.provider.ask_timeout):
                answer: object = self.permission(request)
                if inspect.isawaitable(answer):
                    answer = await answer
        except TimeoutError:
            return rejected(request, f"no answer within {self.provider.ask_timeout:g} s")
        except Exception as exc:  # noqa: BLE001  # the caller's code: whatever it raises is a rejection
            self._say(logging.ERROR, "the permission callback failed", exc)
            return rejected(request, "the permission callback failed")
        return choose(request, answer)

    def finish(self, result: Result) -> None:
        if self.verdict is None:
            self.accepted = self.accepted or result.stop_reason != "error"
            self.settle(judge(result, self.task.output_schema, self._edits))

    def report(self, report: ShutdownReport) -> None:
        self._report = report

    # -- the seam's side ---------------------------------------------------------------------------------------------

    def settle(self, result: Result) -> None:
        """The verdict; the first one counts.  A backend that lingers after it is cancelled after `leave_timeout`."""
        if self.verdict is not None:
            return
        self.verdict = replace(
            result,
            session=result.session or self._session,
            model=result.model or self._model,
            started_at=self._started_at,
            duration=time.monotonic() - self._began,
            evidence=self._evidence(result.evidence),
        )
        self.log.close()
        self.messages.close()
        self.settled.set()
        self.published.set()
        if self._scope is not None:
            self._scope.deadline = min(self._scope.deadline, _host.now() + self.provider.leave_timeout)

    def _evidence(self, found: Evidence) -> Evidence:
        return replace(
            found,
            edits=self._edits,
            events_lost=self.log.lost,
            events_late=self.log.late,
            process=self._report or found.process,
            left_behind=self._left_behind,
            notes=(*found.notes, *self._notes),
        )

    def final(self) -> Result:
        """The verdict with what only the end can tell."""
        assert self.verdict is not None
        return replace(self.verdict, evidence=self._evidence(self.verdict.evidence))

    def cancel(self, reason: str, failure: Failure | None = None) -> None:
        """Stop: `aborted` at once, or the failure given; then the backend is cancelled."""
        if self.verdict is None:
            notes = Evidence(notes=(reason,) if reason else ())
            self.settle(Result.error(failure) if failure else Result("aborted", evidence=notes))
        if self._scope is not None:
            self._scope.cancel()

    def begin(self) -> None:
        """Start the owning task, and the clock where the task has limits."""
        self._began = self._touched = time.monotonic()
        self._started_at = time.time()
        _host.spawn(self._own, f"subagents {self.provider.name} {self.id}")
        if self.task.deadline is not None or self.task.idle_limit is not None:
            self._clock_scope = anyio.CancelScope()
            _host.spawn(lambda scope=self._clock_scope: self._clock(scope), f"subagents clock {self.id}")

    async def _own(self) -> None:
        try:
            with anyio.CancelScope() as self._scope:
                if self.verdict is not None:  # cancelled between entering and this first step
                    return
                await self.provider.drive(self.task, self)
        except BaseException as exc:  # everything is accounted for: most become the verdict, and some must also go on
            if self._outside(exc):
                self.settle(Result("aborted", evidence=Evidence(notes=("the event loop ended",))))
                raise
            self._raised(exc)
        finally:
            self.settle(unfinished(self._report.exit if self._report else None))
            if self._clock_scope is not None:
                self._clock_scope.cancel()
            self.end()

    def end(self) -> None:
        """Nothing is left of it, or nothing ever was."""
        self.ended.set()
        self.gone.set()
        for call in self.on_ended:
            call()

    def _outside(self, exc: BaseException) -> bool:
        if isinstance(exc, GeneratorExit):  # the loop was closed over us: there is no loop to ask any more
            return True
        if isinstance(exc, KeyboardInterrupt | SystemExit):
            return _host.is_asyncio(_host.current())  # trio's main task gets it by itself
        return _host.cancelled_from_outside(exc)

    def _raised(self, exc: BaseException) -> None:
        if self.verdict is None:
            if not any(isinstance(leaf, StartError) for leaf in leaves(exc)):
                self._say(logging.ERROR, "drive failed", exc)
            self.settle(Result.error(failure_of(exc, "run" if self.accepted else "start")))
        else:
            self._notes.append(redact(f"after the verdict: {leaves(exc)[0]!r}"))
            self._say(logging.WARNING, "drive failed after the verdict", exc)

    def _say(self, level: int, what: str, exc: BaseException) -> None:
        for leaf in leaves(exc):
            self.logger.log(level, "%s: %s", what, redact("".join(traceback.format_exception(leaf))))

    async def _clock(self, scope: anyio.CancelScope) -> None:
        deadline, idle = self.task.deadline or float("inf"), self.task.idle_limit or float("inf")
        with scope:
            while self.verdict is None:
                now = time.monotonic()
                if self._asking:
                    self._touched = now
                left = min(self._began + deadline, self._touched + idle) - now
                if left > 0:
                    await anyio.sleep(min(left, idle / 4 if self._asking else left))
                    continue
                what = f"deadline of {deadline:g} s" if now >= self._began + deadline else f"no event for {idle:g} s"
                stage = "run" if self.accepted else "start"
                self.cancel(what, Failure("timeout", stage, what, retryable=True))

    async def leave(self) -> None:
        """Stop, and wait at most `leave_timeout` for the proof that nothing is left.

        A cancellation is raised afterwards.
        """
        self.cancel("the context of the run was left")
        try:
            await _host.until(self.ended, self.provider.leave_timeout)
        finally:
            if not self.ended.is_set():
                self._left_behind = True
                self.gone.set()
                self.logger.error("run %s: drive ignores its cancellation and was left behind", self.id)
