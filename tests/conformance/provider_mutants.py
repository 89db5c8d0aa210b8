"""Broken providers: mutants of what a provider keeps.  Their types are wrong on purpose here and there."""
# pyright: basic

from __future__ import annotations

import itertools
import os
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from subagent_testing import Scripted, Subject, scripted, seam_subject
from subagents import Event, Link, Model, NoticeEvent, Probe, Provider, Result, StartedEvent, Task

Mutant = Callable[[pytest.MonkeyPatch], Subject]

SUBJECT = seam_subject()

HELD: list[Any] = []
"""What mutants share or leak, until the test is over."""


def provider(make: Callable[[], Provider], **more: Any) -> Mutant:
    return lambda _: replace(SUBJECT, make=make, **more)


def playing(script: scripted.Script, **more: Any) -> Mutant:
    """Every task is this script."""
    return provider(lambda: Scripted(script, **more))


class Saying(Scripted):
    """A scripted provider with other words about itself."""

    def __init__(self, **words: Any) -> None:
        super().__init__(scripted.by_prompt(scripted.SCRIPTS))
        vars(self).update(words)


class Open(BaseModel):
    """Options that can be changed and that take anything."""


class Frozen(BaseModel, frozen=True):
    """Options that take anything."""


class Vague(Saying):
    async def _probe(self) -> Probe:
        return Probe(False)

    async def models(self) -> list[Model]:
        return [Model("small"), Model("small")]


class Eager(Saying):
    """It starts its child when it is made."""

    def __init__(self) -> None:
        super().__init__()
        HELD.append(subprocess.Popen(["sleep", "60"]))


def first(do: Callable[[Link], object]) -> scripted.Script:
    """Something on top of what the prompt asks for."""

    async def script(task: Task, link: Link) -> None:
        do(link)
        await scripted.by_prompt(scripted.SCRIPTS)(task, link)

    return script


def telling(event: Event) -> Mutant:
    return playing(first(lambda link: link.emit(event)))


async def finishes_after_teardown(task: Task, link: Link) -> None:
    link.ready()
    await anyio.sleep(1)
    link.finish(Result.completed("done"))


async def finishes_unannounced(task: Task, link: Link) -> None:
    link.finish(Result.completed("done"))


async def takes_longer_than_it_may(task: Task, link: Link) -> None:
    link.ready()
    with anyio.CancelScope(shield=True):
        await anyio.sleep(0.4)


async def all_for_one(task: Task, link: Link) -> None:
    """Two runs share something, and stopping one ends the others."""
    link.ready()
    with anyio.CancelScope() as scope:
        HELD.append(scope)
        try:
            if task.prompt == "lasts":
                await anyio.sleep_forever()
        finally:
            for other in HELD:
                other.cancel()
    link.finish(Result.completed("done"))


def a_thread() -> None:
    HELD.append(threading.Event())
    threading.Thread(target=HELD[-1].wait, name="forgotten").start()


def leaking(leak: Callable[[], object]) -> Mutant:
    return playing(first(lambda _: leak()))


LEFT_BEHIND = playing(takes_longer_than_it_may, leave_timeout=0.05)
NUMBERS = itertools.count()
RUDE = playing(scripted.bursts(60, polite=False))

PROVIDER_MUTANTS: dict[str, tuple[Mutant, str]] = {
    # what a provider says about itself
    "name-is-kebab-case": (provider(lambda: Saying(name="My Engine")), "My Engine"),
    "name-is-the-same-for-the-same-configuration": (
        provider(lambda: Saying(name=f"engine-{next(NUMBERS)}")),
        "the name of a second instance",
    ),
    "capabilities-are-known-words": (provider(lambda: Saying(capabilities=frozenset({"modle"}))), "modle"),
    "options-are-frozen-and-closed": (provider(lambda: Saying(options_type=Open)), "Open is not frozen"),
    "making-and-starting-do-nothing-yet": (provider(Eager), "child processes after start"),
    "probing-always-answers": (provider(Vague), "nothing says why"),
    "models-have-names-of-their-own": (provider(Vague), "twice: small, small"),
    # a task that completes
    "a-task-completes": (playing(scripted.ends_silently()), "it ended as error"),
    "a-verdict-comes-before-teardown": (playing(finishes_after_teardown), "before a child had gone"),
    "started-is-told-once": (telling(StartedEvent()), "2 where 1 was promised"),
    "entering-returns-when-the-work-is-accepted": (playing(scripted.never_ready()), "too long"),
    "events-end-with-the-verdict": (RUDE, "lost"),
    "all-goes-through-json-unchanged": (telling(NoticeEvent("x", data={"pair": (1, 2)})), "went through JSON"),
    # the way in
    "a-failed-start-is-one-start-error": (
        lambda _: replace(SUBJECT, failing=lambda: Scripted(scripted.raises(OSError))),
        "entering returned",
    ),
    "a-caller-cancelled-while-entering-leaves-nothing": (LEFT_BEHIND, "left behind"),
    # every way to stop
    "a-cancelled-scope-stops-it": (LEFT_BEHIND, "left behind"),
    "the-end-of-the-loop-ends-it": (leaking(a_thread), "thread forgotten"),
    "stopping-one-leaves-the-other-alone": (playing(all_for_one), "ended another"),
    "nothing-is-left": (leaking(lambda: HELD.append(os.open(os.devnull, os.O_RDONLY))), "descriptor /dev/null"),
    # bursts
    "a-reader-that-keeps-up-loses-nothing": (RUDE, "a reader that keeps up lost"),
    "two-bursts-at-once-lose-nothing": (RUDE, "a reader that keeps up lost"),
}

MORE_PROVIDER_MUTANTS = [
    ("capabilities-are-known-words", provider(lambda: Saying(capabilities={"model"})), "a set, and a frozenset"),
    ("options-are-frozen-and-closed", provider(lambda: Saying(options_type=Frozen)), "extra of Frozen"),
    ("entering-returns-when-the-work-is-accepted", playing(finishes_unannounced), "has ended as completed"),
]
"""A second way to break a promise that says more than one thing."""
