"""How a run can end, and what its report must say then: one table, for the tests' own loops and for every harness.

`act` is what happens inside the program that holds the run; `outside` what the test does to it meanwhile.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import anyio

from subagent_process import Ladder, OwnedProcess, ProcessLost
from subagent_testing import Family

KILLED, TERMINATED = -signal.SIGKILL, -signal.SIGTERM
POLITE, WHOLE = ("eof", "term"), ("eof", "term", "kill")
LADDER = Ladder(eof=0.05, term=0.1, kill=5)
HELPERS = ("keeper", "warden", "guard")


class Run:
    """One run, and the only reference to it."""

    def __init__(self, process: OwnedProcess) -> None:
        self.held: OwnedProcess | None = process

    @property
    def process(self) -> OwnedProcess:
        assert self.held is not None
        return self.held


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def helpers(process: OwnedProcess) -> dict[str, int]:
    """The pids of the three supervisors of a run."""
    keeper = parent(process.pid)
    warden = parent(keeper)
    return {"keeper": keeper, "warden": warden, "guard": parent(warden)}


async def close(run: Run) -> None:
    await run.process.aclose()


async def cancel(run: Run) -> None:
    with anyio.CancelScope() as scope:
        async with run.process:
            scope.cancel()
            await anyio.sleep(60)


async def raise_error(run: Run) -> None:
    with suppress(KeyError):
        async with run.process:
            raise KeyError


def cancel_raw(times: int) -> Callable[[Run], Awaitable[None]]:
    async def act(run: Run) -> None:
        running = asyncio.Event()

        async def body() -> None:
            async with run.process:
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


async def drop(run: Run) -> None:
    run.held = None
    gc.collect()


async def release(run: Run) -> None:
    run.process.release()
    await run.process.aclose()


async def outlast(run: Run) -> None:
    """Wait for the end that comes from elsewhere, then look at the report."""
    with suppress(ProcessLost), anyio.fail_after(20):
        await run.process.wait()
    await run.process.aclose()


def signal_helpers(*who: str, number: int = signal.SIGKILL, gap: float = 0) -> Callable[[Run], Awaitable[None]]:
    """One after the other, so many seconds apart."""

    async def act(run: Run) -> None:
        pids = helpers(run.process)
        for name in who:
            with suppress(ProcessLookupError):  # with a gap it may have ended, as it should
                os.kill(pids[name], number)
            await anyio.sleep(gap)
        await outlast(run)

    return act


def kill_under_a_stopped_guard() -> Callable[[Run], Awaitable[None]]:
    async def act(run: Run) -> None:
        pids = helpers(run.process)
        os.kill(pids["guard"], signal.SIGSTOP)
        os.kill(pids["keeper"], signal.SIGKILL)
        os.kill(pids["warden"], signal.SIGKILL)
        await outlast(run)

    return act


def stop_helpers(*who: str) -> Callable[[Run], Awaitable[None]]:
    async def act(run: Run) -> None:
        pids = helpers(run.process)
        for name in who:
            os.kill(pids[name], signal.SIGSTOP)
        await run.process.aclose()

    return act


async def exit_leader(family: Family) -> None:
    await family.exit_leader(7)


async def crash_leader(family: Family) -> None:
    os.kill(family.pids["leader"], signal.SIGSEGV)


async def stop_everybody(family: Family) -> None:
    for pid in family.pids.values():
        os.kill(pid, signal.SIGSTOP)


@dataclass(frozen=True)
class Ending:
    """What is done, and what the report says: `exits` are the possible ones; lost is who lost its keeper."""

    act: Callable[[Run], Awaitable[None]]
    steps: tuple[str, ...]
    exits: tuple[int | None, ...] = (KILLED,)
    clean: bool | None = True
    losing: bool = False
    outside: Callable[[Family], Awaitable[None]] | None = None
    deaf: bool = True
    extras: tuple[str, ...] = ()
    ladder: Ladder = LADDER
    asyncio_only: bool = False


# The second cancellation comes while the first rung is being waited for.
_SLOW = Ladder(eof=10, term=0.1, kill=5)

ENDINGS: dict[str, Ending] = {
    "close": Ending(close, WHOLE),
    "close-polite": Ending(close, POLITE, (TERMINATED,), deaf=False),
    "cancel": Ending(cancel, WHOLE),
    "exception": Ending(raise_error, WHOLE),
    "raw-cancel-1": Ending(cancel_raw(1), WHOLE, asyncio_only=True),
    "raw-cancel-2": Ending(cancel_raw(2), ("eof",), (None,), None, ladder=_SLOW, asyncio_only=True),
    "raw-cancel-5": Ending(cancel_raw(5), ("eof",), (None,), None, ladder=_SLOW, asyncio_only=True),
    "drop": Ending(drop, ()),
    "release": Ending(release, ()),
    "leader-exits": Ending(outlast, (), (7,), outside=exit_leader),
    "leader-crashes": Ending(outlast, (), (-signal.SIGSEGV,), outside=crash_leader),
    "stopped-tree": Ending(close, POLITE, (TERMINATED,), outside=stop_everybody, deaf=False),
    "hopper-close": Ending(close, WHOLE, extras=("hopper",)),
    "hopper-leader-exits": Ending(outlast, (), (7,), outside=exit_leader, extras=("hopper",)),
    "hopper-kill-keeper": Ending(signal_helpers("keeper"), (), (None,), losing=True, extras=("hopper",)),
    "pipes-held": Ending(outlast, (), (7,), outside=exit_leader, extras=("pipe-holder",)),
    "kill-keeper": Ending(signal_helpers("keeper"), (), (None,), losing=True),
    "kill-warden": Ending(signal_helpers("warden"), ()),
    "kill-guard": Ending(signal_helpers("guard"), ()),
    **{
        f"kill-{first}-{second}-{gap}ms": Ending(
            signal_helpers(first, second, gap=gap / 1000), (), (None, KILLED), losing=True
        )
        for first, second in permutations(HELPERS, 2)
        for gap in (0, 30, 150)
    },
    **{
        f"terminate-{who}": Ending(
            signal_helpers(who, number=signal.SIGTERM), (), (TERMINATED,), deaf=False
        )
        for who in HELPERS
    },
    **{f"stop-{who}": Ending(stop_helpers(who), WHOLE) for who in HELPERS},
    "kill-two-under-a-stopped-guard": Ending(kill_under_a_stopped_guard(), (), (None,), losing=True),
    "stop-all-helpers": Ending(
        stop_helpers(*reversed(HELPERS)),
        (*WHOLE, "warden"),
        (None, KILLED),
        losing=True,
        ladder=Ladder(eof=0.05, term=0.1, kill=2),
    ),
}  # fmt: skip
