"""A broken seam: mutants of what the seam keeps, whatever a backend does.

They reach into the seam and replace what is private there; their types would only repeat the originals'.
"""
# pyright: basic

from __future__ import annotations

import contextvars
from collections.abc import Callable
from dataclasses import fields, replace
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from provider_mutants import HELD, SUBJECT, Mutant

from subagent_testing import Subject
from subagents import Choice, Failure, Result, Task


def seam(where: str, mutate: Callable[[Any], Any], subject: Subject = SUBJECT) -> Mutant:
    """The seam with one thing replaced by what `mutate` makes of the original."""

    def patched(patch: pytest.MonkeyPatch) -> Subject:
        patch.setattr(f"subagents.{where}", mutate(resolve_name(f"subagents.{where}")))
        return subject

    return patched


def calls(*args: Any) -> Callable[[Any], Any]:
    """A function that does nothing but return what was given here."""
    return lambda _: lambda *_, **__: args[0] if args else None


def calls_async(*args: Any) -> Callable[[Any], Any]:
    async def instead(*_: Any, **__: Any) -> Any:
        return args[0] if args else None

    return lambda _: instead


def becomes(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


def with_its(name: str, value: object) -> Callable[[Any], Any]:
    """The method, called while an attribute of its object has another value."""

    def mutate(method: Any) -> Any:
        def mutant(self: Any, *args: Any, **kw: Any) -> Any:
            before = getattr(self, name)
            setattr(self, name, value)
            try:
                return method(self, *args, **kw)
            finally:
                if getattr(self, name) is value:
                    setattr(self, name, before)

        return mutant

    return mutate


def only_when(condition: Callable[[Any], object]) -> Callable[[Any], Any]:
    """The method, without effect unless its object is so."""
    return lambda method: lambda self, *args: method(self, *args) if condition(self) else None


def naive_wait(_: Any) -> Any:
    """What everybody writes first: a shield, which raw cancellation ignores."""

    async def until(gate: Any, bound: float) -> bool:
        with anyio.move_on_after(bound, shield=True):
            await gate.wait()
        return True

    return until


def waits_for_ever(_: Any) -> Any:
    async def leave(self: Any) -> None:
        self.cancel("left")
        await self.ended.wait()

    return leave


def wraps_exceptions(leave: Any) -> Any:
    async def mutant(self: Any, kind: Any, exc: BaseException | None, trace: Any) -> None:
        await leave(self, kind, exc, trace)
        if exc is not None:
            raise BaseExceptionGroup("in the run", [exc])

    return mutant


def in_a_scope_of_the_caller(patch: pytest.MonkeyPatch) -> Subject:
    enter, leave = resolve_name("subagents._run.Run.__aenter__"), resolve_name("subagents._run.Run.__aexit__")

    async def entering(self: Any) -> Any:
        HELD.append(anyio.CancelScope())
        HELD[-1].__enter__()
        return await enter(self)

    async def leaving(self: Any, *exc: Any) -> None:
        await leave(self, *exc)
        HELD.pop().__exit__(*exc)

    patch.setattr("subagents._run.Run.__aenter__", entering)
    patch.setattr("subagents._run.Run.__aexit__", leaving)
    return SUBJECT


def enters_again(enter: Any) -> Any:
    async def mutant(self: Any) -> Any:
        self._entered = False
        return await enter(self)

    return mutant


def stops_as_an_error(decide: Any) -> Any:
    stopped = Result.error(Failure("unknown", "run", "stopped"))
    return lambda self, result: decide(self, stopped if result.stop_reason == "aborted" else result)


def accepts(cancel: Any) -> Any:
    return lambda self, *args: (self.ready(), cancel(self, *args))


def takes_everything(_: Any) -> Any:
    async def send(self: Any, text: str) -> None:
        self._state.messages.put(text)
        await anyio.lowlevel.checkpoint()

    return send


def copies_the_verdict(result: Any) -> Any:
    async def mutant(self: Any) -> Result:
        return replace(await result(self))

    return mutant


def unbounded(patch: pytest.MonkeyPatch) -> Subject:
    patch.setattr("subagents._log.LOG_EVENTS", 10**9)
    patch.setattr("subagents._log.LOG_BYTES", 10**12)
    return SUBJECT


def asks_without_a_bound(_: Any) -> Any:
    async def mutant(self: Any, request: Any) -> Choice:
        return await self._run().permission(request)

    return mutant


def the_clock_goes_on(_: Any) -> Any:
    async def mutant(self: Any, request: Any) -> Choice:
        return await self._answer(request)

    return mutant


def from_the_newest(start: Any) -> Any:
    def mutant(self: Any, log: Any) -> None:
        start(self, log)
        self._at = log.seen

    return mutant


NO_VERDICT = seam(
    "_state.RunState.decide",
    lambda decide: lambda self, result: decide(self, result) if result.stop_reason != "aborted" else None,
)
AS_AN_ERROR = seam("_state.RunState.decide", stops_as_an_error)
NO_CLOCK = seam("_state.RunState._clock", calls_async())
NO_CONTEXT = seam("_host.spawn", lambda spawn: lambda body, name: contextvars.Context().run(spawn, body, name))
NO_GROUPS = seam("_state.failure_of", lambda of: lambda exc, stage: Failure("unknown", "start", f"{exc}"))
NOT_LEFT = seam("_state.RunState.leave", calls_async())
NAIVE = seam("_host.until", naive_wait)
OVERRULED = seam("_state.RunState.verdict", becomes(property(lambda state: (state._verdicts or [None])[-1])))
ANY_FIELD = seam(
    "_provider.prepare",
    lambda prepare: lambda task, more, _, name: prepare(task, more, {f.name for f in fields(Task)}, name),
)
ACCEPTED_ANYWAY = seam("_state.RunState._raised", lambda _: lambda self, exc: self.ready())
ALLOWED = Choice("allow_once")

SEAM_MUTANTS: dict[str, tuple[Mutant, str]] = {
    # what a provider says about itself
    "what-it-cannot-do-is-refused-by-name": (ANY_FIELD, "was accepted"),
    "messages-are-refused-unless-it-can-send": (seam("_run.Run.send", calls_async()), "a message was accepted"),
    # a task that completes
    "the-verdict-does-not-change": (seam("_run.Run.result", copies_the_verdict), "different verdicts"),
    # the way in
    "cancelled-before-entering-it-starts-nothing": (
        seam("_run.Run.cancel", only_when(lambda run: run._entered)),
        "'completed' where 'aborted'",
    ),
    "cancelled-while-entering-it-is-aborted": (AS_AN_ERROR, "StartError"),
    "raw-cancels-while-entering-leave-nothing": (NAIVE, "let go before"),
    # every way to stop
    "cancelled-it-is-aborted": (AS_AN_ERROR, "'error' where 'aborted'"),
    "cancelled-from-a-thread-it-is-aborted": (seam("_host.post", calls(True)), "too long"),
    "cancelled-twice-or-after-the-end-nothing-changes": (OVERRULED, "the verdict"),
    "leaving-stops-it": (NOT_LEFT, "left before the backend had ended"),
    "an-exception-of-the-body-comes-out-as-it-is": (seam("_run.Run.__aexit__", wraps_exceptions), "in the run"),
    "a-dropped-handle-stops-it": (
        seam("_run.weakref", becomes(SimpleNamespace(finalize=lambda *_: SimpleNamespace()))),
        "too long",
    ),
    "it-may-be-left-in-another-task": (in_a_scope_of_the_caller, "cancel scope"),
    "raw-cancels-leave-nothing": (NAIVE, "let go before"),
    "a-deadline-is-a-timeout": (NO_CLOCK, "too long"),
    # permission
    "nobody-to-ask-is-a-rejection": (seam("_state.choose", calls(ALLOWED)), "told allow_once"),
    "a-callback-decides": (seam("_state.RunState._answer", calls_async(ALLOWED)), "answers that the child was told"),
    "a-callback-that-fails-is-a-rejection": (seam("_state.rejected", calls(ALLOWED)), "told allow_once"),
    "cancelled-in-the-callback-it-is-aborted": (AS_AN_ERROR, "'error' where 'aborted'"),
    "context-variables-reach-the-callback": (NO_CONTEXT, "{'nobody'} where {'span-1'}"),
    # bursts
    "a-reader-that-sleeps-is-bounded-and-told": (unbounded, "events are kept"),
    # the seam: entering
    "a-start-error-comes-after-the-clean-up": (NO_GROUPS, "the failure"),
    "any-exception-before-ready-is-a-start-error": (
        seam("_state.RunState._raised", with_its("accepted", True)),
        "the stage",
    ),
    "a-verdict-without-ready-is-published": (
        seam("_state.RunState.finish", only_when(lambda state: state.accepted)),
        "StartError",
    ),
    "start-up-can-be-followed": (seam("_state.RunState.emit", only_when(lambda state: state.accepted)), "too long"),
    "cancelled-before-entering-drive-is-never-called": (
        seam("_run.Run.cancel", only_when(lambda run: run._entered)),
        "too long",
    ),
    "a-run-is-entered-once": (seam("_run.Run.__aenter__", enters_again), "entered twice"),
    "a-delegates-delegate-is-refused": (seam("_run.Run._refusal", calls()), "entering returned"),
    "each-field-is-refused-without-and-reaches-drive-with-its-capability": (ANY_FIELD, "was accepted with"),
    # the seam: the verdict
    "a-verdict-is-there-while-teardown-is-held": (
        seam("_state.RunState.finish", calls()),
        "too long",
    ),
    "the-first-verdict-counts": (OVERRULED, "the answer"),
    "no-verdict-is-an-error-of-kind-exit": (
        seam("_state.unfinished", calls(Result.completed("well"))),
        "ended as completed",
    ),
    "an-exception-is-an-error": (NO_GROUPS, "kind and stage"),
    "a-stray-cancelled-error-is-an-error": (
        seam("_host.being_cancelled", calls(True)),
        "ended as aborted",
    ),
    "completed-needs-something-to-show": (
        seam("_state.judge", lambda _: lambda result, *_: result),
        "ended as completed",
    ),
    "a-structured-answer-is-validated": (seam("_state.judge", lambda _: lambda result, *_: result), "the value"),
    "messages-arrive-in-order-until-the-verdict": (
        seam("_link.Inbox.put", calls()),
        "too long",
    ),
    # the seam: stopping
    "aborted-at-once-while-teardown-is-held": (NO_VERDICT, "too long"),
    "a-swallowed-cancellation-stays-aborted": (NO_VERDICT, "'completed' where 'aborted'"),
    "a-drive-that-never-ends-cannot-hold-the-caller": (seam("_state.RunState.leave", waits_for_ever), "too long"),
    "a-teardown-that-never-ends-is-cancelled": (
        seam("_state.RunState.settle", with_its("_scope", None)),
        "left behind",
    ),
    "an-exception-in-teardown-stays-aborted": (
        seam("_state.RunState._raised", lambda raised: lambda self, exc: (self._verdicts.clear(), raised(self, exc))),
        "'error' where 'aborted'",
    ),
    "raw-cancels-do-not-cut-teardown-short": (NAIVE, "let go before"),
    # the seam: the log
    "every-event-of-a-burst-reaches-a-reader-that-keeps-up": (seam("_log.LOG_EVENTS", becomes(100)), "events told"),
    "what-a-sleeping-reader-missed-is-counted-to-the-event": (unbounded, "events lost"),
    "two-readers-get-the-same-text-and-nothing-twice": (
        seam("_log.EventLog._merge", with_its("seen", -1)),
        "the text",
    ),
    "nothing-is-told-after-the-verdict": (
        seam("_log.EventLog.put", with_its("closed", False)),
        "events that came late",
    ),
    "a-reader-begins-at-the-beginning": (seam("_log.EventReader.__init__", from_the_newest), "told: [] where"),
    "one-huge-event-is-told": (seam("_log._size", lambda _: lambda event: len(getattr(event, "text", ""))), "told"),
    # the seam: time, context, permission
    "a-deadline-covers-start-up": (NO_CLOCK, "too long"),
    "silence-is-a-timeout": (NO_CLOCK, "too long"),
    "time-stands-still-while-a-person-is-asked": (seam("_state.RunState.ask", the_clock_goes_on), "no event"),
    "context-variables-reach-drive": (NO_CONTEXT, "'unset' where 'span-2'"),
    "an-answer-that-takes-too-long-is-a-rejection": (
        seam("_state.RunState._answer", asks_without_a_bound),
        "too long",
    ),
    "an-answer-never-grants-more-than-was-offered": (
        seam("_state.choose", lambda _: lambda request, answer: Choice("allow_once")),
        "what the child was told",
    ),
}

MORE_SEAM_MUTANTS = [
    ("a-start-error-comes-after-the-clean-up", ACCEPTED_ANYWAY, "entering returned"),
    ("any-exception-before-ready-is-a-start-error", ACCEPTED_ANYWAY, "entering returned"),
    ("a-deadline-covers-start-up", seam("_state.RunState.cancel", accepts), "entering returned"),
    ("messages-arrive-in-order-until-the-verdict", seam("_run.Run.send", takes_everything), "after the verdict"),
]
"""A second way to break a promise that says more than one thing."""
