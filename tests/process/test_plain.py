"""The mode for systems without child-subreapers, forced on Linux: what it keeps, what it cannot, and that it says so.

Each gap of today is an assertion: whoever closes one will see it here.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator

import anyio
import pytest
from endings import ENDINGS, Run
from program import Program

from subagent_process import _launcher as launcher  # pyright: ignore[reportPrivateUsage]
from subagent_process import open_process, run_command, throwaway_home
from subagent_testing import Family

# It has cleared its environment and left the group: nobody can find it.
GAP = ("bare-daemon",)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Supervisors that adopt nobody, for the time of a test."""
    launcher.LAUNCHER.retire(launcher.LAUNCHER.start()[0])
    monkeypatch.setattr(launcher, "adopting", False)
    yield
    launcher.LAUNCHER.retire(launcher.LAUNCHER.start()[0])


ROWS = (
    "close",
    "close-polite",
    "cancel",
    "drop",
    "release",
    "leader-exits",
    "kill-keeper",
    "kill-warden",
)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.usefixtures("plain")
@pytest.mark.anyio
async def test_the_mark_finds_everybody_but_one_and_the_report_says_so(name: str) -> None:
    ending = ENDINGS[name]
    with anyio.fail_after(60):
        async with Family(deaf_leader=ending.deaf) as family:
            run = Run(await open_process(family.argv, env={}, ladder=ending.ladder))
            process = None if name == "drop" else run.process
            await family.grow()
            if ending.outside:
                await ending.outside(family)
            await ending.act(run)
            assert await family.survivors(within=1) == GAP
    if process:
        report = process.report
        assert report is not None
        assert (report.steps, report.missing, report.clean) == (ending.steps, ("daemons",), False)
        assert report.exit in ending.exits


@pytest.mark.parametrize(
    ("ending", "survivors"),
    [
        ("sleep", GAP),  # SIGKILL of the harness
        ("loop-ends-global", GAP),
        ("dead-keeper", GAP),
        ("dead-warden", GAP),
        ("dead-guard", GAP),
        ("dead-keeper-and-warden", GAP),
    ],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_the_mark_is_looked_for_by_whoever_is_left(ending: str, survivors: tuple[str, ...]) -> None:
    with anyio.fail_after(60):
        async with Family(deaf_leader=True) as family:
            with Program(family, "asyncio", ending, "no adoption") as program:
                await family.grow()
                program.go()
                program.hear({"sleep": "asleep", "loop-ends-global": "ended"}.get(ending, "struck"))
                if ending == "sleep":
                    os.kill(program.pid, signal.SIGKILL)
                assert await family.survivors(within=2) == survivors


@pytest.mark.usefixtures("plain")
@pytest.mark.anyio
async def test_the_child_gets_the_mark_beside_its_environment_and_its_home_is_removed() -> None:
    done = await run_command(["/usr/bin/env"], env={"A": "1"}, timeout=20)
    first, mark = done.stdout.decode().split()
    assert first == "A=1"
    assert mark.startswith("SUBAGENT_TREE=")
    async with throwaway_home() as home:
        async with await open_process(["/bin/cat"], env={}, home=home) as process:
            pass
        assert process.report is not None
        assert process.report.home_removed is True
