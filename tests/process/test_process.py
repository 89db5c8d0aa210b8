"""Waiting for a child, ending it, and the harness around it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from talk import python, slurp

from subagent_process import (
    Ladder,
    ProcessError,
    ShutdownReport,
    child_env,
    open_process,
    redact,
    run_command,
    throwaway_home,
)
from subagent_process import _launcher as launcher  # pyright: ignore[reportPrivateUsage]

pytestmark = pytest.mark.anyio
PATH = {"PATH": "/usr/bin:/bin"}
QUICK = Ladder(eof=0.1, term=0.1, kill=5)


def threads() -> int:
    """The kernel's count: a C library could start some that Python does not know."""
    return len(os.listdir("/proc/self/task"))


async def output(*argv: str | os.PathLike[str], env: dict[str, str] | None = None, **options: object) -> bytes:
    """What a command writes to stdout."""
    async with await open_process(argv, env=PATH if env is None else env, **options) as process:  # pyright: ignore[reportArgumentType]
        return await slurp(process.stdout)


async def test_waiting_does_not_wait_for_a_grandchild_that_holds_the_pipes() -> None:
    async with await open_process(["sh", "-c", "sleep 300 & exit 4"], env=PATH) as process:
        with anyio.fail_after(5):
            assert await process.wait() == 4
            assert await slurp(process.stdout) == b""  # and the sweep closes the grandchild's end
    assert process.report is not None
    assert process.report.killed == 1


async def test_a_pipe_that_the_child_closes_ends_while_it_lives() -> None:
    async with await open_process(["sh", "-c", "exec >&- 2>&-; read x"], env=PATH) as process:
        with anyio.fail_after(10):
            assert await slurp(process.stdout) == await slurp(process.stderr) == b""
        assert process.returncode is None


async def test_a_pipe_that_was_given_up_during_the_shutdown_is_closed_for_its_reader() -> None:
    process = await open_process(["sh", "-c", "trap '' TERM; sleep 60"], env=PATH, ladder=Ladder(0.3, 0.3, 5))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process.aclose)
        await anyio.sleep(0.2)
        with pytest.raises(anyio.ClosedResourceError):
            await process.stdout.receive()
    assert process.report is not None


async def test_orphans_that_end_during_the_run_are_reaped() -> None:
    script = "for i in 1 2 3 4 5; do (setsid sh -c 'echo x >&2' &); done; echo {}; read x"
    async with await open_process(["sh", "-c", script], env=PATH) as process:
        assert await anext(process.messages()) == {}
        for _ in range(5):
            await process.stderr.receive(2)
        keeper = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1])
        with anyio.fail_after(10):
            while Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split() != [str(process.pid)]:  # noqa: ASYNC110
                await anyio.sleep(0.005)


async def test_an_ignored_sigchld_changes_nothing() -> None:
    launcher.LAUNCHER.retire(launcher.LAUNCHER.start()[0])
    old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        async with await open_process(["sh", "-c", "sleep 60 & exit 3"], env=PATH) as process:
            assert await process.wait() == 3
        launcher.LAUNCHER.retire(launcher.LAUNCHER.start()[0])
    finally:
        signal.signal(signal.SIGCHLD, old)
    assert process.report is not None
    assert (process.report.clean, process.report.killed) == (True, 1)


async def test_many_may_wait_and_some_may_be_cancelled() -> None:
    results: list[int] = []
    async with await open_process(["cat"], env=PATH) as process:

        async def wait() -> None:
            results.append(await process.wait())

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(wait)
            with anyio.move_on_after(0.05):
                await process.wait()
            await process.stdin.aclose()
        assert await process.wait() == 0
    assert results == [0] * 5
    assert await process.wait() == 0


async def test_a_polite_child_is_asked_no_twice() -> None:
    async with await open_process(["cat"], env=PATH) as process:
        pass
    report = process.report
    assert isinstance(report, ShutdownReport)
    assert (report.steps, report.exit, report.clean, report.killed) == (("eof",), 0, True, 0)
    assert report.home_removed is None
    assert 0 <= report.duration < 5


async def test_two_that_close_at_once_get_the_same_report() -> None:
    process = await open_process(["sleep", "60"], env=PATH, ladder=QUICK)
    reports: list[ShutdownReport] = []

    async def close() -> None:
        reports.append(await process.aclose())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(close)
        tasks.start_soon(close)
    assert reports[0] is reports[1]
    assert reports[0].steps == ("eof", "term")


async def test_a_child_that_says_goodbye_at_length_is_not_killed_for_it() -> None:
    script = "import sys; sys.stdin.read(); [f.write('x' * 3_000_000) for f in (sys.stdout, sys.stderr)]; sys.exit(5)"
    async with await open_process(python(script), env={}, ladder=Ladder(eof=10)) as process:
        pass
    assert process.report is not None
    assert (process.report.steps, process.report.exit) == (("eof",), 5)


async def test_a_reader_that_is_active_keeps_its_stream_during_the_shutdown() -> None:
    script = "import sys; sys.stdin.read(); [print('{\"n\":%d}' % n) for n in range(50_000)]"
    process = await open_process(python(script), env={}, ladder=Ladder(eof=20))
    got: list[dict[str, object]] = []

    async def read() -> None:
        got.extend([message async for message in process.messages()])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        await process.aclose()
    assert len(got) == 50_000


async def test_after_the_end_the_streams_are_closed(descriptors: Callable[[], int]) -> None:
    await run_command(["true"], env=PATH, timeout=20)
    before = descriptors()
    async with await open_process(["cat"], env=PATH) as process:
        assert descriptors() - before == 4
    assert descriptors() == before
    for stream in (process.stdout, process.stderr):
        with pytest.raises(anyio.ClosedResourceError):
            await stream.receive()
    await process.stdout.aclose()
    await process.stdin.aclose()


async def test_a_run_with_a_home_takes_five_descriptors(descriptors: Callable[[], int]) -> None:
    await run_command(["true"], env=PATH, timeout=20)
    async with throwaway_home():
        pass  # the first home of a process starts a worker thread
    before = descriptors()
    async with throwaway_home() as home, await open_process(["cat"], env=PATH, home=home):
        assert descriptors() - before == 5
    assert descriptors() == before


async def test_a_child_that_stops_itself_and_ignores_everything_is_killed(descriptors: Callable[[], int]) -> None:
    before = descriptors()
    script = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("{}", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
signal.pause()
"""
    async with await open_process(python(script), env={}, ladder=QUICK) as process:
        await anext(process.messages())
    assert process.report is not None
    assert process.report.steps == ("eof", "term", "kill")
    assert process.report.exit == -signal.SIGKILL
    assert descriptors() == before


async def test_no_thread_is_started_for_children() -> None:
    await run_command(["true"], env=PATH, timeout=20)
    before = threads()
    running = [await open_process(["cat"], env=PATH) for _ in range(20)]
    async with anyio.create_task_group() as tasks:
        for process in running:
            tasks.start_soon(process.wait)
        await anyio.lowlevel.checkpoint()
        assert threads() <= before
        for process in running:
            tasks.start_soon(process.aclose)


async def test_cancelling_the_start_leaves_nothing(descriptors: Callable[[], int]) -> None:
    await run_command(["true"], env=PATH, timeout=20)
    before = descriptors()
    for _ in range(20):
        with anyio.move_on_after(0):
            await open_process(["sleep", "60"], env=PATH)
        with anyio.move_on_after(0.001):
            await open_process(["sleep", "60"], env=PATH)
    assert descriptors() == before
    guard = launcher.LAUNCHER.guard.pid
    (warden,) = map(int, Path(f"/proc/{guard}/task/{guard}/children").read_text().split())
    with anyio.fail_after(10):
        while Path(f"/proc/{warden}/task/{warden}/children").read_text():  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def test_cancelling_in_the_middle_of_a_request_starts_nothing(tmp_path: Path) -> None:
    big = ["x" * 100_000] * 100
    with anyio.move_on_after(0) as scope:
        await open_process(["touch", str(tmp_path / "f"), *big], env=PATH, ladder=Ladder(kill=1000))
    assert scope.cancelled_caught
    assert list(tmp_path.iterdir()) == []


async def test_no_repr_and_no_message_tells_an_argument() -> None:
    async with await open_process(["sh", "-c", "read x; exit 0", "hush"], env=PATH | {"K": "hush"}) as process:
        assert repr(process) == f"<OwnedProcess sh pid={process.pid} running>"
        await process.stdin.aclose()
        await process.wait()
    assert repr(process) == f"<OwnedProcess sh pid={process.pid} exit 0>"
    assert "hush" not in repr(process.report)
    assert process.name == "sh"


async def test_a_signal_to_the_child_is_no_business_of_ours() -> None:
    async with await open_process(["sleep", "60"], env=PATH) as process:
        os.kill(process.pid, signal.SIGUSR1)
        assert await process.wait() == -signal.SIGUSR1


def test_two_loops_in_two_threads_share_the_supervisors() -> None:
    failures: list[BaseException] = []

    async def work() -> None:
        for _ in range(10):
            assert await output("echo", "x") == b"x\n"

    def run(backend: str) -> None:
        try:
            anyio.run(work, backend=backend)
        except BaseException as error:  # noqa: BLE001 - a thread has nobody else to tell
            failures.append(error)

    threads = [threading.Thread(target=run, args=(backend,)) for backend in ("asyncio", "trio")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


FORK = """
import atexit, gc, os, sys, threading, anyio, anyio.to_thread
from subagent_process import open_process, run_command
from subagent_process import _launcher as launcher
async def inner():
    done = await run_command(["/bin/echo", "child"], env={}, timeout=20)
    print(done.stdout.decode().strip(), launcher.LAUNCHER.guard.pid != int(sys.argv[1]), flush=True)
async def main():
    process = await open_process(["/bin/cat"], env={})
    sys.argv[1:] = [str(launcher.LAUNCHER.guard.pid)]
    if (pid := os.fork()) == 0:
        thread = threading.Thread(target=anyio.run, args=(inner,)); thread.start(); thread.join()
        gc.collect(); atexit._run_exitfuncs(); os._exit(0)
    await anyio.to_thread.run_sync(os.waitpid, pid, 0)
    await process.send_line({"still": "here"})
    print(await anext(process.messages()), flush=True)
    report = await process.aclose()
    print(report.steps, report.exit)
anyio.run(main)
"""


async def test_a_fork_of_the_harness_has_supervisors_of_its_own_and_leaves_ours_alone() -> None:
    env = child_env(passing=["PYTHONPATH"], set={"PYTHONWARNINGS": "ignore"})
    done = await run_command([sys.executable, "-c", FORK], env=env, timeout=40)
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "child True", done.stderr
    assert lines[-2:] == ["{'still': 'here'}", "('eof',) 0"], done.stderr


async def test_a_broken_interpreter_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    sock, _ = launcher.LAUNCHER.start()
    launcher.LAUNCHER.retire(sock)
    for executable in ("/bin/false", "/nope", "/etc/passwd", ""):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", executable)
            with pytest.raises(ProcessError, match="supervisor"):
                await open_process(["true"], env=PATH)
    assert await output("echo", "again") == b"again\n"


async def test_redaction_reads_the_ambient_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKECORP_TOKEN", "yellow-submarine")
    assert redact("in a yellow-submarine") == "in a [redacted]"


def test_pipes_are_no_sockets() -> None:
    async def main() -> None:
        assert await output("sh", "-c", "echo x > /dev/stdout") == b"x\n"

    anyio.run(main)


WINDOWS = """
import sys, os, anyio, anyio.to_thread, anyio._backends._asyncio
import subagent_process  # once, so that the standard library is there, which has its own idea of Windows
for name in [name for name in sys.modules if name.startswith("subagent_process")]:
    del sys.modules[name]
for name in ("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_PATH", "register_at_fork", "posix_spawn", "fork"):
    delattr(os, name)
sys.modules |= dict.fromkeys(("fcntl", "grp", "posix", "pwd", "resource", "termios"))
sys.platform = "win32"
import subagent_process
try:
    anyio.run(lambda: subagent_process.open_process(["true"], env={}))
except subagent_process.UnsupportedPlatform as error:
    print(error)
print(subagent_process.child_env(ambient={"A": "1"}))
"""


async def test_the_package_can_be_imported_where_no_process_can_be_owned() -> None:
    done = await run_command([sys.executable, "-c", WINDOWS], env=child_env(passing=["PYTHONPATH"]), timeout=30)
    assert b"Owning a child process needs Linux" in done.stdout, done.stderr
    assert done.stdout.endswith(b"{'A': '1', 'SUBAGENT_DEPTH': '1'}\n")
