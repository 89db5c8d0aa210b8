"""The seam: limits of time, context variables, and permission that goes wrong."""

from __future__ import annotations

import contextvars

import anyio

import subagents
from subagent_testing import scripted
from subagent_testing._promise import expect, expect_equal
from subagent_testing.scripted import Scripted
from subagents import (
    Choice,
    Link,
    PermissionOption,
    PermissionRequest,
    Result,
    StartError,
    Task,
    TextEvent,
)

_SPAN: contextvars.ContextVar[str] = contextvars.ContextVar("subagent_testing.span")


def _is_timeout(result: Result, words: str) -> None:
    told = f"{result.failure.kind}: {result.failure.message}" if result.failure else result.stop_reason
    expect(told.startswith("timeout: ") and words in told, f"it ended as {told}")


async def a_deadline_covers_start_up() -> None:
    """`deadline` counts from entering: a child that never accepts is a `StartError` of kind `timeout`."""
    provider = Scripted(scripted.never_ready())
    try:
        async with provider.start("x", changes=False, deadline=0.05):
            expect(False, "entering returned")
    except StartError as exc:
        expect_equal((exc.failure.kind, exc.failure.stage), ("timeout", "start"), "kind and stage")
        expect_equal(provider.ended, 1, "how often drive has ended")


async def silence_is_a_timeout() -> None:
    """`idle_limit` ends a run that tells nothing for so long; a run that keeps telling goes on."""
    _is_timeout(await subagents.run(Scripted(scripted.lasts()), "x", changes=False, idle_limit=0.05), "no event")

    async def talks(task: Task, link: Link) -> None:
        link.ready()
        for i in range(6):
            await anyio.sleep(0.25)
            link.emit(TextEvent(str(i), str(i)))
        link.finish(Result.completed("done"))

    result = await subagents.run(Scripted(talks), "x", changes=False, idle_limit=1.0)
    expect(result.ok, f"a run of 1.5 s that told something every 0.25 s ended as {result.failure}")


async def time_stands_still_while_a_person_is_asked() -> None:
    """`idle_limit` does not count while a permission callback is waiting."""

    async def slow(request: PermissionRequest) -> Choice:
        await anyio.sleep(0.4)
        return Choice("allow_once")

    result = await subagents.run(Scripted(scripted.asks()), "x", changes=False, permission=slow, idle_limit=0.1)
    expect(result.ok, f"while a person was asked, it ended as {result.failure}")


async def context_variables_reach_drive() -> None:
    """Context variables of the task that enters the run reach `drive`; what `drive` sets stays in it."""
    token = _SPAN.set("span-1")
    try:
        run = Scripted(scripted.tells_context(_SPAN)).start("x", changes=False)
        _SPAN.set("span-2")  # of the entering, not of the making
        async with run:
            expect_equal((await run.result()).output, "span-2", "what drive saw")
    finally:
        _SPAN.reset(token)


async def an_answer_that_takes_too_long_is_a_rejection() -> None:
    """A callback that does not answer within `ask_timeout` is a rejection, and the run goes on."""

    async def never(request: PermissionRequest) -> Choice:
        return await anyio.sleep_forever() or Choice("allow_once")

    result = await subagents.run(Scripted(scripted.asks(), ask_timeout=0.05), "x", changes=False, permission=never)
    expect_equal(result.output, "reject_once", "what the child was told")


async def an_answer_never_grants_more_than_was_offered() -> None:
    """Every answer becomes something that was offered, and everything else a rejection."""
    always = (PermissionOption("allow_always", "a"), PermissionOption("reject_always", "r"))
    once = PermissionRequest("x").options
    table: tuple[tuple[object, tuple[PermissionOption, ...], str], ...] = (
        ("allow", once, "allow_once"),
        ("allow", always, "reject_always"),  # a standing permission is granted by name only
        ("allow_always", always, "allow_always"),
        ("allow_always", once, "reject_once"),
        (Choice("allow_once"), once, "allow_once"),
        (Choice("allow_always", "other"), always, "reject_always"),
        ("reject", once, "reject_once"),
        ("yes", once, "reject_once"),
        (True, once, "reject_once"),
        (None, once, "reject_once"),
        ("allow", (), "reject_once"),
    )
    for answer, options, told in table:
        provider = Scripted(scripted.asks(PermissionRequest("delete it", options=options)))
        # Not typed: what is answered is no choice, on purpose.
        result = await subagents.run(provider, "x", changes=False, permission=lambda _, answer=answer: answer)  # pyright: ignore[reportArgumentType, reportUnknownLambdaType]
        expect_equal(result.output, told, f"what the child was told for {answer!r} of {[o.kind for o in options]}")
