"""Runs of the whole provider on the fake app-server, which does what its script says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import anyio
import pytest

from subagent_codex import Codex
from subagent_testing import FakeCodex
from subagents import Event, Failure, Permission, Result, Run, StartError, Task, TextEvent

Json: TypeAlias = dict[str, Any]
Steps: TypeAlias = Sequence[Any]

NOWHERE = "http://127.0.0.1:9/v1"
"""The fake asks no model; with an address of its own a run needs no sign-in."""

BOUND = 20.0
"""Seconds for a whole run, and more than any takes."""

both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
"""For what is about owning and cancelling; the modules run the rest on asyncio alone, to save time."""

E = TypeVar("E", bound=Event)


@dataclass(frozen=True)
class Told:
    """What a run told, and how it ended."""

    result: Result
    events: tuple[Event, ...]

    @property
    def text(self) -> str:
        """Every piece of text, in order."""
        return "".join(event.text for event in self.of(TextEvent))

    def of(self, kind: type[E]) -> list[E]:
        """Its events of that class."""
        return [event for event in self.events if isinstance(event, kind)]

    def notices(self, code: str) -> list[str]:
        """The texts of its notices of that code."""
        return [event.text for event in self.events if event.type == "notice" and event.code == code]

    @property
    def failure(self) -> Failure:
        """Of a run that failed."""
        assert self.result.failure is not None, self.result
        return self.result.failure


def codex(fake: FakeCodex, **options: Any) -> Codex:
    """A provider whose engine is the fake."""
    given: Json = {"executable": fake.executable, "base_url": NOWHERE, **options}
    return Codex(**given)


def task(cwd: Path, prompt: str = "go", **fields: Any) -> Task:
    """A task in that folder."""
    return Task(prompt, cwd=cwd, **fields)


async def said(run: Run, text: str) -> None:
    """Wait until an entered run has said all of this; its pieces may come merged."""
    heard = ""
    async for event in run.events():
        heard += event.text if isinstance(event, TextEvent) else ""
        if heard.endswith(text):
            return
    raise AssertionError(f"it ended after {heard!r}")


async def follow(run: Run) -> Told:
    """An entered run, to its end."""
    events = [event async for event in run.events()]
    return Told(await run.closed(), tuple(events))


async def told(
    fake: FakeCodex, cwd: Path, prompt: str = "go", *, permission: Permission = "reject", **options: Any
) -> Told:
    """One run, to its end, of an engine that takes the task."""
    with anyio.fail_after(BOUND):
        async with codex(fake, **options).start(prompt, cwd=cwd, permission=permission) as run:
            return await follow(run)


async def answered(
    fake: FakeCodex, cwd: Path, number: int, *, permission: Permission = "reject", **options: Any
) -> Told:
    """One run whose script waits at the gate `answered`, which opens after so many answers of the client."""
    with anyio.fail_after(BOUND):
        async with codex(fake, **options).start("go", cwd=cwd, permission=permission) as run:
            await fake.happened("answer", number)
            fake.open("answered")
            return await follow(run)


async def refused(fake: FakeCodex, cwd: Path, **options: Any) -> Failure:
    """The failure of a run whose engine does not take the task."""
    with anyio.fail_after(BOUND):
        try:
            async with codex(fake, **options).start("go", cwd=cwd):
                pass
        except StartError as error:
            return error.failure
    raise AssertionError("the task was taken")


def turn(*steps: Any, on: Json | None = None) -> Json:
    """A script with a turn of these steps."""
    return {"turn": list(steps), **({"on": on} if on else {})}


def answers(fake: FakeCodex) -> list[tuple[Any, Json]]:
    """Id and body of every answer of the client, in order."""
    return [
        (message.get("id"), {name: value for name, value in message.items() if name != "id"})
        for message in fake.received
        if "method" not in message
    ]


def counted(fake: FakeCodex, *methods: str) -> Counter[str]:
    """How often the client sent these."""
    return Counter(heard.what for heard in fake.heard if heard.what in methods)


def wrong(fake: FakeCodex) -> list[str]:
    """The answers of the client that do not have the shape that their request wants."""
    return [f"{verdict.method}: {verdict.wrong}: {verdict.answer}" for verdict in fake.verdicts if verdict.wrong]
