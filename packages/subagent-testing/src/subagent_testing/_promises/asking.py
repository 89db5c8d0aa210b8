"""Permission: the child asks, somebody answers, and whatever goes wrong with an answer is a rejection."""

from __future__ import annotations

import contextvars

import anyio

from subagent_testing._promise import Subject, expect, expect_equal
from subagent_testing._promises.working import closed_for_good
from subagents import Choice, PermissionEvent, PermissionRequest, Run

_CALLER: contextvars.ContextVar[str] = contextvars.ContextVar("subagent_testing.caller", default="nobody")


async def _choices(run: Run) -> list[Choice]:
    async with run:
        found = [e.choice async for e in run.events() if isinstance(e, PermissionEvent) and e.choice is not None]
        await run.result()
    expect(bool(found), "nobody was asked, and ask_task was given as one that asks")
    await closed_for_good(run)
    return found


async def nobody_to_ask_is_a_rejection(subject: Subject) -> None:
    """Without a `permission` every request is rejected, and followers see the request and the answer."""
    for choice in await _choices(subject.start("ask_task")):
        expect(not choice.allowed, f"nobody allowed it, and the child was told {choice.kind}")


async def a_callback_decides(subject: Subject) -> None:
    """A callback is asked with what was offered, and the child is told its answer."""
    asked: list[PermissionRequest] = []

    def answer(request: PermissionRequest) -> str:
        asked.append(request)
        return "allow"

    told = await _choices(subject.start("ask_task", permission=answer))  # pyright: ignore[reportArgumentType]
    expect_equal(len(told), len(asked), "answers that the child was told")
    for request, choice in zip(asked, told, strict=True):
        offered = any(o.kind == "allow_once" for o in request.options)
        expect_equal(choice.allowed, offered, f"allowed, with allow_once {'' if offered else 'not '}offered")


async def a_callback_that_fails_is_a_rejection(subject: Subject) -> None:
    """A callback that raises is a rejection, and the run goes on."""

    async def answer(request: PermissionRequest) -> Choice:
        raise RuntimeError("the window was closed")

    for choice in await _choices(subject.start("ask_task", permission=answer)):
        expect(not choice.allowed, f"the callback failed, and the child was told {choice.kind}")


async def cancelled_in_the_callback_it_is_aborted(subject: Subject) -> None:
    """The callback may cancel the run that asks it."""
    runs: list[Run] = []

    async def answer(request: PermissionRequest) -> str:
        runs[0].cancel("the person pressed stop")
        return await anyio.sleep_forever() or "allow"

    runs.append(subject.start("ask_task", permission=answer))  # pyright: ignore[reportArgumentType]
    async with runs[0] as run:
        expect_equal((await run.result()).stop_reason, "aborted", "the verdict")
    await closed_for_good(run)


async def context_variables_reach_the_callback(subject: Subject) -> None:
    """Context variables of the task that enters the run are there in the callback."""
    seen: list[str] = []

    def answer(request: PermissionRequest) -> str:
        seen.append(_CALLER.get())
        return "reject"

    token = _CALLER.set("span-1")
    try:
        await _choices(subject.start("ask_task", permission=answer))  # pyright: ignore[reportArgumentType]
    finally:
        _CALLER.reset(token)
    expect_equal(set(seen), {"span-1"}, "what the callback saw")
