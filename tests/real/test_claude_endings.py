"""However a run of the real Claude Code ends while a command of its task is at work: nobody and nothing is left.

The command grows relatives of every awkward kind; the end of each one's pipe is the proof of its death.  The home is
gone, the folder as it was; the verdict and the report are as promised.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from claude_kit import against, bash
from endings_claude import CLAUDE
from endings_kit import DEATHS, ENDINGS, Held, Scene, gone, home_of, names
from isolation_kit import parent

from subagent_testing import ScriptedMessages, messages

pytestmark = pytest.mark.anyio
asyncio_alone = pytest.mark.parametrize("anyio_backend", ["asyncio"])

_drive: Any = import_module("subagent_claude_code._drive")

EVERY_DAY = {
    ("asyncio", "turn-ends", "isolated"),
    ("trio", "cancel", "isolated"),
    ("asyncio", "raw-cancel-5", "isolated"),
    ("asyncio", "kill-engine", "isolated"),
    ("asyncio", "drop", "pinned"),
}
PINNED = {"turn-ends", "cancel", "drop", "kill-engine", "kill-keeper"}
ROWS = [
    pytest.param(backend, name, home, marks=[] if (backend, name, home) in EVERY_DAY else [pytest.mark.long])
    for name, ending in ENDINGS.items()
    for backend, home in (("asyncio", "isolated"), ("trio", "isolated"), ("asyncio", "pinned"))
    if (backend == "asyncio" or not ending.asyncio_only) and (home == "isolated" or name in PINNED)
]


@pytest.mark.parametrize(("anyio_backend", "name", "home"), ROWS)
async def test_nothing_survives(name: str, home: str, work: Path, tmp_path: Path) -> None:
    with anyio.fail_after(90):
        result, left = await CLAUDE.ended(name, tmp_path, work, home)
    assert left == {}
    if result:
        assert CLAUDE.wrong(name, result) == ""


@pytest.mark.parametrize("anyio_backend", ["asyncio", pytest.param("trio", marks=pytest.mark.long)])
async def test_a_loop_that_ends_while_the_run_is_open_ends_it(work: Path, tmp_path: Path, anyio_backend: str) -> None:
    """`asyncio.run` and `trio.run` return; nobody has left the run, and somebody still holds it."""
    kept: list[Held] = []

    async def main(scene: Scene) -> None:
        kept.append(await CLAUDE.hold(scene))

    with anyio.fail_after(60), CLAUDE.scene(tmp_path, work, "isolated", "") as scene:
        await anyio.to_thread.run_sync(lambda: anyio.run(main, scene, backend=anyio_backend))
        result = await kept[0].run.closed()
        assert await kept[0].left(at_once=False) == {}
    assert result.stop_reason == "aborted"


@asyncio_alone
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n == "sigkill" else [pytest.mark.long]) for n in DEATHS])
async def test_nothing_survives_the_program_that_holds_the_run(name: str, work: Path, tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with CLAUDE.program(tmp_path, work, "isolated", name) as (holder, kin, pid):
            home = home_of(pid)
            DEATHS[name][0](holder)
            assert await kin.survivors() == []
            assert await gone(home)
            await anyio.to_thread.run_sync(holder.wait)
    assert names(work) == []


@pytest.mark.long
@asyncio_alone
@pytest.mark.parametrize("generations", [1, 2, 3], ids=["keeper", "warden", "guard"])
async def test_nothing_survives_the_program_and_one_of_our_helpers_in_the_same_instant(
    generations: int, work: Path, tmp_path: Path
) -> None:
    with anyio.fail_after(60):
        async with CLAUDE.program(tmp_path, work, "isolated") as (holder, kin, helper):
            for _ in range(generations):
                helper = parent(helper)
            holder.kill()
            with suppress(ProcessLookupError):
                os.kill(helper, signal.SIGKILL)
            assert await kin.survivors() == []


# --- the polite end ---------------------------------------------------------------------------------------------------

TRAPPING = """
import os, signal, sys

def end(*_):
    os.write(os.open("said-goodbye", os.O_CREAT | os.O_WRONLY), b"x")
    os._exit(0)

signal.signal(signal.SIGTERM, end)
open("at-work", "x").close()
while True:
    signal.pause()
"""


async def came(path: Path) -> None:
    there = anyio.Path(path)
    while not await there.exists():  # noqa: ASYNC110 - nothing tells it
        await anyio.sleep(0.01)


@pytest.mark.parametrize("anyio_backend", ["asyncio", pytest.param("trio", marks=pytest.mark.long)])
async def test_a_cancelled_run_lets_its_command_say_goodbye(work: Path) -> None:
    """The interrupt ends the command by SIGTERM; then the engine ends by itself, at the end of its input."""
    command = f"exec {shlex.join([sys.executable, '-I', '-S', '-c', TRAPPING])}"
    with ScriptedMessages([[bash(command)], "done"]) as api, anyio.fail_after(60):
        async with against(api, eof_grace=10).start("x", cwd=work, permission="allow") as run:
            await came(work / "at-work")
            run.cancel("enough")
            assert (await run.result()).stop_reason == "aborted"
            result = await run.closed()
    assert names(work) == ["at-work", "said-goodbye"]
    report = result.evidence.process
    assert report is not None
    assert (report.steps, report.exit, report.killed, report.clean) == (("eof",), 1, 0, True)


async def test_a_model_that_is_silent_is_cancelled_promptly(work: Path) -> None:
    with ScriptedMessages([[messages.started(), messages.silence()]]) as api, anyio.fail_after(60):
        async with against(api, eof_grace=10).start("x", cwd=work) as run:
            await api.request(1)
            run.cancel()
            result = await run.closed()
    assert result.stop_reason == "aborted"
    assert result.evidence.process is not None
    assert (result.evidence.process.steps, result.evidence.process.clean) == (("eof",), True)


# --- faults: each must turn a row above red ---------------------------------------------------------------------------


@asyncio_alone
async def test_a_run_that_does_not_hand_over_its_home_is_found_out(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = _drive.open_process

    def open_process(*args: Any, home: object, **options: Any) -> Any:
        return real(*args, **options)

    monkeypatch.setattr(_drive, "open_process", open_process)
    with anyio.fail_after(60):
        result, _ = await CLAUDE.ended("cancel", tmp_path, work, "isolated")
    assert result is not None
    assert "home_removed=None" in CLAUDE.wrong("cancel", result)


@pytest.mark.long
@asyncio_alone
@pytest.mark.parametrize("name", ["cancel", "deadline"])
async def test_without_the_interrupt_the_ladder_catches_all_by_force(
    name: str, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine in the middle of a turn hears no end of input."""

    async def stop(*_: object) -> None:
        pass

    monkeypatch.setattr(_drive.Drive, "_stop", stop)
    with anyio.fail_after(60):
        result, left = await CLAUDE.ended(name, tmp_path, work, "isolated")
    assert left == {}
    assert result is not None
    assert "steps=('eof', 'term')" in CLAUDE.wrong(name, result)
