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

from subagent_process import Containment, ShutdownReport, SpawnError, open_process, run_command
from subagent_testing import Family
from subagent_testing.family import RELATIVES

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


@dataclass(frozen=True)
class Surroundings:
    """What a program of its own is like, whom it loses of every family, what its report misses, and what cannot be."""

    context: str = "asyncio"
    containment: Containment = "subreaper"
    mutant: str = ""
    survivors: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    proves: bool = True
    without: str = "none"  # rows with this word in their name

    def fits(self, name: str) -> bool:
        trio_only = self.context in ("two-loops", "trio")
        return self.without not in name.split("-") and not (trio_only and name.startswith("raw-cancel"))


# It has cleared its environment and left the group: without child-subreapers nobody can find it.  A process that is
# another one every millisecond may be missed by every look.
LOST = ("bare-daemon",)
SURROUNDINGS = {
    "asyncio": Surroundings("asyncio"),
    "trio": Surroundings("trio"),
    "uvloop": Surroundings("uvloop"),
    "sigchld-ignored": Surroundings("sigchld-ignored"),
    "thread": Surroundings("thread"),
    "two-loops": Surroundings("two-loops"),
    "forked": Surroundings("forked"),
    "pid-namespace": Surroundings(containment="pid-namespace"),
    "no-adoption": Surroundings(
        mutant="no adoption", survivors=LOST, missing=("daemons",), proves=False, without="hopper"
    ),
    "macintosh": Surroundings(
        mutant="macintosh", survivors=LOST, missing=("daemons", "forked-harness"), proves=False, without="hopper"
    ),
}
ELSEWHERE = tuple(SURROUNDINGS)[len(BACKENDS) :]  # in those two, the rows above
EVERY_DAY = ("close", "drop", "leader-exits", "kill-keeper", "kill-keeper-warden-0ms")


async def skip_if_not_to_be_had(around: Surroundings) -> None:
    try:
        process = await open_process(["/bin/true"], env={}, containment=around.containment)
    except SpawnError as error:
        pytest.skip(str(error))
    await process.aclose()


async def who_lives(family: Family, expected: tuple[str, ...]) -> tuple[str, ...]:
    """The survivors, once everybody has ended who is expected to; where nobody is, after a while."""
    if set(expected) == family.pids.keys():
        return await family.survivors(within=1)
    with anyio.move_on_after(10):
        for name in family.pids.keys() - set(expected):
            while await family.answers(name) is not None:  # noqa: ASYNC110
                await anyio.sleep(0.005)
    return await family.survivors(within=0)


async def outcome(program: Program, around: Surroundings, name: str) -> str:
    """What is wrong with one row; nothing, if nothing is."""
    ending = ENDINGS[name]
    async with Family(*ending.extras, deaf_leader=ending.deaf) as family:
        program.start(family, name)
        await family.grow()
        if ending.outside:
            await ending.outside(family)
        program.go()
        said = program.hear("report")
        survivors = await who_lives(family, around.survivors)
    if survivors != around.survivors:
        return f"{survivors} live"
    if around.context == "two-loops" and not {"warden", "guard", "helpers"} & set(name.split("-")):
        assert said["bystander"] == [{"still": "here"}]
    report = said["report"]
    if report is None:
        return "" if name == "drop" else "no report"
    clean = ending.clean if around.proves or ending.clean is None else False
    # Where the kernel has reaped the guard, nobody can tell what only the guard has seen.
    unproved = (None,) if around.context == "sigchld-ignored" and ending.losing else ()
    good = (
        tuple(report["steps"]) == ending.steps
        and report["exit"] in ending.exits
        and report["clean"] in (clean, *unproved)
        and tuple(report["missing"]) == around.missing
    )
    return "" if good else str(report)


@pytest.mark.parametrize(
    ("which", "rows"),
    [
        *((which, EVERY_DAY) for which in ("pid-namespace", "no-adoption", "macintosh")),
        *(pytest.param(which, tuple(ENDINGS), marks=[pytest.mark.long]) for which in ELSEWHERE),
    ],
    ids=lambda value: value if isinstance(value, str) else "every-day" if value == EVERY_DAY else "all",
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_nothing_survives_in_any_surroundings(which: str, rows: tuple[str, ...]) -> None:
    around = SURROUNDINGS[which]
    wrong: dict[str, str] = {}
    await skip_if_not_to_be_had(around)
    with anyio.fail_after(110), Program(around.context, around.mutant, around.containment) as program:
        for name in rows:
            if around.fits(name) and (found := await outcome(program, around, name)):
                wrong[name] = found
    assert wrong == {}


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
# A fork that holds what the harness held can be told from a harness that lives only by a pidfd.
UNSEEN = {("macintosh", "a-fork-holds-our-descriptors"): tuple(RELATIVES)}


@pytest.mark.parametrize(
    ("which", "name"),
    [
        pytest.param(which, name, marks=[pytest.mark.long] if which in ELSEWHERE else [])
        for which in SURROUNDINGS
        for name in (EVERYWHERE if which in ELSEWHERE else DEATHS)
    ],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_nothing_survives_the_harness(which: str, name: str) -> None:
    death, around = DEATHS[name], SURROUNDINGS[which]
    lost = UNSEEN.get((which, name), around.survivors)
    await skip_if_not_to_be_had(around)
    with anyio.fail_after(60):
        async with Family(*death.extras, deaf_leader=True) as family:
            with Program(around.context, around.mutant, around.containment) as program:
                program.start(family, death.act)
                await family.grow()
                program.go()
                if death.act in ("hold", "drop-while-held"):
                    program.hear("holder")
                if death.blow:
                    death.blow(program.pid, family.pids["leader"])
                assert await who_lives(family, lost) == lost
                program.leave()
                if lost == around.survivors:
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
            with Program(context) as program:
                program.start(family, f"in-start-{rounds}")
                await program.helpers_end()  # only then is it certain that nobody comes any more
                with anyio.fail_after(5):
                    await everybody_ended(family)
