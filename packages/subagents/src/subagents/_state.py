"""One run from the inside: the task that owns it, its verdict, its clocks.

`RunState` is what the owning task and the backend hold; the caller holds a `Run`, and losing that cancels this. So
nothing here may lead back to the Run: the permission callback and what waits for the end are reached through it,
weakly. All methods belong to the run's event loop, but for `decide`, which any thread or signal handler may call.
"""

from __future__ import annotations

import inspect
import logging
import time
import traceback
import weakref
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio

from subagent_process import ShutdownReport, redact
from subagents import _host
from subagents._events import Event, PermissionEvent, StartedEvent, ToolEvent
from subagents._folder import Folder
from subagents._gate import Gate
from subagents._link import Inbox, Link
from subagents._log import EventLog
from subagents._permission import Choice, PermissionRequest, choose, rejected
from subagents._result import Evidence, Failure, Result
from subagents._task import Task
from subagents._verdict import failure_of, judge, leaves, told, unfinished
from subagents.errors import StartError

if TYPE_CHECKING:
    import asyncio

    from subagents._provider import Provider
    from subagents._run import Run

_EDITS: Final = frozenset({"edit", "delete", "move"})


def aborted(reason: str) -> Result:
    """The verdict of a run that was stopped."""
    return Result("aborted", evidence=Evidence(notes=(reason,) if reason else ()))


class RunState(Link):
    """The state of one run, and the `Link` that its backend sees."""

    def __init__(self, provider: Provider, task: Task, run: Run, depth: int) -> None:
        self.provider, self.task, self.id = provider, task, run.id
        self._run = weakref.ref(run)
        self.log, self.messages = EventLog(), Inbox()
        self.logger = logging.getLogger(f"subagents.{provider.name}")
        self.accepted = False  # the child has taken the work, or there is a verdict that says it did
        self.begun = False
        self.published = Gate()  # entering may return
        self.settled = Gate()  # there is a verdict
        self.driven = Gate()  # drive has ended: nothing is left
        self.ended = Gate()  # and what it did to its folder is known
        self.gone = Gate()  # ended, or given up on
        self._verdicts: list[Result] = []  # the first one counts; appending is the one step that nothing can split
        self._depth = depth
        self.folder = Folder(task, self.id[:8])
        self._owner: asyncio.Task[None] | None = None
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
        if self.verdict is not None:
            return rejected(request, "the run has ended")
        self.emit(PermissionEvent(request))
        self._asking += 1
        try:
            choice = await self._answer(request)
        finally:
            self._asking -= 1
            self._touched = time.monotonic()
        if self.verdict is not None:  # a callback may have cancelled the run, and then said yes
            choice = rejected(request, "the run has ended")
        self.emit(PermissionEvent(request, choice))
        return choice

    async def _answer(self, request: PermissionRequest) -> Choice:
        run = self._run()
        permission = run.permission if run is not None else "reject"
        if permission == "allow" and request.beyond:
            return rejected(request, "it goes beyond what the configuration allows: a callback may grant it")
        if not callable(permission):
            return choose(request, permission)
        del run  # the handle must not be held by who waits for its callback
        limit = self.provider.ask_timeout
        began = time.monotonic()
        answer: object = None
        try:
            with anyio.move_on_after(limit) as patience:
                answer = permission(request)
                if inspect.isawaitable(answer):
                    answer = await answer
            if patience.cancelled_caught or time.monotonic() - began > limit:
                return rejected(request, f"no answer within {limit:g} s")
            return choose(request, answer)  # inside: an answer may be an object whose comparison raises
        except BaseException as exc:
            if self._stopped(exc):
                raise
            self._say(logging.ERROR, "the permission callback failed", exc)
            return rejected(request, "the permission callback failed")

    def _stopped(self, exc: BaseException) -> bool:
        """Whether this ends the task, and is no failure of the callback (a dialog of its own that was cancelled is)."""
        if isinstance(exc, anyio.get_cancelled_exc_class()):
            return self._scope is None or self._scope.cancel_called or _host.being_cancelled()
        return not isinstance(exc, Exception)

    def finish(self, result: Result) -> None:
        if self.verdict is None:
            self.accepted = self.accepted or result.stop_reason != "error"
            self.settle(judge(result, self.task.output_schema, self._edits))

    def note(self, text: str) -> None:
        self._notes.append(redact(text))

    def report(self, report: ShutdownReport) -> None:
        self._report = report

    # -- the verdict -------------------------------------------------------------------------------------------------

    @property
    def verdict(self) -> Result | None:
        """The result as it stands, once there is one."""
        return self._verdicts[0] if self._verdicts else None

    def decide(self, result: Result) -> None:
        """Set the verdict if there is none, and wake nobody.  From any thread, also from a signal handler."""
        self._verdicts.append(
            replace(
                result,
                session=result.session or self._session,
                model=result.model or self._model,
                started_at=self._started_at,
                duration=time.monotonic() - self._began,
                evidence=self._evidence(result.evidence),
            )
        )
        self.log.closed = True
        self.settled.mark()
        self.published.mark()

    def settle(self, result: Result) -> None:
        """The verdict; the first one counts.  A backend that lingers after it is cancelled after `leave_timeout`."""
        if self.verdict is None:
            self.decide(result)
        self.log.close()
        self.messages.close()
        self.settled.wake()
        self.published.wake()
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
            # What the verdict holds already was taken from the same list.
            notes=(*found.notes, *(n for n in (*self._notes, *self.folder.notes) if n not in found.notes)),
        )

    def final(self) -> Result:
        """The verdict with what only the end can tell."""
        assert self.verdict is not None
        return replace(
            self.verdict,
            evidence=self._evidence(self.verdict.evidence),
            changes=self.folder.changes,
            worktree=self.folder.worktree,
        )

    def cancel(self, reason: str, failure: Failure | None = None) -> None:
        """Stop: `aborted` at once, or the failure given; then the backend is cancelled."""
        self.settle(Result.error(failure) if failure else aborted(reason))
        if self._scope is not None:
            self._scope.cancel()
        if not self.begun:
            self.end()

    def never_began(self) -> None:
        """It was stopped before it was entered, so that nothing of it is left.  From any thread: nobody is woken."""
        if not self.begun:
            self._mark_ended()

    def abandon(self, reason: str) -> None:
        """Its loop was closed over it: nothing can be waited for any more.

        Dropping the task finalizes what it owns.
        """
        self.decide(aborted(reason))
        self._left_behind = self._left_behind or not self.ended.open
        self._mark_ended()
        owner, self._owner = self._owner, None
        _host.forget(owner)

    def give_up(self) -> None:
        """The backend ignores its end: whoever waits for it need not any longer."""
        self._left_behind = True
        self.driven.set()
        self.gone.set()
        self.logger.error("run %s: drive ignores its cancellation and was left behind", self.id)

    # -- the owning task ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the owning task, and the clock where the task has limits."""
        self.begun = True
        self._began = self._touched = time.monotonic()
        self._started_at = time.time()
        self._owner = _host.spawn(self._own, f"subagents {self.provider.name} {self.id}")
        if self._owner is not None:
            self._owner.add_done_callback(self._over_anyhow)
        if self.task.deadline is not None or self.task.idle_limit is not None:
            self._clock_scope = anyio.CancelScope()
            _host.spawn(lambda scope=self._clock_scope: self._clock(scope), f"subagents clock {self.id}")

    async def _own(self) -> None:
        killed = False  # by what must not wait: the end of the loop, a second Ctrl-C
        try:
            with anyio.CancelScope() as self._scope:
                if self.verdict is not None:  # cancelled between entering and this first step
                    return
                await self.provider.drive(await self.folder.open(), self)
        except GeneratorExit:  # the loop was closed over us: there is no loop to ask any more
            self.abandon("the event loop was closed")
            raise
        except BaseException as exc:  # everything is accounted for: most become the verdict, and some must also go on
            self._raised(exc)
            if killed := self._goes_on(exc):
                raise
        finally:
            if not self.ended.open:
                self.settle(aborted("the event loop ended") if _host.being_cancelled() else self._unfinished())
                self.driven.set()
                try:
                    if not killed and not _host.being_cancelled():
                        await self._look()
                finally:
                    self.end()

    async def _look(self) -> None:
        """What the run did to its folder."""
        try:
            with anyio.move_on_after(self.folder.bound, shield=True) as patience:
                await self.folder.close(worked=self.accepted)
            if patience.cancelled_caught:
                self._notes.append(self.folder.untold(f"it took longer than {self.folder.bound:g} s"))
        except anyio.get_cancelled_exc_class():
            self._notes.append(self.folder.untold("it was broken off"))
            raise
        except Exception as exc:  # noqa: BLE001  # a fault of ours there must not cost the verdict
            self._notes.append(redact(self.folder.untold(told(leaves(exc)[0]))))
            self._say(logging.ERROR, "looking at the folder failed", exc)

    def _goes_on(self, exc: BaseException) -> bool:
        if isinstance(exc, KeyboardInterrupt | SystemExit):
            return _host.is_asyncio(_host.current())  # trio's main task gets it by itself
        return isinstance(exc, anyio.get_cancelled_exc_class()) and _host.being_cancelled()

    def _unfinished(self) -> Result:
        return unfinished(self._report.exit if self._report else None)

    def _raised(self, exc: BaseException) -> None:
        if _host.being_cancelled() and self.verdict is None:
            self.settle(aborted("the event loop ended"))
        elif self.verdict is None:
            failure = failure_of(exc, "run" if self.accepted else "start")
            if not any(isinstance(leaf, StartError) for leaf in leaves(exc)):
                self._say(logging.ERROR, "drive failed", exc)
            self.settle(Result.error(failure))
        elif not isinstance(exc, anyio.get_cancelled_exc_class()):
            self._notes.append(redact(f"after the verdict: {told(leaves(exc)[0])}"))
            self._say(logging.WARNING, "drive failed after the verdict", exc)

    def _say(self, level: int, what: str, exc: BaseException) -> None:
        try:
            for leaf in leaves(exc):
                self.logger.log(level, "%s: %s", what, redact("".join(traceback.format_exception(leaf))))
        except Exception:  # noqa: BLE001  # a filter or handler of somebody else's must not decide about the run
            self._notes.append(f"{what}, and the log could not be written")

    def end(self) -> None:
        """Nothing is left of it, or nothing ever was."""
        if self._clock_scope is not None:
            self._clock_scope.cancel()
        self._mark_ended()
        self.driven.wake()
        self.ended.wake()
        self.gone.wake()

    def _over_anyhow(self, owner: asyncio.Task[None]) -> None:
        """A task of asyncio that is cancelled before its first step never runs."""
        if not self.ended.open:
            self.settle(aborted("the event loop ended"))
            self.end()

    def _mark_ended(self) -> None:
        if not self.ended.open:
            self.driven.mark()
            self.ended.mark()
            self.gone.mark()
            if (run := self._run()) is not None:
                run.tell_ended()

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

    async def over(self, bound: float) -> None:
        """Wait until nothing is left, at most `bound` seconds for that and what the look at the folder takes."""
        with anyio.move_on_after(bound):
            await self.driven.wait()
        if self.driven.open:
            with anyio.move_on_after(self.folder.bound + 1):
                await self.gone.wait()

    async def leave(self, bound: float | None = None) -> None:
        """Stop, and wait for the proof that nothing is left, at most `leave_timeout` or `bound` seconds.

        Then for what it did to its folder, at most as long as that look may take. A cancellation is raised afterwards.
        """
        self.cancel("the context of the run was left")
        try:
            await _host.until(self.driven, self.provider.leave_timeout if bound is None else bound)
        finally:
            try:
                if self.driven.open:
                    await _host.until(self.ended, self.folder.bound + 1)
            finally:
                if not self.ended.open:
                    self.give_up()
