"""Whatever happens to the run, to the harness or to our own helpers: nothing of the child lives afterwards.

Seven relatives each time (`Family`): the end of a member's socket is proof of death, an answer proof of life.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import anyio
import pytest
from endings import ENDINGS, Ending, Run, parent
from program import Program

from subagent_process import ShutdownReport, open_process, run_command
from subagent_testing import Family

BACKENDS = ("asyncio", "trio")


def marks(name: str) -> list[pytest.MarkDecorator]:
    """Of the pairs the ones with no time between are enough for every day."""
    return [pytest.mark.long] if name.endswith(("30ms", "150ms")) else []


HERE = [
    pytest.param(backend, name, marks=marks(name))
    for name, ending in ENDINGS.items()
    for backend in BACKENDS
    if backend == "asyncio" or not ending.asyncio_only
]


def judge(ending: Ending, report: ShutdownReport) -> None:
    """The step is asserted too, and not only the outcome: a killed child looks like one that obeyed."""
    assert report.steps == ending.steps
    assert report.exit in ending.exits
    assert report.clean is ending.clean
    assert report.lost is (ending.losing and report.exit is None)
    assert report.missing == report.survivors == ()


@pytest.mark.parametrize(("anyio_backend", "name"), HERE)
@pytest.mark.anyio
async def test_nothing_survives(name: str) -> None:
    ending = ENDINGS[name]
    with anyio.fail_after(60):
        async with Family(*ending.extras, deaf_leader=ending.deaf) as family:
            run = Run(await open_process(family.argv, env={}, ladder=ending.ladder))
            process = None if name == "drop" else run.process
            await family.grow()
            if ending.outside:
                await ending.outside(family)
            await ending.act(run)
            assert await family.survivors() == ()
        if process:
            assert process.report is not None
            judge(ending, process.report)
        # The next child gets helpers without anybody's doing, whatever became of the old ones.
        assert (await run_command(["/bin/echo", "again"], env={}, timeout=20)).stdout == b"again\n"


# --- the same in every kind of harness ------------------------------------------------------------------------------

CONTEXTS = ("uvloop", "sigchld-ignored", "thread", "two-loops", "forked")
IN_EACH = (
    "close", "cancel", "drop", "leader-exits", "kill-keeper", "kill-warden", "kill-keeper-warden-0ms", "stop-keeper",
)  # fmt: skip
# Nobody but the guard could prove it, and the kernel has reaped the guard.
UNPROVED = {("sigchld-ignored", "kill-keeper-warden-0ms")}


@pytest.mark.parametrize("name", IN_EACH)
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
@pytest.mark.long
async def test_nothing_survives_whatever_the_loop_is_and_where_it_runs(context: str, name: str) -> None:
    ending = ENDINGS[name]
    with anyio.fail_after(60):
        async with Family(*ending.extras, deaf_leader=ending.deaf) as family:
            with Program(family, context, name) as program:
                await family.grow()
                if ending.outside:
                    await ending.outside(family)
                program.go()
                said = program.hear("dropped") if name == "drop" else program.hear("report")
                assert await family.survivors() == ()
                if name != "drop":
                    report = ShutdownReport(**(said["report"] | {"steps": tuple(said["report"]["steps"])}))
                    unproved = (context, name) in UNPROVED
                    assert (report.steps, report.clean) == (ending.steps, None if unproved else ending.clean)
                    assert report.exit in ending.exits
                program.leave()
                if context == "two-loops" and "warden" not in name:
                    assert program.hear("bystander")["bystander"] == {"still": "here"}


# --- the end of the harness -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Death:
    """`act` is what the harness does, `blow` what the test does to it, with the harness's pid and the leader's."""

    act: str
    blow: Callable[[int, int], None] | None = None
    extras: tuple[str, ...] = ()


def send(number: int) -> Callable[[int, int], None]:
    return lambda harness, _leader: os.kill(harness, number)


def send_group(number: int) -> Callable[[int, int], None]:
    return lambda harness, _leader: os.killpg(os.getpgid(harness), number)


def stop_and_kill(generations: int) -> Callable[[int, int], None]:
    """SIGSTOP for the leader's keeper (1 generation up) or warden (2), then SIGKILL for the harness."""

    def blow(harness: int, leader: int) -> None:
        helper = leader
        for _ in range(generations):
            helper = parent(helper)
        os.kill(helper, signal.SIGSTOP)
        os.kill(harness, signal.SIGKILL)

    return blow


def kill_with(generations: int) -> Callable[[int, int], None]:
    """SIGKILL for the harness and, in the same instant, for a helper."""

    def blow(harness: int, leader: int) -> None:
        helper = leader
        for _ in range(generations):
            helper = parent(helper)
        os.kill(harness, signal.SIGKILL)
        os.kill(helper, signal.SIGKILL)

    return blow


DEATHS = {
    "sigkill": Death("sleep", send(signal.SIGKILL)),
    "sigterm": Death("sleep", send(signal.SIGTERM)),
    "interrupt": Death("sleep", send_group(signal.SIGINT)),
    "sigkill-hopper": Death("sleep", send(signal.SIGKILL), extras=("hopper",)),
    "sigkill-with-stopped-keeper": Death("sleep", stop_and_kill(1)),
    "sigkill-with-stopped-warden": Death("sleep", stop_and_kill(2)),
    "sigkill-with-keeper": Death("sleep", kill_with(1)),
    "sigkill-with-warden": Death("sleep", kill_with(2)),
    "sigkill-with-guard": Death("sleep", kill_with(3)),
    "loop-ends": Death("loop-ends"),
    "loop-ends-global": Death("loop-ends-global"),
    "sys-exit": Death("sys-exit"),
    "os-exit": Death("os-exit"),
    "a-fork-holds-our-descriptors": Death("hold", send(signal.SIGKILL)),
    "drop-while-a-fork-holds": Death("drop-while-held"),
}
EVERYWHERE = ("sigkill", "sigterm", "interrupt", "loop-ends-global", "a-fork-holds-our-descriptors")
THERE = [
    *((context, name) for name in DEATHS for context in BACKENDS),
    *((context, name) for name in EVERYWHERE for context in CONTEXTS),
]


@pytest.mark.parametrize(
    ("context", "name"),
    [pytest.param(*row, marks=[] if row[0] in BACKENDS else [pytest.mark.long]) for row in THERE],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_nothing_survives_the_harness(context: str, name: str) -> None:
    death = DEATHS[name]
    with anyio.fail_after(60):
        async with Family(*death.extras, deaf_leader=True) as family:
            with Program(family, context, death.act) as program:
                await family.grow()
                program.go()
                if death.act in ("hold", "drop-while-held"):
                    program.hear("holder")
                if death.blow:
                    death.blow(program.pid, family.pids["leader"])
                assert await family.survivors() == ()
                program.leave()
                await program.helpers_end()


async def everybody_ended(family: Family) -> None:
    """All that came, however far they got: some were killed before they could say their names."""
    door = family._door  # pyright: ignore[reportPrivateUsage]
    with suppress(BlockingIOError):
        while True:
            with door.accept()[0] as line:
                line.setblocking(False)
                with suppress(ConnectionResetError):
                    await anyio.wait_readable(line)
                    while line.recv(64):
                        await anyio.wait_readable(line)


@pytest.mark.parametrize("rounds", [0, 1, 2, 3, 5, 8, 13, 40])
@pytest.mark.parametrize("context", BACKENDS)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_a_harness_that_ends_in_the_middle_of_a_start_leaves_nobody(context: str, rounds: int) -> None:
    with anyio.fail_after(60):
        async with Family(deaf_leader=True) as family:
            with Program(family, context, f"in-start-{rounds}") as program:
                await program.helpers_end()  # only then is it certain that nobody comes any more
                with anyio.fail_after(5):
                    await everybody_ended(family)
