"""Many runs at once on the fake `claude`, ended in every way: each has its own verdict, and nothing is leaked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from claude_fake_kit import NEVER, Json, claude, clean, turn

from subagent_process import child_env, run_command
from subagent_testing import FakeClaude, Snapshot, private_temp
from subagent_testing.leaks import loop_tasks, tasks_left
from subagents import Choice, PermissionRequest, Result, Run, Runtime

pytestmark = pytest.mark.anyio

KILLED = -9
SHORT: Json = {"interrupt_grace": 0.5, "eof_grace": 0.3, "term_grace": 0.3}


async def undecided(request: PermissionRequest) -> Choice:
    await anyio.sleep_forever()
    raise AssertionError


async def follow(run: Run) -> Result:
    return await run.closed()


def cancel_at(kind: str) -> Callable[[Run], Awaitable[Result]]:
    async def cancel(run: Run) -> Result:
        async for event in run.events():
            if event.type == kind:
                break
        run.cancel()
        return await run.closed()

    return cancel


async def leave(run: Run) -> Result:
    """As the end of `async with` does; the Runtime has entered it."""
    await run.__aexit__(None, None, None)
    return await run.closed()


@dataclass(frozen=True)
class Way:
    """What the engine does, what we do, and the verdict: its word, the kind of its failure, the possible exits."""

    script: Json
    act: Callable[[Run], Awaitable[Result]] | None = follow
    stop: str = "completed"
    kind: str | None = None
    exits: tuple[int | None, ...] = (0,)
    options: Json = field(default_factory=dict[str, Any])

    def wrong(self, result: Result) -> bool:
        found = (result.stop_reason, result.failure.kind if result.failure else None)
        report = clean(result.evidence.process)
        return found != (self.stop, self.kind) or report.exit not in self.exits or result.evidence.left_behind


DONE = {"turn": [{"text": "done"}]}
HALF = {"text": "half"}
WAYS = {
    "completed": Way(turn({"text": "done"})),
    "odd-exit": Way({"on": {"user": [[DONE, {"exit": 1}]]}}, exits=(1,)),
    "killed-after-it": Way({"on": {"user": [[DONE, {"signal": "SIGKILL"}]]}}, exits=(KILLED,)),
    "deaf": Way(turn({"ignore": ["SIGTERM"]}, {"text": "done"}, EOF=NEVER), exits=(KILLED,)),
    "pipes-held": Way(turn({"spawn": ["/bin/sleep", "300"]}, {"text": "done"})),
    "exit-in-the-turn": Way(turn(HALF, {"exit": 3}), stop="error", kind="exit", exits=(3,)),
    "api-fails": Way(turn({"fail": {"status": 529, "error": "overloaded"}}), stop="error", kind="overload", exits=(1,)),
    "no-start": Way({"on": {"initialize": [[{"exit": 4}]]}}, None, "error", "launch", (4,)),
    "cancel": Way(turn(HALF, "work"), cancel_at("text"), "aborted", exits=(1,)),
    "cancel-one-that-ticks": Way(
        turn({"ignore": ["SIGTERM"]}, HALF, {"tick": 0.05}, EOF=NEVER, interrupt=NEVER),
        cancel_at("text"),
        "aborted",
        exits=(KILLED,),
    ),
    "cancel-while-asking": Way(
        turn({"ask": "can_use_tool"}, {"ask": "can_use_tool"}, "work"), cancel_at("permission"), "aborted", exits=(1,)
    ),
    "leave": Way(turn("work"), leave, "aborted", exits=(1,)),
}


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    ("count", "at_once"),
    [
        pytest.param(len(WAYS), 8, id="each"),
        pytest.param(200, 30, marks=[pytest.mark.long, pytest.mark.timeout(300)], id="200"),
    ],
)
async def test_many_at_once_that_end_in_every_way_leak_nothing(count: int, at_once: int, tmp_path: Path) -> None:
    wrong, seen, most = list[str](), Counter[str](), 0
    names = list(WAYS)

    async def one(runtime: Runtime, name: str, folder: Path) -> None:
        nonlocal most
        if (act := WAYS[name].act) is None:
            result = await runtime.run(name, "go", cwd=folder)
        else:
            run = await runtime.start(name, "go", cwd=folder, permission=undecided)
            most = max(most, len(runtime.runs))
            result = await act(run)
        if WAYS[name].wrong(result):
            wrong.append(f"{name}: {result}")
        seen[name] += 1

    with private_temp() as temp:
        await run_command(["true"], env=child_env(), timeout=20)  # who starts children is started once, and stays
        before, tasks_before = Snapshot.take(temp), loop_tasks()
        with ExitStack() as fakes, anyio.fail_after(280):
            providers = [
                claude(fakes.enter_context(FakeClaude(way.script)), name=name, **SHORT, **way.options)
                for name, way in WAYS.items()
            ]
            async with Runtime(providers, limit=at_once) as runtime:
                async with anyio.create_task_group() as tasks:
                    for number in range(count):
                        (folder := tmp_path / str(number)).mkdir()
                        tasks.start_soon(one, runtime, names[number % len(names)], folder)
                assert dict(runtime.runs) == {}
                left_open = [await runtime.start("cancel", "go", cwd=tmp_path) for _ in range(3)]
            for run in left_open:
                result = await run.closed()
                assert result.stop_reason == "aborted"
                clean(result.evidence.process)
        found = ["not looked yet"]
        with anyio.move_on_after(20):
            while found:  # not `left` with a bound, which waits for the pool of threads too: that is the test's own
                await anyio.sleep(0.05)
                found = [item for item in before.left(temp, within=0) if not item.startswith("thread AnyIO")]
        idle = await tasks_left(tasks_before)
    assert wrong == []
    assert seen.total() == count
    assert most <= at_once
    assert found == []
    assert idle == []
