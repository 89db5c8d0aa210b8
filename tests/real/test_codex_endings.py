"""However a run of the real Codex ends while a command of its task is at work: nobody and nothing is left.

The command grows relatives of every awkward kind; the end of each one's pipe is the proof of its death.  The home is
gone, and so is what the sandbox made in the folder; the verdict and the report are as promised.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from codex_kit import KEY, names
from endings_kit import (
    ENDINGS,
    PLACEHOLDERS,
    SANDBOXES,
    Ending,
    Held,
    Kin,
    gone,
    grown,
    home_of,
    scene,
)
from isolation_kit import engines, parent

from subagent_codex import Codex
from subagent_process import child_env, run_command
from subagent_testing import Gate
from subagents import Result

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


async def ended(ending: Ending, folder: Path, work: Path, sandbox: str) -> tuple[Result | None, dict[str, list[str]]]:
    """A run that comes to this end: its result, where there is a handle to ask, and what is left."""
    with scene(folder, sandbox) as (provider, kin, gate):
        held = Held(await provider.start("x", cwd=work, deadline=ending.deadline).__aenter__(), kin, gate, work)
        await grown(kin, work, sandbox)
        await ending.act(held)
        result = await held.run.closed() if ending.stop else None
        return result, await held.left(at_once=ending.stop is not None and not ending.lost)


@pytest.mark.parametrize(("anyio_backend", "name", "sandbox"), ROWS)
async def test_nothing_survives(name: str, sandbox: str, work: Path, tmp_path: Path) -> None:
    ending = ENDINGS[name]
    with anyio.fail_after(90):
        result, left = await ended(ending, tmp_path, work, sandbox)
    assert left == {}
    if result:
        assert ending.wrong(result) == ""


async def test_a_loop_that_ends_while_the_run_is_open_ends_it(work: Path, tmp_path: Path, anyio_backend: str) -> None:
    """`asyncio.run` and `trio.run` return; nobody has left the run, and somebody still holds it."""
    kept: list[Held] = []

    async def main(provider: Codex, kin: Kin, gate: Gate) -> None:
        kept.append(Held(await provider.start("x", cwd=work).__aenter__(), kin, gate, work))
        await grown(kin, work, "workspace-write")

    with anyio.fail_after(60), scene(tmp_path, "workspace-write") as parts:
        await anyio.to_thread.run_sync(lambda: anyio.run(main, *parts, backend=anyio_backend))
        result = await kept[0].run.closed()
        assert await kept[0].left(at_once=False) == {}
    assert result.stop_reason == "aborted"


# --- the end of the program that holds it -----------------------------------------------------------------------------


Program = subprocess.Popen[bytes]

NEXT = """
import anyio
from subagent_process import throwaway_home

async def main():
    async with throwaway_home():
        pass

anyio.run(main)
"""


@contextmanager
def holding(base_url: str | None, work: Path, sandbox: str, act: str, fault: str) -> Generator[Program]:
    """A program of its own, in a group of its own, that holds a run."""
    here, pipe = str(Path(__file__).with_name("endings_program.py")), subprocess.PIPE
    order = {"base_url": base_url, "key": KEY, "cwd": str(work), "sandbox": sandbox, "act": act, "fault": fault}
    argv = [sys.executable, here, json.dumps(order)]
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, process_group=0) as program:
        try:
            yield program
        finally:
            program.kill()


@asynccontextmanager
async def program(
    folder: Path, work: Path, sandbox: str, act: str = "", fault: str = ""
) -> AsyncGenerator[tuple[Program, Kin, Path]]:
    """Such a program whose command has grown its kin, and the home of its run."""
    with (
        scene(folder, sandbox) as (provider, kin, _),
        holding(provider.options.base_url, work, sandbox, act, fault) as holder,
    ):
        await grown(kin, work, sandbox)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"entered\n"
        yield holder, kin, home_of(work)


def send(number: int) -> Callable[[Program], None]:
    return lambda holder: holder.send_signal(number)


def interrupt(holder: Program) -> None:
    """Ctrl-C: to everybody in its group."""
    os.killpg(holder.pid, signal.SIGINT)


def go(holder: Program) -> None:
    assert holder.stdin is not None
    holder.stdin.write(b"go\n")
    holder.stdin.flush()


# What is done to it, and whether it lives long enough to put the folder in order.
DEATHS: dict[str, tuple[Callable[[Program], None], bool]] = {
    "sigkill": (send(signal.SIGKILL), False),
    "sigterm": (send(signal.SIGTERM), False),
    "interrupt": (interrupt, True),
    "sys-exit": (go, True),
    "os-exit": (go, False),
}


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
        async with program(tmp_path, work, sandbox, name) as (holder, kin, home):
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
        async with program(tmp_path, work, sandbox) as (holder, kin, home):
            (helper,) = engines(work)
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
        result, _ = await ended(ENDINGS["cancel"], tmp_path, work, "read-only")
    assert result is not None
    assert "home_removed=None" in ENDINGS["cancel"].wrong(result)


@pytest.mark.long
@asyncio_alone
async def test_a_killed_program_that_did_not_hand_over_its_home_leaves_it(work: Path, tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with program(tmp_path, work, "read-only", fault="home kept") as (holder, kin, home):
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
        _, left = await ended(ENDINGS["cancel"], tmp_path, work, "workspace-write")
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
        result, left = await ended(ENDINGS[name], tmp_path, work, sandbox)
    assert left == {}
    assert result is not None
    assert ENDINGS[name].wrong(result) == ""
