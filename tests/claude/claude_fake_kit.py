"""Runs of the whole provider on the fake `claude`, which does what its script says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest

from subagent_claude_code import ClaudeCode
from subagent_testing import FakeClaude
from subagents import Event, Failure, Permission, Result, Run, ShutdownReport, StartError, TextEvent

pytest.importorskip("claude_agent_sdk")

Json: TypeAlias = dict[str, Any]

NOWHERE = "http://127.0.0.1:9"
"""The fake asks no model; with an address of its own a run needs no sign-in."""

BOUND = 30.0
"""Seconds for a whole run, and more than any takes."""

SHORT: Json = {"interrupt_grace": 0.3, "eof_grace": 0.2, "term_grace": 0.2}
NEVER: list[Any] = [[{"wait": "never"}]]

both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
"""For what is about owning and cancelling; the modules run the rest on asyncio alone, to save time."""


@dataclass(frozen=True)
class Told:
    """What a run told, and how it ended."""

    result: Result
    events: tuple[Event, ...]

    @property
    def text(self) -> str:
        """Every piece of text, in order."""
        return "".join(event.text for event in self.events if isinstance(event, TextEvent))

    @property
    def failure(self) -> Failure:
        """Of a run that failed."""
        assert self.result.failure is not None, self.result
        return self.result.failure


def claude(fake: FakeClaude, **options: Any) -> ClaudeCode:
    """A provider whose engine is the fake."""
    given: Json = {"executable": fake.executable, "base_url": NOWHERE, **options}
    return ClaudeCode(**given)


async def follow(run: Run) -> Told:
    """An entered run, to its end."""
    events = [event async for event in run.events()]
    return Told(await run.closed(), tuple(events))


async def told(fake: FakeClaude, cwd: Path, *, permission: Permission = "reject", **options: Any) -> Told:
    """One run, to its end, of an engine that takes the task."""
    with anyio.fail_after(BOUND):
        async with claude(fake, **options).start("go", cwd=cwd, permission=permission) as run:
            return await follow(run)


async def refused(fake: FakeClaude, cwd: Path, **options: Any) -> Failure:
    """The failure of a run whose engine does not take the task."""
    with anyio.fail_after(BOUND):
        try:
            async with claude(fake, **options).start("go", cwd=cwd):
                pass
        except StartError as error:
            return error.failure
    raise AssertionError("the task was taken")


def turn(*steps: Any, **on: list[Any]) -> Json:
    """A script with a turn of these steps."""
    return {"turn": list(steps), "on": on}


def clean(report: ShutdownReport | None) -> ShutdownReport:
    """A report that says that nothing is left."""
    assert report is not None
    assert (report.clean, report.survivors, report.home_removed) == (True, (), True)
    return report
