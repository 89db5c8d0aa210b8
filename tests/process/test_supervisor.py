"""The supervisors' decisions, which are pure functions, and what they ask the kernel."""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from subagent_process._control import Status
from subagent_process._supervisor import guard, keeper, kernel, marker, procfs, protocol, warden
from subagent_process._supervisor.protocol import Request

TERM, KILL = signal.SIGTERM, signal.SIGKILL
POLITE = (signal.SIGTERM, signal.SIGCONT)


def _request(**changes: object) -> Request:
    options: dict[str, object] = {"umask": -1, "files": 1024, "grace": 1.5}
    return Request([b"a", b"", b"\xff\n"], {b"A": b"1=2", b"B": b""}, b"/cwd", **(options | changes))  # pyright: ignore[reportArgumentType]


def _fields(request: Request) -> dict[str, object]:
    return {name: getattr(request, name) for name in Request.__slots__}


@pytest.mark.parametrize("orders", [b"", b"T", b"TK"])
def test_a_request_is_decoded_only_when_it_is_whole(orders: bytes) -> None:
    request = _request(home=b"/home", device=5, inode=6, umask=0o27)
    data = request.encode() + orders
    for cut in range(len(data) - len(orders)):
        assert Request.decode(data[:cut]) is None
    decoded = Request.decode(data)
    assert decoded is not None
    assert _fields(decoded[0]) == _fields(request)
    assert decoded[1] == orders


def test_a_request_without_environment_and_home_is_whole_too() -> None:
    request = Request([b"a"], {}, b"/", umask=-1, files=-1, grace=0)
    decoded = Request.decode(request.encode())
    assert decoded is not None
    assert _fields(decoded[0]) == _fields(request)


@pytest.mark.parametrize(
    ("orders", "letting_go", "kill_at", "now", "signals", "then"),
    [
        (b"", False, None, 10, (), None),
        (b"T", False, None, 10, POLITE, None),
        (b"K", False, None, 10, (KILL,), 11),
        (b"TK", False, None, 10, (*POLITE, KILL), 11),
        (b"", True, None, 10, POLITE, 12),
        (b"", True, 12, 11, (), 12),
        (b"", True, 12, 12, (KILL,), 13),
        (b"K", True, 12, 10, (KILL,), 11),
        (b"", False, 11, 11.5, (KILL,), 12.5),
    ],
)
def test_orders_and_endings_become_signals(
    orders: bytes, letting_go: bool, kill_at: float | None, now: float, signals: tuple[int, ...], then: float | None
) -> None:
    assert keeper.decide(orders, letting_go, kill_at, now, 2) == (signals, then)


def test_no_grace_is_longer_than_the_warden_waits() -> None:
    assert keeper.decide(b"", True, None, 0, 10_000)[1] == keeper.LONGEST_GRACE < warden.PATIENCE
    assert keeper.decide(b"", True, None, 0, 0)[0] == (*POLITE, KILL)


@pytest.mark.parametrize(
    ("program", "env", "files"),
    [
        (b"/bin/x", {b"PATH": b"/a"}, [b"/bin/x"]),
        (b"./x", {}, [b"./x"]),
        (b"x", {b"PATH": b"/a:/b"}, [b"/a/x", b"/b/x"]),
        (b"x", {b"PATH": b"/a::"}, [b"/a/x", b"./x", b"./x"]),
        (b"x", {}, [os.path.join(part.encode(), b"x") for part in os.defpath.split(":")]),
    ],
)
def test_a_name_is_searched_for_in_the_childs_path(program: bytes, env: dict[bytes, bytes], files: list[bytes]) -> None:
    assert keeper.candidates(program, env) == files


def test_descriptors_of_a_message_are_not_inherited_and_other_words_are_passed_over() -> None:
    near, far = socket.socketpair()
    with near, far:
        socket.send_fds(near, [b"r"], [0, 0, 0, 0])
        _, ancillary, _, _ = far.recvmsg(1, warden.ROOM)
    fds = warden.unpack([*ancillary, (socket.IPPROTO_IP, 0, b"1234")])
    inherited = [os.get_inheritable(fd) for fd in fds]
    for fd in fds:
        os.close(fd)
    assert inherited == [False] * warden.DESCRIPTORS


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        (set[int](), [(3, 10)]),
        ({3}, [(4, 10)]),
        ({5, 7}, [(3, 5), (6, 7), (8, 10)]),
        ({0, 1, 9}, [(3, 9)]),
        ({3, 4}, [(5, 10)]),
    ],
)
def test_the_gaps_between_descriptors_are_what_is_closed(keep: set[int], expected: list[tuple[int, int]]) -> None:
    assert kernel.gaps(keep, 10) == expected


def test_a_process_name_cannot_fool_the_reader_of_stat() -> None:
    assert procfs.fields_of(b"12 (a) S 1 (b c) S 77 12 12 0")[1] == b"77"


def test_children_are_found_by_both_ways_and_the_unknown_is_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        mine = procfs.children()
        assert mine is not None
        assert child.pid in mine
        scanned = procfs.scan(os.getpid())
        assert scanned is not None
        assert child.pid in scanned
        child.kill()
    assert child.pid not in (procfs.children() or ())
    assert child.pid not in (procfs.scan(os.getpid()) or ())

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", refuse)
        known = procfs.children()
        patch.setattr(os, "listdir", refuse)
        scanned = procfs.scan(1)
    assert (known, scanned) == (None, None)


def test_a_process_that_is_gone_has_no_name_and_no_mark() -> None:
    assert procfs.name_of(os.getpid())
    assert procfs.name_of(999_999_999) == b""
    assert procfs.started(999_999_999) is None
    assert not marker.carries(999_999_999, b"")


def test_a_refused_call_is_an_os_error_with_its_reason() -> None:
    with pytest.raises(OSError, match="Invalid argument") as caught:
        kernel.unshare(1)  # no such flag
    assert caught.value.errno == errno.EINVAL


def test_what_the_kernel_refuses_is_none() -> None:
    assert kernel.quiet(os.stat, "/nope") is None
    assert kernel.quiet(int, "3") == 3
    kernel.tell(-1, b"nobody hears this")


@pytest.mark.parametrize("cut", [1, 3, 100])
def test_reports_are_understood_however_they_are_cut(cut: int) -> None:
    status = Status()
    data = b"B 1 1\nS 77\nX -15\nD 1 3\nH 1\n"
    for at in range(0, len(data), cut):
        status.feed(data[at : at + cut])
    assert (status.begun, status.missing, status.pid, status.exit) == (True, (), 77, -15)
    assert (status.clean, status.killed, status.home_removed, status.ended) == (True, 3, True, False)
    status.feed(b"")
    assert status.ended


@pytest.mark.parametrize(
    ("flags", "missing"),
    [(b"1 1", ()), (b"0 1", ("daemons",)), (b"1 0", ("forked-harness",)), (b"0 0", ("daemons", "forked-harness"))],
)
def test_what_the_platform_cannot_promise_is_said(flags: bytes, missing: tuple[str, ...]) -> None:
    status = Status()
    status.feed(b"B %s\n" % flags)
    assert status.missing == missing


@pytest.mark.parametrize(
    ("data", "decided", "over", "lost"),
    [
        (b"B 1 1\n", False, False, False),
        (b"B 1 1\nS 5\n", True, False, False),
        (b"B 1 1\nE 2 exec\nD 1 0\n", True, False, False),
        (b"R 0\n", True, False, False),
        (b"B 1 1\nS 5\nL 1\n", True, True, True),
        (b"B 1 1\nS 5\nX 3\nL 0\n", True, True, False),
    ],
)
def test_a_killed_keeper_loses_only_what_it_had_not_said(data: bytes, decided: bool, over: bool, lost: bool) -> None:
    status = Status()
    status.feed(data)
    assert (status.decided, status.over, status.lost) == (decided, over, lost)


def test_an_unknown_report_is_a_fault_of_ours() -> None:
    with pytest.raises(AssertionError, match="said Z"):
        Status().feed(b"Z 1\n")


# --- the shell around them, in forks of this test: what it does to a process cannot be done to the test's own --------


def _in_a_child(script: str, *arguments: str) -> str:
    """Output of a script that has imported the supervisors the way that they are started."""
    where = str(Path(guard.__file__).parent.parent)
    boot = (
        "import os, signal, sys; sys.path.append(sys.argv[1]); from _supervisor import guard, keeper, kernel, warden\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", boot + script, where, *arguments],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_supervisors_load_only_the_standard_library_and_nothing_slow() -> None:
    loaded = _in_a_child("print(*sys.modules)").split()
    assert not {"dataclasses", "typing", "pathlib", "inspect", "re", "anyio", "subagent_process", "json"} & set(loaded)


def test_an_inherited_ignored_signal_and_a_blocked_mask_are_undone() -> None:
    script = """
signal.signal(signal.SIGCHLD, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
kernel.reset_signals()
print(signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL, signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""
    assert _in_a_child(script).split("\n")[:2] == ["True True", "set()"]


def test_every_signal_makes_the_wake_up_pipe_readable() -> None:
    script = """
asked = []
kernel.listen(lambda number, frame: asked.append(number))
reader, writer = kernel.wakeup()
poll = kernel.poller([reader])
before = poll.poll(0)
os.kill(os.getpid(), signal.SIGCHLD); os.kill(os.getpid(), signal.SIGHUP)
print(before, poll.poll(1000) != [], asked == [signal.SIGHUP])
"""
    assert _in_a_child(script) == "[] True True\n"


def test_close_others_keeps_what_it_is_told_to() -> None:
    script = """
fds = [os.dup(0) for _ in range(5)]
kernel.close_others({fds[1], fds[3]})
print(*(kernel.quiet(os.fstat, fd) is not None for fd in (0, 1, 2, *fds)))
"""
    assert _in_a_child(script) == "True True True False True False True False\n"


def test_an_orphan_comes_to_its_subreaper() -> None:
    script = """
print(kernel.become_subreaper(b"test"), open("/proc/self/comm").read().strip())
reader, writer = os.pipe()
if (child := os.fork()) == 0:
    if os.fork(): os._exit(0)
    os.close(writer); os.read(reader, 1); os._exit(0)
os.waitpid(child, 0)
from _supervisor import processes; print(len(processes.children()))
"""
    assert _in_a_child(script).split() == ["True", "test", "1"]


def test_a_limit_beyond_ours_leaves_ours() -> None:
    script = """
import resource
before = resource.getrlimit(resource.RLIMIT_NOFILE)
keeper.limit_files(before[1] + 1)
print(resource.getrlimit(resource.RLIMIT_NOFILE) == before)
keeper.limit_files(100)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""
    assert _in_a_child(script).split() == ["True", "100"]
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] != 100


def test_a_guard_whose_harness_is_gone_ends_at_once() -> None:
    near, far = socket.socketpair()
    with near, far:
        script = "os.dup2(int(sys.argv[2]), 3); guard.main(1)"
        where = str(Path(guard.__file__).parent.parent)
        boot = "import os, sys; sys.path.append(sys.argv[1]); from _supervisor import guard\n"
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", boot + script, where, str(far.fileno())],
            pass_fds=[far.fileno()], timeout=30, check=False,
        )  # fmt: skip
        assert done.returncode == 0
        far.close()
        assert select.select([near], [], [], 5)[0]
        assert near.recv(1) == b""


def test_a_home_that_is_being_removed_cannot_be_held(tmp_path: Path) -> None:
    import fcntl

    home = os.fsencode(tmp_path)
    assert keeper.hold(b"")
    assert not keeper.hold(home)
    with (tmp_path / ".owner").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not keeper.hold(home)
    script = "print(keeper.hold(os.fsencode(sys.argv[2])))"
    assert _in_a_child(script, str(tmp_path)) == "True\n"


def test_the_protocols_orders_are_single_bytes() -> None:
    assert len(protocol.TERM) == len(protocol.KILL) == len(protocol.HANDOVER) == 1
