"""How a start goes wrong in the supervisors, played by a scripted warden at the other end of the real socket."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Generator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from subagent_process import Ladder, ProcessError, ProcessLost, SpawnError, open_process, run_command
from subagent_process import _launcher as launcher  # pyright: ignore[reportPrivateUsage]
from subagent_process._supervisor import protocol
from subagent_process.errors import shortage_error

pytestmark = pytest.mark.anyio
PATH = {"PATH": "/usr/bin:/bin"}
LAUNCHER = launcher.LAUNCHER


class Script:
    """Answers each hand-over with the next text, reads the request, and closes unless told to hold on."""

    def __init__(self, sock: socket.socket, answers: list[bytes], *, hold: bool) -> None:
        self._sock, self._answers, self._hold = sock, answers, hold
        self.taken = 0
        self._held: list[int] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for answer in self._answers:
            data, fds, _, _ = socket.recv_fds(self._sock, protocol.MESSAGE, 4)
            if not fds:
                assert data[:1] in (b"", protocol.ABANDON)
                return
            self.taken += 1
            ctl, *stdio = fds
            os.set_blocking(ctl, True)
            if answer.startswith(b"B"):
                os.read(ctl, 1 << 20)
            os.write(ctl, answer)
            for fd in stdio:
                os.close(fd)
            self._held.append(ctl)
            if not self._hold:
                self.let_go()

    def let_go(self) -> None:
        while self._held:
            os.close(self._held.pop())

    def join(self) -> None:
        self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self.let_go()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[..., Script]]:
    """Puts a scripted warden in the place of the real one."""
    scripts: list[Script] = []
    sockets: list[socket.socket] = []

    def put(*answers: bytes, hold: bool = False) -> Script:
        near, far = socket.socketpair()
        near.setblocking(False)
        sockets.extend((near, far))
        monkeypatch.setattr(LAUNCHER, "_socket", near)
        monkeypatch.setattr(LAUNCHER, "_ids", launcher._ids())  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(LAUNCHER, "guard", launcher.Guard(1))  # no child of ours
        scripts.append(Script(far, list(answers), hold=hold))
        return scripts[-1]

    yield put
    for script in scripts:
        script.join()
    for sock in sockets:
        sock.close()


async def test_what_had_begun_is_lost_and_never_started_twice(scripted: Callable[..., Script]) -> None:
    script = scripted(b"B 1 1\n", b"B 1 1\n")
    with pytest.raises(ProcessLost, match="before it was known whether it had started") as caught:
        await open_process(["true"], env=PATH)
    assert caught.value.pid is None
    assert script.taken == 1


@pytest.mark.parametrize("answer", [b"", b"R 0\n"])
async def test_what_had_not_begun_is_tried_again_and_then_given_up(
    answer: bytes, scripted: Callable[..., Script], descriptors: Callable[[], int]
) -> None:
    script = scripted(answer, answer, answer)
    before = descriptors()
    with pytest.raises(SpawnError, match="no process or descriptor left") as caught:
        await open_process(["true"], env=PATH)
    assert caught.value.errno == errno.EAGAIN
    assert script.taken == 3
    assert descriptors() == before


async def test_after_a_change_of_ids_there_is_a_new_warden_and_the_old_one_keeps_its_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = LAUNCHER.start()[0]
    async with await open_process(["cat"], env=PATH) as process:
        monkeypatch.setattr(launcher, "_ids", lambda: (1, 2, 3, 4))
        assert (await run_command(["echo", "x"], env=PATH, timeout=20)).stdout == b"x\n"
        new = LAUNCHER.start()[0]
        assert new is not old
        LAUNCHER.retire(old)  # somebody else has noticed before
        assert LAUNCHER.start()[0] is new
        await process.send_line({"still": "here"})
        with anyio.fail_after(20):
            assert await anext(process.messages()) == {"still": "here"}
    LAUNCHER.retire(new)


async def test_a_missing_promise_is_in_the_report(scripted: Callable[..., Script]) -> None:
    scripted(b"B 0 1\nS 5\nX 0\nD 0 0\n")
    report = await (await open_process(["true"], env=PATH)).aclose()
    assert report.missing == ("daemons",)
    assert report.clean is False


async def test_a_shutdown_that_nobody_answers_is_bounded_and_says_so(scripted: Callable[..., Script]) -> None:
    scripted(b"B 1 1\nS 5\n", hold=True)
    report = await (await open_process(["true"], env=PATH, ladder=Ladder(0, 0, 0.1))).aclose()
    assert report.steps == ("eof", "term", "kill", "warden", "leaked")
    assert (report.exit, report.clean, report.lost) == (None, None, False)


async def test_nobody_can_tell_when_the_guard_was_reaped_by_others(scripted: Callable[..., Script]) -> None:
    scripted(b"B 1 1\nS 5\n")
    report = await (await open_process(["true"], env=PATH)).aclose()
    assert (report.clean, report.lost, report.exit) == (None, True, None)


async def test_the_keepers_refusal_names_its_reason(scripted: Callable[..., Script]) -> None:
    scripted(b"B 1 1\nE %d exec\nD 1 0\n" % errno.EAGAIN)
    with pytest.raises(SpawnError, match="Resource temporarily unavailable"):
        await open_process(["true"], env=PATH)


async def test_a_guard_that_does_not_end_in_time_proves_nothing() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:  # noqa: ASYNC220
        guard = launcher.Guard(child.pid)
        assert await guard.proof(0.01) is False
        child.kill()
        assert await guard.proof(5) is False
        assert await guard.proof(5) is False  # whoever asks next hears the same
    assert await launcher.Guard(child.pid).proof(5) is None


async def test_a_full_queue_is_waited_for() -> None:
    await run_command(["true"], env=PATH, timeout=20)
    guard = LAUNCHER.guard.pid
    (warden,) = map(int, Path(f"/proc/{guard}/task/{guard}/children").read_text().split())
    os.kill(warden, signal.SIGSTOP)
    done: list[bytes] = []

    async def run() -> None:
        done.append((await run_command(["echo", "x"], env=PATH, timeout=60)).stdout)

    try:
        async with anyio.create_task_group() as tasks:
            for _ in range(320):  # a socket takes about 280 such messages
                tasks.start_soon(run)
            while LAUNCHER.hand_over([0]) is not None:
                await anyio.lowlevel.checkpoint()
            os.kill(warden, signal.SIGCONT)
    finally:
        os.kill(warden, signal.SIGCONT)
    assert done == [b"x\n"] * 320


async def test_a_system_without_processes_left_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    LAUNCHER.retire(LAUNCHER.start()[0])

    def refused(_channel: int) -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    with monkeypatch.context() as patch:
        patch.setattr(launcher, "_spawn_guard", refused)
        with pytest.raises(SpawnError, match="Resource temporarily unavailable"):
            await open_process(["true"], env=PATH)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.EMFILE, "the limit (RLIMIT_NOFILE, ulimit -n) is 77"),
        (errno.ENFILE, "fs.file-max"),
        (errno.ENOMEM, "memory"),
    ],
)
def test_each_shortage_has_its_words(code: int, words: str) -> None:
    assert words in str(shortage_error("x", code, 77))


async def test_a_supervisor_that_cannot_stay_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    LAUNCHER.retire(LAUNCHER.start()[0])

    def ends_at_once(_channel: int) -> int:
        child = os.posix_spawn("/bin/true", ["true"], {})
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        return child

    with monkeypatch.context() as patch:
        patch.setattr(launcher, "_spawn_guard", ends_at_once)
        with pytest.raises(ProcessError, match="it ended at once, 3 times"):
            await open_process(["true"], env=PATH)
    assert (await run_command(["echo", "x"], env=PATH, timeout=20)).stdout == b"x\n"


def test_retired_guards_are_reaped_also_by_somebody_else() -> None:
    sock, guard = LAUNCHER.start()
    LAUNCHER.retire(sock)
    os.waitpid(guard.pid, 0)
    other, _ = LAUNCHER.start()
    LAUNCHER.retire(other)
    assert guard not in LAUNCHER._ended  # pyright: ignore[reportPrivateUsage]


def test_the_channel_may_be_the_descriptor_that_the_guard_expects() -> None:
    script = """
import os, sys, anyio
for fd in range(3, 50):
    try: os.close(fd)
    except OSError: pass
from subagent_process.errors import shortage_error
from subagent_process import _launcher, run_command
os.close(os.dup(0))
near = os.dup(0)                                # takes 3; freed when the pair is made, so that "far" may be 3
real = _launcher.socket.socketpair
def pair():
    a, b = real(); os.close(near); c = b.dup(); b.close(); return a, c
_launcher.socket.socketpair = pair
sock, guard = _launcher.LAUNCHER.start()
_launcher.socket.socketpair = real
print(anyio.run(lambda: run_command(["/bin/echo", "x"], env={}, timeout=20)).stdout)
"""
    import sys

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "b'x\\n'\n", done.stderr
