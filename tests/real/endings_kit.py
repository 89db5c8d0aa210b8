"""Runs of a real engine with a command under way, their ends, and what may be left: nothing.

What differs between the engines is data: an `Engine`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import anyio
from endings_kin import TRAITS
from isolation_kit import environment, parent

from subagent_testing import Gate
from subagents import Permission, Provider, Result, Run

KILLED: Final = -signal.SIGKILL
Exit: TypeAlias = tuple[tuple[str, ...], int | None]
"""What the report says: the steps of the ladder, and the exit of the engine."""


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

    def __init__(self, run: Run, scene: Scene, pid: int) -> None:
        self._run: Run | None = run
        self.gate, self.work = scene.gate, scene.work
        keeper = parent(pid)
        warden = parent(keeper)
        self.pids = {"engine": pid, "keeper": keeper, "warden": warden, "guard": parent(warden)}
        self.home = home_of(pid)
        self._kin = scene.kin

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


def home_of(pid: int) -> Path:
    """The throwaway home of an engine."""
    return Path(environment(pid)["HOME"]).parent


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


@dataclass(frozen=True)
class Scene:
    """A provider whose model runs a command that grows its kin, leaves it alone, and then thinks until the gate.

    Attributes:
        options: of the provider, plain JSON.
        made: what is in the folder as long as the command is at work.
    """

    provider: Provider
    options: Mapping[str, Any]
    permission: Permission
    work: Path
    kin: Kin
    gate: Gate
    made: Sequence[str]

    async def grown(self) -> None:
        """The command is at work, and in the folder is what must go: else nothing is shown."""
        await self.kin.grow()
        assert await self.kin.survivors(within=0.05) == sorted(TRAITS)
        assert names(self.work) == list(self.made)


@dataclass(frozen=True)
class Engine:
    """What differs between the engines.

    Attributes:
        provider: the class of it, as `subagent_codex:Codex`.
        scene: of a run in a temporary folder, in a folder of its own, in a named surrounding, for a named ending.
        pids: the engines at work for a folder.
        exits: ending -> what the report says; "" for those that are not named.
    """

    provider: str
    scene: Callable[[Path, Path, str, str], AbstractContextManager[Scene]]
    pids: Callable[[Path], list[int]]
    exits: Mapping[str, Exit]

    async def hold(self, scene: Scene, *, deadline: float | None = None) -> Held:
        """A run whose command has grown its kin."""
        run = await scene.provider.start(
            "x", cwd=scene.work, deadline=deadline, permission=scene.permission
        ).__aenter__()
        await scene.grown()
        (pid,) = self.pids(scene.work)
        return Held(run, scene, pid)

    async def ended(
        self, name: str, folder: Path, work: Path, surrounding: str
    ) -> tuple[Result | None, dict[str, list[str]]]:
        """A run that comes to this end: its result, where there is a handle to ask, and what is left."""
        ending = ENDINGS[name]
        with self.scene(folder, work, surrounding, name) as scene:
            held = await self.hold(scene, deadline=ending.deadline)
            await ending.act(held)
            result = await held.run.closed() if ending.stop else None
            return result, await held.left(at_once=ending.stop is not None and not ending.lost)

    def wrong(self, name: str, result: Result) -> str:
        """All of a result that is not as promised; nothing, if nothing is."""
        ending, (steps, code) = ENDINGS[name], self.exits.get(name, self.exits[""])
        report, failure = result.evidence.process, result.failure
        assert report is not None
        good = (
            result.stop_reason == ending.stop
            and (failure.kind if failure else None) == ending.kind
            and (failure is None or failure.kind != "exit" or failure.exit_code == code)
            and (report.steps, report.exit, report.lost) == (steps, code, ending.lost)
            and report.home_removed is (None if ending.lost else True)
            and report.clean is True
            and report.survivors == report.missing == ()
            and not result.evidence.left_behind
        )
        return "" if good else repr(result)

    @asynccontextmanager
    async def program(
        self, folder: Path, work: Path, surrounding: str, act: str = "", fault: str = ""
    ) -> AsyncGenerator[tuple[Program, Kin, int]]:
        """A program of its own that holds a run whose command has grown its kin, and the pid of the engine."""
        with self.scene(folder, work, surrounding, act) as scene:
            order = {
                "provider": self.provider,
                "options": scene.options,
                "permission": scene.permission,
                "cwd": str(work),
                "act": act,
                "fault": fault,
            }
            with _holding(order) as holder:
                await scene.grown()
                assert holder.stdout is not None
                assert holder.stdout.readline() == b"entered\n"
                (pid,) = self.pids(work)
                yield holder, scene.kin, pid


def provider_of(name: str, options: Mapping[str, Any]) -> Provider:
    """`subagent_codex:Codex`, with these options."""
    module, _, word = name.partition(":")
    return getattr(import_module(module), word)(**options)


Program: TypeAlias = subprocess.Popen[bytes]


@contextmanager
def _holding(order: Mapping[str, Any]) -> Generator[Program]:
    """A program in a group of its own."""
    here, pipe = str(Path(__file__).with_name("endings_program.py")), subprocess.PIPE
    argv = [sys.executable, here, json.dumps(order)]
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, process_group=0) as program:
        try:
            yield program
        finally:
            program.kill()


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
    """What is done, and the promise: the word of the verdict, and the kind of its failure.

    Attributes:
        act: what is done to the run.
        stop: the word of the verdict; None where nobody is left to ask for it.
        kind: of its failure.
        lost: the keeper was killed: who removes the home then cannot tell us.
        deadline: of the task, in seconds.
        asyncio_only: there is no such thing on trio.
    """

    act: Act
    stop: str | None = "aborted"
    kind: str | None = None
    lost: bool = False
    deadline: float | None = None
    asyncio_only: bool = False


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
    "kill-engine": Ending(strike("engine"), "error", "exit"),
    "terminate-engine": Ending(strike("engine", signal.SIGTERM), "error", "exit"),
    "kill-keeper": Ending(strike("keeper"), "error", "exit", lost=True),
    "kill-warden": Ending(strike("warden"), "error", "exit"),  # the keeper ends its child with the warden
    "kill-guard": Ending(strike("guard"), "error", "exit"),
}


# --- the end of the program that holds it -----------------------------------------------------------------------------


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
DEATHS: Final[dict[str, tuple[Callable[[Program], None], bool]]] = {
    "sigkill": (send(signal.SIGKILL), False),
    "sigterm": (send(signal.SIGTERM), False),
    "interrupt": (interrupt, True),
    "sys-exit": (go, True),
    "os-exit": (go, False),
}
