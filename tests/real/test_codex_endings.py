"""However a run of the real Codex ends while a command of its task is at work: nobody and nothing is left.

The command grows relatives of every awkward kind; the end of each one's pipe is the proof of its death.  The home is
gone, and so is what the sandbox made in the folder; the verdict and the report are as promised.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from endings_codex import CODEX, PLACEHOLDERS, SANDBOXES
from endings_kit import DEATHS, ENDINGS, Held, Scene, gone, home_of, names
from isolation_kit import parent

from subagent_process import child_env, run_command

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("codex_binary")]
asyncio_alone = pytest.mark.parametrize("anyio_backend", ["asyncio"])

_drive: Any = import_module("subagent_codex._drive")
_session: Any = import_module("subagent_codex._session")

EVERY_DAY = {
    ("asyncio", "turn-ends", "danger-full-access"),
    ("asyncio", "cancel", "workspace-write"),
    ("asyncio", "cancel", "read-only"),
    ("asyncio", "drop", "danger-full-access"),
    ("asyncio", "kill-engine", "danger-full-access"),
}
ROWS = [
    pytest.param(backend, name, sandbox, marks=[] if (backend, name, sandbox) in EVERY_DAY else [pytest.mark.long])
    for name, ending in ENDINGS.items()
    for sandbox in SANDBOXES
    for backend in ("asyncio", "trio")
    if backend == "asyncio" or not ending.asyncio_only
]


@pytest.mark.parametrize(("anyio_backend", "name", "sandbox"), ROWS)
async def test_nothing_survives(name: str, sandbox: str, work: Path, tmp_path: Path) -> None:
    with anyio.fail_after(90):
        result, left = await CODEX.ended(name, tmp_path, work, sandbox)
    assert left == {}
    if result:
        assert CODEX.wrong(name, result) == ""


async def test_a_loop_that_ends_while_the_run_is_open_ends_it(work: Path, tmp_path: Path, anyio_backend: str) -> None:
    """`asyncio.run` and `trio.run` return; nobody has left the run, and somebody still holds it."""
    kept: list[Held] = []

    async def main(scene: Scene) -> None:
        kept.append(await CODEX.hold(scene))

    with anyio.fail_after(60), CODEX.scene(tmp_path, work, "workspace-write", "") as scene:
        await anyio.to_thread.run_sync(lambda: anyio.run(main, scene, backend=anyio_backend))
        result = await kept[0].run.closed()
        assert await kept[0].left(at_once=False) == {}
    assert result.stop_reason == "aborted"


# --- the end of the program that holds it -----------------------------------------------------------------------------


NEXT = """
import anyio
from subagent_process import throwaway_home

async def main():
    async with throwaway_home():
        pass

anyio.run(main)
"""


@asyncio_alone
@pytest.mark.parametrize(
    ("name", "sandbox"),
    [
        pytest.param(n, s, marks=[] if (n, s) == ("sigkill", "danger-full-access") else [pytest.mark.long])
        for n in DEATHS
        for s in SANDBOXES
    ],
)
async def test_nothing_survives_the_program_that_holds_the_run(
    name: str, sandbox: str, work: Path, tmp_path: Path
) -> None:
    blow, tidy = DEATHS[name]
    with anyio.fail_after(60):
        async with CODEX.program(tmp_path, work, sandbox, name) as (holder, kin, pid):
            home = home_of(pid)
            blow(holder)
            assert await kin.survivors() == []
            assert await gone(home)
            await anyio.to_thread.run_sync(holder.wait)
    # Without it nobody is left who would know what was there before: empty folders, which git does not see.
    assert names(work) == ([] if tidy or sandbox != "workspace-write" else list(PLACEHOLDERS))
    assert all(names(work / name) == [] for name in names(work))


@pytest.mark.long
@asyncio_alone
@pytest.mark.parametrize("generations", [1, 2, 3], ids=["keeper", "warden", "guard"])
@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_nothing_survives_the_program_and_one_of_our_helpers_in_the_same_instant(
    generations: int, sandbox: str, work: Path, tmp_path: Path
) -> None:
    with anyio.fail_after(60):
        async with CODEX.program(tmp_path, work, sandbox) as (holder, kin, helper):
            home = home_of(helper)
            for _ in range(generations):
                helper = parent(helper)
            holder.kill()
            with suppress(ProcessLookupError):
                os.kill(helper, signal.SIGKILL)
            assert await kin.survivors() == []
            if generations == 1:  # both who knew the home are gone: the next start finds it
                await anyio.to_thread.run_sync(holder.wait)
                await run_command([sys.executable, "-c", NEXT], env=child_env(), timeout=30)
            assert await gone(home)


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
        result, _ = await CODEX.ended("cancel", tmp_path, work, "read-only")
    assert result is not None
    assert "home_removed=None" in CODEX.wrong("cancel", result)


@pytest.mark.long
@asyncio_alone
async def test_a_killed_program_that_did_not_hand_over_its_home_leaves_it(work: Path, tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with CODEX.program(tmp_path, work, "read-only", fault="home kept") as (holder, kin, pid):
            home = home_of(pid)
            holder.kill()
            assert await kin.survivors() == []
            assert await anyio.Path(home).exists()
            shutil.rmtree(home)


@asyncio_alone
async def test_without_the_removal_of_placeholders_they_stay(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def nothing(*_: object, active: bool) -> nullcontext[None]:
        return nullcontext()

    monkeypatch.setattr(_drive, "Placeholders", nothing)
    with anyio.fail_after(60):
        _, left = await CODEX.ended("cancel", tmp_path, work, "workspace-write")
    assert left == {"folder": list(PLACEHOLDERS)}


@pytest.mark.long
@pytest.mark.parametrize("name", ["turn-ends", "cancel"])
@pytest.mark.parametrize("sandbox", SANDBOXES)
@asyncio_alone
async def test_without_the_polite_end_of_commands_the_ladder_catches_all(
    name: str, sandbox: str, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No interrupt, no `thread/backgroundTerminals/clean`: it is no fault that a row would show, but help."""

    async def stop(*_: object) -> None:
        pass

    monkeypatch.setattr(_session.Session, "stop", stop)
    with anyio.fail_after(60):
        result, left = await CODEX.ended(name, tmp_path, work, sandbox)
    assert left == {}
    assert result is not None
    assert CODEX.wrong(name, result) == ""
