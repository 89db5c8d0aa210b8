"""Many runs at once on the fake app-server, ended in every way: each has its own verdict, and nothing is leaked."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from protocol_kit import Json, both_loops, codex, refused, turn

from subagent_codex import Codex
from subagent_process import ThrowawayHome, ToolEnv, child_env, run_command, tool_env
from subagent_testing import FakeCodex, Snapshot, private_temp
from subagents import Choice, PermissionRequest, Result, Run, StartError

pytestmark = pytest.mark.anyio

KILLED = -9
NEVER = [[{"wait": "never"}]]
SHORT: Json = {"interrupt_grace": 0.5, "eof_grace": 0.3, "term_grace": 0.3}
CHANGE = "item/fileChange/requestApproval"


async def undecided(request: PermissionRequest) -> Choice:
    await anyio.sleep_forever()
    raise AssertionError


async def follow(run: Run) -> Result:
    async with run:
        return await run.closed()


async def cancel(run: Run) -> Result:
    async with run:
        async for event in run.events():
            if event.type == "text":
                break
        run.cancel()
        return await run.closed()


async def cancel_while_asking(run: Run) -> Result:
    async with run:
        async for event in run.events():
            if event.type == "permission":
                break
        run.cancel()
        return await run.closed()


async def cancel_scope(run: Run) -> Result:
    with anyio.CancelScope() as scope:
        async with run:
            scope.cancel()
            await anyio.sleep_forever()
    return await run.closed()


async def raise_error(run: Run) -> Result:
    with suppress(KeyError):
        async with run:
            raise KeyError
    return await run.closed()


async def fail_to_start(run: Run) -> Result:
    with suppress(StartError):
        async with run:
            pass
    return await run.closed()


@dataclass(frozen=True)
class Way:
    """What the engine does, what we do, and the verdict: its word, the kind of its failure, the possible exits."""

    script: Json
    act: Callable[[Run], Awaitable[Result]] = follow
    stop: str = "completed"
    kind: str | None = None
    exits: tuple[int | None, ...] = (0,)
    options: Json = field(default_factory=dict[str, Any])


WAYS = {
    "completed": Way(turn({"message": "done"})),
    "odd exit": Way({"on": {"turn/start": [["answer", {"turn": [{"message": "done"}]}, {"exit": 1}]]}}, exits=(1,)),
    "killed after it": Way(
        {"on": {"turn/start": [["answer", {"turn": [{"message": "done"}]}, {"signal": "SIGKILL"}]]}}, exits=(KILLED,)
    ),
    "deaf": Way(turn({"ignore": ["SIGTERM"]}, {"message": "done"}, on={"EOF": NEVER}), exits=(KILLED,)),
    "pipes held": Way(turn({"spawn": ["/bin/sleep", "300"]}, {"message": "done"})),
    "exit in the turn": Way(turn({"message": "half"}, {"exit": 3}), stop="error", kind="exit", exits=(3,)),
    "exit 0 in the turn": Way(turn({"message": "half"}, {"exit": 0}), stop="error", kind="exit"),
    "no start": Way({"on": {"initialize": [[{"exit": 4}]]}}, fail_to_start, "error", "launch", (4,)),
    "cancel": Way(turn({"message": "half"}, "work"), cancel, "aborted"),
    "cancel one that ticks": Way(
        turn({"ignore": ["SIGTERM"]}, {"message": "half"}, {"tick": 0.05}, on={"EOF": NEVER, "turn/interrupt": NEVER}),
        cancel,
        "aborted",
        exits=(KILLED,),
    ),
    "cancel while asking": Way(
        turn({"ask": CHANGE}, {"ask": CHANGE}, "work"),
        cancel_while_asking,
        "aborted",
        options={"sandbox": "danger-full-access", "approval_policy": "on-request"},
    ),
    "scope": Way(turn("work"), cancel_scope, "aborted"),
    "exception": Way(turn("work"), raise_error, "aborted"),
}
DROPPED = "dropped"


@pytest.mark.parametrize(
    ("count", "at_once"),
    [
        pytest.param(2 * (len(WAYS) + 1), 14, id="each-twice"),
        pytest.param(200, 30, marks=[pytest.mark.long, pytest.mark.timeout(300)], id="200"),
    ],
)
async def test_many_at_once_that_end_in_every_way_leak_nothing(count: int, at_once: int, tmp_path: Path) -> None:
    slots, wrong, seen = anyio.Semaphore(at_once), list[str](), Counter[str]()
    names = [*WAYS, DROPPED]

    async def one(name: str, provider: Codex, folder: Path) -> None:
        async with slots:
            if name == DROPPED:
                await drop(provider, folder)
            else:
                way = WAYS[name]
                result = await way.act(provider.start("go", cwd=folder, permission=undecided))
                if not as_promised(way, result):
                    wrong.append(f"{name}: {result}")
        seen[name] += 1

    with private_temp() as temp:
        await run_command(["true"], env=child_env(), timeout=20)  # who starts children is started once, and stays
        before = Snapshot.take(temp)
        with ExitStack() as fakes, anyio.fail_after(280):
            providers: dict[str, Codex] = {}
            for name, way in {**WAYS, DROPPED: WAYS["cancel"]}.items():
                providers[name] = codex(fakes.enter_context(FakeCodex(way.script)), **SHORT, **way.options)
            async with anyio.create_task_group() as tasks:
                for number in range(count):
                    (tmp_path / str(number)).mkdir()
                    name = names[number % len(names)]
                    tasks.start_soon(one, name, providers[name], tmp_path / str(number))
            del providers
        left: list[str] = ["not looked yet"]
        with anyio.move_on_after(20):
            while left:  # not `left` with a bound, which blocks: a run whose handle was lost ends in this loop
                await anyio.sleep(0.05)
                found = before.left(temp, within=0)
                left = [item for item in found if not item.startswith("thread AnyIO")]  # the pool is the test's own
    assert wrong == []
    assert seen.total() == count
    assert left == []


def as_promised(way: Way, result: Result) -> bool:
    report, failure = result.evidence.process, result.failure
    assert report is not None
    return (
        (result.stop_reason, failure.kind if failure else None) == (way.stop, way.kind)
        and report.exit in way.exits
        and (report.clean, report.home_removed, report.survivors) == (True, True, ())
        and not result.evidence.left_behind
    )


async def drop(provider: Codex, folder: Path) -> None:
    """The handle is lost while it works; its engine's home is among what must be gone at the end."""
    run: Run | None = await provider.start("go", cwd=folder).__aenter__()
    del run
    gc.collect()


@both_loops
@pytest.mark.parametrize("moment", ["initialize", "initialized"])
async def test_a_home_that_went_with_its_engine_is_not_made_again(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What commands get is found out beside the engine's start, and may come too late."""
    homes: list[Path] = []

    async def late(cwd: str, home: ThrowawayHome, *, real: bool) -> ToolEnv:
        homes.append(home.root)
        while await anyio.Path(home.root).exists():  # noqa: ASYNC110 - nothing tells it
            await anyio.sleep(0.01)
        return await tool_env(cwd, home, real=real)

    monkeypatch.setattr("subagent_codex._sandbox.tool_env", late)
    with FakeCodex({"on": {moment: [[{"exit": 4}]]}}) as fake:
        failure = await refused(fake, tmp_path)
    assert (failure.kind, failure.exit_code) == ("launch", 4)
    assert [home.exists() for home in homes] == [False]
