"""Many runs at once, helpers that are killed meanwhile, few descriptors: nothing survives, nothing leaks, nothing runs
twice."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import pytest
from endings import ENDINGS, Run

from subagent_process import (
    Ladder,
    OwnedProcess,
    ProcessError,
    SpawnError,
    open_process,
    run_command,
    throwaway_home,
)
from subagent_process import _launcher as launcher  # pyright: ignore[reportPrivateUsage]
from subagent_testing import Family
from subagent_testing.leaks import Snapshot, private_temp

pytestmark = [pytest.mark.anyio, pytest.mark.long]
PATH = {"PATH": "/usr/bin:/bin"}
QUICK = Ladder(eof=0.02, term=0.1, kill=5)


def children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


class Pipe:
    """A named pipe that processes of many trees hold open: its end is proof that all of them are dead."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    async def end(self) -> None:
        with anyio.fail_after(20):
            while self._held():  # noqa: ASYNC110
                await anyio.sleep(0.01)
        os.close(self._fd)

    def _held(self) -> bool:
        try:
            return os.read(self._fd, 1) != b""
        except BlockingIOError:
            return True


async def test_a_storm_of_starts_while_helpers_are_killed_starts_nothing_twice(tmp_path: Path) -> None:
    chance, log = random.Random(7), tmp_path / "log"
    log.touch()
    pipe = Pipe(tmp_path / "pipe")
    script = 'echo "$1" >> "$2"; sleep 300 9> "$3" & sleep 0.02'
    came: dict[int, str] = {}
    slots = anyio.Semaphore(12)

    async def one(number: int) -> None:
        argv = ["sh", "-c", script, "sh", str(number), log, tmp_path / "pipe"]
        async with slots:
            try:
                done = await run_command(argv, env=PATH, timeout=60)
                came[number] = str(done.exit)
            except ProcessError as error:
                came[number] = type(error).__name__

    async def kill() -> None:
        while True:
            await anyio.sleep(0.07)
            guard = launcher.LAUNCHER.guard.pid
            everybody = [guard, *(wardens := children(guard)), *(each for pid in wardens for each in children(pid))]
            with suppress(ProcessLookupError):
                os.kill(chance.choice(everybody), signal.SIGKILL)

    with anyio.fail_after(110):
        async with anyio.create_task_group() as killing:
            killing.start_soon(kill)
            async with anyio.create_task_group() as tasks:
                for number in range(600):
                    tasks.start_soon(one, number)
            killing.cancel_scope.cancel()
    started = Counter(map(int, log.read_text().split()))
    assert [number for number, times in started.items() if times > 1] == []
    # Whoever ended well did run; the others ended with the helpers' signals, or are said to be lost, or not startable.
    assert {number for number, word in came.items() if word == "0"} <= set(started)
    assert set(came.values()) <= {"0", "-15", "-9", "ProcessLost", "SpawnError"}
    assert {"0"} < set(came.values())  # some were hit
    assert len(came) == 600
    await pipe.end()
    assert (await run_command(["echo", "again"], env=PATH, timeout=20)).stdout == b"again\n"


@contextmanager
def busy_cores() -> Generator[None]:
    spinners = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


@pytest.mark.timeout(600)
async def test_240_runs_12_at_a_time_leave_nobody_and_nothing() -> None:
    slots, survivors = anyio.Semaphore(12), list[str]()
    rows = ("close", "cancel", "drop", "leader-exits", "release", "kill-keeper")

    async def one(number: int) -> None:
        name = rows[number % len(rows)]
        ending = ENDINGS[name]
        async with slots, throwaway_home() as home, Family(deaf_leader=number % 2 == 0) as family:
            run = Run(await open_process(family.argv, env=home.env(), ladder=QUICK, home=home))
            await family.grow(within=60)
            if ending.outside:
                await ending.outside(family)
            await ending.act(run)
            survivors.extend(await family.survivors(within=30))

    await run_command(["true"], env=PATH, timeout=20)
    with private_temp() as folder:
        await anyio.to_thread.run_sync(int)  # the pool of threads starts with its first
        before = Snapshot.take(folder)
        with busy_cores(), anyio.fail_after(500):
            async with anyio.create_task_group() as tasks:
                for number in range(240):
                    tasks.start_soon(one, number)
        assert survivors == []
        assert [item for item in before.left(folder) if not item.startswith("thread AnyIO")] == []


@pytest.fixture
def few() -> Iterator[Callable[[int], None]]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda number: resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.timeout(300)
async def test_1000_mixed_runs_under_a_small_limit_leak_nothing(few: Callable[[int], None], tmp_path: Path) -> None:
    few(256)
    plain = tmp_path / "plain"
    plain.touch()
    outcomes: Counter[str] = Counter()
    slots = anyio.Semaphore(20)

    async def one(number: int) -> None:
        kind = ("success", "missing", "not executable", "cancel", "kill")[number % 5]
        async with slots:
            try:
                match kind:
                    case "cancel":
                        with anyio.move_on_after(random.random() / 50) as scope:
                            async with await open_process(["sleep", "60"], env=PATH, ladder=QUICK):
                                await anyio.sleep(60)
                        as_expected = scope.cancelled_caught
                    case "kill":
                        async with await open_process(["sleep", "60"], env=PATH, ladder=QUICK) as process:
                            process.kill()
                            as_expected = await process.wait() == -signal.SIGKILL
                    case _:
                        program = {"success": "true", "missing": "no-such-program"}.get(kind, str(plain))
                        as_expected = (await run_command([program], env=PATH, timeout=60)).exit == 0
            except SpawnError as error:
                as_expected = error.errno == {"missing": errno.ENOENT, "not executable": errno.EACCES}.get(kind)
            outcomes[kind] += as_expected

    await run_command(["true"], env=PATH, timeout=20)
    before = Snapshot.take()
    with anyio.fail_after(250):
        async with anyio.create_task_group() as tasks:
            for number in range(1000):
                tasks.start_soon(one, number)
    assert outcomes == dict.fromkeys(("success", "missing", "not executable", "cancel", "kill"), 200)
    assert before.left() == []


@pytest.mark.timeout(300)
async def test_running_out_of_descriptors_is_a_clear_failure_of_those_that_got_none(few: Callable[[int], None]) -> None:
    few(256)
    await run_command(["true"], env=PATH, timeout=20)
    before = Snapshot.take()
    running: list[OwnedProcess] = []
    refused: list[SpawnError] = []

    async def one() -> None:
        try:
            running.append(await open_process(["cat"], env=PATH, ladder=QUICK))
        except SpawnError as error:
            refused.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(80):
            tasks.start_soon(one)
    assert all(error.errno == errno.EMFILE and "is 256" in str(error) for error in refused)
    assert refused
    assert len(running) > 20
    async with anyio.create_task_group() as tasks:
        for process in running:
            tasks.start_soon(process.aclose)
    assert all(process.report and process.report.clean for process in running)
    running.clear()
    assert before.left() == []


async def test_a_normal_turn_ends_although_a_relative_holds_the_pipes() -> None:
    # How soon is measured in benchmarks/process.py; here the relative would hold them for ever.
    async with Family("pipe-holder") as family:
        async with await open_process(family.argv, env={}, ladder=QUICK) as process:
            await family.grow()
            family.tell("leader", "exit 0")
            with anyio.fail_after(10):
                assert await process.wait() == 0
        assert process.report is not None
        assert process.report.steps == ()
        assert await family.survivors() == ()
