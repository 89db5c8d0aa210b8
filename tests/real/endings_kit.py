"""Runs of the real Codex with a command under way, their ends, and what may be left: nothing."""

from __future__ import annotations

import asyncio
import gc
import os
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio
from codex_kit import against, names, shell
from endings_kin import TRAITS
from isolation_kit import engines, environment, parent

from subagent_codex import Codex
from subagent_testing import Gate, ScriptedResponses, responses
from subagents import Result, Run

PLACEHOLDERS: Final = (".agents", ".aws", ".codex", ".git")
SANDBOXES: Final = ("read-only", "workspace-write", "danger-full-access")
KILLED: Final = -signal.SIGKILL


class Kin:
    """Relatives that a command grows in any sandbox: the end of a pipe is proof of a death, as long as it is open
    somebody lives.  Sockets, which `subagent_testing.Family` has, cannot be reached in a sandbox without a network.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._life: dict[str, int] = {}
        self._lines: list[int] = []
        for name in TRAITS:
            os.mkfifo(life := folder / f"{name}.life")
            os.mkfifo(line := folder / f"{name}.line")
            self._life[name] = os.open(life, os.O_RDONLY | os.O_NONBLOCK)
            self._lines.append(os.open(line, os.O_RDWR | os.O_NONBLOCK))
        program = str(Path(__file__).with_name("endings_kin.py"))
        self.command = "exec " + shlex.join([sys.executable, "-I", "-S", program, str(folder)])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in (*self._lines, *self._life.values()):
            os.close(descriptor)

    async def grow(self) -> None:
        """Wait until all have come."""
        with anyio.fail_after(30):
            for descriptor in self._life.values():
                await anyio.wait_readable(descriptor)
                os.read(descriptor, 64)

    async def survivors(self, *, within: float = 15.0) -> list[str]:
        """Who lives once all have ended, or after so many seconds."""
        living = set(TRAITS)

        async def mourn(name: str) -> None:
            await anyio.wait_readable(self._life[name])
            assert os.read(self._life[name], 64) == b""
            living.remove(name)

        with anyio.move_on_after(within):
            async with anyio.create_task_group() as tasks:
                for name in TRAITS:
                    tasks.start_soon(mourn, name)
        return sorted(living)


class Held:
    """The only reference to a run whose command has grown its kin, and who works for it."""

    def __init__(self, run: Run, kin: Kin, gate: Gate, work: Path) -> None:
        self._run: Run | None = run
        self.gate, self.work = gate, work
        (engine,) = engines(work)
        keeper = parent(engine)
        warden = parent(keeper)
        self.pids = {"engine": engine, "keeper": keeper, "warden": warden, "guard": parent(warden)}
        self.home = home_of(work)
        self._kin = kin

    @property
    def run(self) -> Run:
        assert self._run is not None
        return self._run

    def drop(self) -> None:
        self._run = None
        gc.collect()

    async def left(self, *, at_once: bool) -> dict[str, list[str]]:
        """Who and what is left of it: relatives, the home, and what the sandbox made in the folder.

        What nobody could wait for has a moment to go, unless it is to be gone at once.
        """
        found = {"kin": await self._kin.survivors()}
        with anyio.move_on_after(10):
            while not at_once and (self.home.exists() or names(self.work)):  # noqa: ASYNC110 - nothing tells it
                await anyio.sleep(0.01)
        found["home"] = [str(self.home)] if self.home.exists() else []
        found["folder"] = names(self.work)
        return {name: items for name, items in found.items() if items}


async def gone(path: Path) -> bool:
    """It is gone, or goes in a moment."""
    where = anyio.Path(path)
    with anyio.move_on_after(15):
        while await where.exists():  # noqa: ASYNC110 - nothing tells it
            await anyio.sleep(0.01)
    return not await where.exists()


def home_of(work: Path) -> Path:
    """The throwaway home of the one run in a folder."""
    (engine,) = engines(work)
    return Path(environment(engine)["HOME"]).parent


@contextmanager
def scene(folder: Path, sandbox: str) -> Generator[tuple[Codex, Kin, Gate]]:
    """A provider whose model runs a command that grows its kin, leaves it alone, and then thinks until the gate."""
    gate = Gate()
    with Kin(folder / "kin") as kin:
        script = [[shell(kin.command, yield_time_ms=250)], [gate, responses.message("done")]]
        with ScriptedResponses(script) as api:
            yield against(api, sandbox=sandbox), kin, gate


async def grown(kin: Kin, work: Path, sandbox: str) -> None:
    """The command is at work, and in the folder is what must go: else nothing is shown."""
    await kin.grow()
    assert await kin.survivors(within=0.05) == sorted(TRAITS)
    assert names(work) == (list(PLACEHOLDERS) if sandbox == "workspace-write" else [])


# --- endings ----------------------------------------------------------------------------------------------------------

Act = Callable[[Held], Awaitable[None]]


async def finish(held: Held) -> None:
    """The turn comes to its end, and leaves the command behind."""
    held.gate.release()
    assert (await held.run.closed()).output == "done"


async def cancel(held: Held) -> None:
    held.run.cancel()
    assert (await held.run.result()).stop_reason == "aborted"


async def leave(held: Held) -> None:
    await held.run.__aexit__(None, None, None)


async def drop(held: Held) -> None:
    held.drop()


async def wait(held: Held) -> None:
    await held.run.closed()


async def raise_error(held: Held) -> None:
    with suppress(KeyError):
        async with _entered(held.run):
            raise KeyError


async def cancel_scope(held: Held) -> None:
    with anyio.CancelScope() as scope:
        async with _entered(held.run):
            scope.cancel()
            await anyio.sleep(60)


def cancel_raw(times: int) -> Act:
    async def act(held: Held) -> None:
        running = asyncio.Event()

        async def body() -> None:
            async with _entered(held.run):
                running.set()
                await asyncio.sleep(60)

        task = asyncio.ensure_future(body())
        await running.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0.01)
        with suppress(asyncio.CancelledError):
            await task

    return act


def strike(who: str, number: int = signal.SIGKILL) -> Act:
    async def act(held: Held) -> None:
        os.kill(held.pids[who], number)
        await held.run.closed()

    return act


class _entered:  # noqa: N801  # it reads as a word
    """The body of a run that was entered already."""

    def __init__(self, run: Run) -> None:
        self._run = run

    async def __aenter__(self) -> Run:
        return self._run

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._run.__aexit__(kind, exc, trace)


@dataclass(frozen=True)
class Ending:
    """What is done, and the promise: the word of the verdict, the kind of its failure, steps and exits of the report.

    Attributes:
        act: what is done to the run.
        stop: the word of the verdict; None where nobody is left to ask for it.
        kind: of its failure.
        steps: of the report.
        exit: of the engine, as the report has it.
        lost: the keeper was killed: who removes the home then cannot tell us.
        deadline: of the task, in seconds.
        asyncio_only: there is no such thing on trio.
    """

    act: Act
    stop: str | None = "aborted"
    kind: str | None = None
    steps: tuple[str, ...] = ("eof",)
    exit: int | None = 0
    lost: bool = False
    deadline: float | None = None
    asyncio_only: bool = False

    def wrong(self, result: Result) -> str:
        """All of a result that is not as promised; nothing, if nothing is."""
        report, failure = result.evidence.process, result.failure
        assert report is not None
        good = (
            result.stop_reason == self.stop
            and (failure.kind if failure else None) == self.kind
            and (failure is None or failure.kind != "exit" or failure.exit_code == self.exit)
            and (report.steps, report.exit, report.lost) == (self.steps, self.exit, self.lost)
            and report.home_removed is (None if self.lost else True)
            and report.clean is True
            and report.survivors == report.missing == ()
            and not result.evidence.left_behind
        )
        return "" if good else repr(result)


ENDINGS: Final = {
    "turn-ends": Ending(finish, "completed"),
    "cancel": Ending(cancel),
    "leave": Ending(leave),
    "drop": Ending(drop, None),
    "exception": Ending(raise_error),
    "scope": Ending(cancel_scope),
    "raw-cancel-1": Ending(cancel_raw(1), asyncio_only=True),
    "raw-cancel-2": Ending(cancel_raw(2), asyncio_only=True),
    "raw-cancel-5": Ending(cancel_raw(5), asyncio_only=True),
    "deadline": Ending(wait, "error", "timeout", deadline=5),
    "kill-engine": Ending(strike("engine"), "error", "exit", (), KILLED),
    "terminate-engine": Ending(strike("engine", signal.SIGTERM), "error", "exit", ()),  # it ends in order, with 0
    "kill-keeper": Ending(strike("keeper"), "error", "exit", (), None, lost=True),
    "kill-warden": Ending(strike("warden"), "error", "exit", ()),  # the keeper ends its child with the warden
    "kill-guard": Ending(strike("guard"), "error", "exit", ()),
}
