"""Writing that breaks off at every possible step: never half a file, never a file outside, nothing untold."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from subagent_workspace import _rename
from subagent_workspace.errors import FilesRefused, FolderUnusable, WriteFailed
from subagent_workspace.reading import read_files
from subagent_workspace.writing import Rewrite, write_files

OLD = {"a.txt": "old a\n" * 200, "sub/b.txt": "old b\n", "new.txt": None}
NEW = {"a.txt": "new a\n" * 300, "sub/b.txt": "new b\n", "new.txt": "made\n"}
CALLS = (
    "open", "read", "write", "close", "fsync", "fstat", "stat", "fchmod", "fchown", "dup", "unlink", "link", "rename",
    "listxattr", "getxattr", "setxattr", "access", "listdir",
)  # fmt: skip


def fill(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in OLD.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            (folder / name).write_text(text)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: hundreds of rounds with several fsync each."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def now(folder: Path) -> dict[str, str | None]:
    return {name: (folder / name).read_text() if (folder / name).exists() else None for name in OLD}


def left(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.rglob("*") if p.is_file() and str(p.relative_to(folder)) not in OLD)


def rewrites(folder: Path) -> list[Rewrite]:
    return [Rewrite(file, NEW[file.path] or "") for file in read_files(folder, write=OLD).write]


class Fault:
    """The system, failing at one call of ours (counted from 0), or never; it counts them by name."""

    def __init__(self, at: int, code: int, *, done: bool = False) -> None:
        self.at, self.code, self.done = at, code, done
        self.calls = 0
        self.hit = ""

    def __enter__(self) -> Fault:
        self.patch = pytest.MonkeyPatch()
        for name in CALLS:
            self.patch.setattr(os, name, self.wrap(name, getattr(os, name)))
        if (real := _rename._renameat2()) is not None:  # pyright: ignore[reportPrivateUsage]
            self.patch.setattr(_rename, "_renameat2", lambda: self.kernel(real))
        return self

    def __exit__(self, *exc: object) -> None:
        self.patch.undo()

    def due(self, name: str) -> bool:
        self.calls += 1
        if self.calls - 1 == self.at:
            self.hit = name
            return True
        return False

    def wrap(self, name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            due = self.due(name)
            if due and name == "close":
                real(*args, **options)  # Linux frees the descriptor whatever close says
            if due:
                raise OSError(self.code, os.strerror(self.code))
            return real(*args, **options)

        return call

    def kernel(self, real: Callable[..., int]) -> Callable[..., int]:
        def call(*args: object) -> int:
            if not self.due("renameat2"):
                return real(*args)
            if self.done:
                real(*args)
            ctypes.set_errno(self.code)
            return -1

        return call


def attempt(folder: Path, plan: list[Rewrite]) -> tuple[Exception | None, str]:
    try:
        return None, str([w.warnings for w in write_files(folder, plan)])
    except (FilesRefused, FolderUnusable, WriteFailed) as exc:
        return exc, ""


def check(folder: Path, failure: Exception | None, hit: str) -> None:
    """What is told is what is there; what is there is old or new, whole; what is left beside is named."""
    there, text = now(folder), str(failure)
    if isinstance(failure, WriteFailed):
        told = [*(w.path for w in failure.written), *failure.not_written, *failure.unknown]
        assert sorted(told) == sorted(OLD), hit
        assert all(there[w.path] == NEW[w.path] for w in failure.written), hit
        assert all(there[name] == OLD[name] for name in failure.not_written), hit
        assert all(there[name] in (OLD[name], NEW[name]) for name in failure.unknown), hit
    elif failure is None:
        assert there == NEW, hit
    else:
        assert there == OLD, hit
    assert all(name in text for name in left(folder)), (hit, left(folder), text)


@pytest.mark.parametrize(
    "code", [errno.EIO, errno.ENOSPC, errno.EACCES, errno.EINVAL, errno.ENOTSUP], ids=errno.errorcode.get
)
def test_whatever_call_fails_each_file_is_whole_and_what_is_told_is_true(memory: Path, code: int) -> None:
    folder, at, unclear, hits, outcomes = memory / "work", 0, 0, Counter[str](), Counter[str]()
    while True:
        fill(folder)
        plan = rewrites(folder)
        with Fault(at, code) as fault:
            failure, warned = attempt(folder, plan)
        if not fault.hit:
            break
        if failure is None:  # a file that could not be removed is told as a warning
            assert all(name in warned for name in left(folder)), fault.hit
            assert now(folder) == NEW
        else:
            check(folder, failure, f"{fault.hit}, call {at}")
        hits[fault.hit] += 1
        unclear += len(failure.unknown) if isinstance(failure, WriteFailed) else 0
        outcomes[type(failure).__name__] += 1
        at += 1
    assert {"open", "write", "fsync", "stat", "fchmod", "unlink", "renameat2"} <= set(hits)
    assert unclear == (
        0 if code in {errno.EINVAL, errno.ENOTSUP} else len(OLD)
    )  # a folder that is not brought to the disk
    assert outcomes["FilesRefused"] > 5
    assert outcomes["WriteFailed"] > 20
    assert now(folder) == NEW
    assert left(folder) == []


def test_whatever_call_fails_while_files_are_read_is_told_and_nothing_stays_open(memory: Path) -> None:
    folder, at = memory / "work", 0
    fill(folder)
    (folder / "link").symlink_to("sub")
    before, hits = len(os.listdir("/proc/self/fd")), set[str]()
    while True:
        with Fault(at, errno.EIO) as fault, pytest.raises((FilesRefused, FolderUnusable)) as caught:
            read_files(folder, ["link/b.txt"], OLD)
        told = str(caught.value)
        assert "link/b.txt" in told or isinstance(caught.value, FolderUnusable)
        if not fault.hit:
            break
        assert "input/output error" in told or fault.hit in {"close", "access", "stat", "open"}
        hits.add(fault.hit)
        at += 1
    assert {"open", "read", "stat", "fstat", "dup", "listdir"} <= hits
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_rename_that_was_done_and_yet_failed_is_told_as_not_known(memory: Path) -> None:
    folder, at, seen = memory / "work", 0, 0
    while True:
        fill(folder)
        plan = rewrites(folder)
        with Fault(at, errno.EIO, done=True) as fault:
            failure = attempt(folder, plan)[0]
        if fault.hit == "renameat2":
            assert isinstance(failure, WriteFailed)
            assert len(failure.unknown) == 1
            check(folder, failure, fault.hit)
            seen += 1
        if not fault.hit:
            break
        at += 1
    assert seen == len(OLD)


KILLED = """
import ctypes, json, os, shutil, signal, sys
from pathlib import Path
from subagent_workspace import reading, writing
from subagent_workspace.reading import read_files
from subagent_workspace.writing import Rewrite, write_files
import subagent_workspace._rename, subagent_workspace._stage, subagent_workspace._replace

OLD, NEW = json.loads(sys.argv[2]), json.loads(sys.argv[3])
folder = Path(sys.argv[1])
ours = os.path.dirname(writing.__file__)
subagent_workspace._rename._renameat2()

def fill():
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "sub").mkdir(parents=True)
    for name, text in OLD.items():
        if text is not None:
            (folder / name).write_text(text)

def run(step):
    # The process is killed before the line of the package that is the step-th to be run.
    plan = [Rewrite(file, NEW[file.path]) for file in read_files(folder, write=list(OLD)).write]
    lines = 0
    def trace(frame, event, arg):
        nonlocal lines
        folder, name = os.path.split(frame.f_code.co_filename)
        if folder != ours or name not in {"writing.py", "_replace.py", "_stage.py", "_rename.py", "_open.py"}:
            return None
        lines += event == "line"
        if lines == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace
    sys.settrace(trace)
    write_files(folder, plan)
    sys.settrace(None)
    os._exit(0)

step, seen = 1, []
while True:
    fill()
    child = os.fork()
    if child == 0:
        run(step)
    _, status = os.waitpid(child, 0)
    there = {name: (folder / name).read_text() if (folder / name).exists() else None for name in OLD}
    for name, text in there.items():
        assert text in (OLD[name], NEW[name]), (step, name, text)
    extra = [p.name for p in folder.rglob("*") if p.is_file() and str(p.relative_to(folder)) not in OLD]
    assert all(name.startswith(".subagents-") and name.endswith(".tmp") for name in extra), (step, extra)
    assert sorted(os.listdir(folder.parent)) == [folder.name], step
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0, step
        assert there == NEW and extra == []
        break
    assert os.WTERMSIG(status) == signal.SIGKILL
    seen.append(sum(there[name] == NEW[name] for name in OLD))
    step += int(sys.argv[4])
print(json.dumps([step, sorted(set(seen))]))
"""


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.long)])
def test_a_writer_that_is_killed_before_any_of_its_lines_leaves_every_file_whole(memory: Path, stride: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, memory / "work", json.dumps(OLD), json.dumps(NEW), str(stride)],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    steps, written = json.loads(done.stdout)
    assert steps > 200  # it really was killed in the middle, and at each of the stages
    assert written == [0, 1, 2, 3]


FULL = """
import json, os, stat, subprocess, sys
from pathlib import Path
from subagent_workspace.errors import FilesRefused, WriteFailed
from subagent_workspace.reading import read_files
from subagent_workspace.writing import Rewrite, write_files

disk = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", disk], check=True, timeout=20)
told = []
for room in range(0, 60_000, 4096):
    for path in disk.iterdir():
        path.unlink()
    for name in ("a", "b"):
        (disk / name).write_text("old\\n")
    a, b, new = read_files(disk, write=["a", "b", "new"]).write
    used = 64 * 1024 - os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    (disk / "filler").write_bytes(b"x" * max(0, 64 * 1024 - used - room))
    before = sorted(os.listdir(disk))
    texts = dict.fromkeys("ab", "new\\n" * 2500) | {"new": "made\\n" * 1500}
    try:
        write_files(disk, [Rewrite(f, texts[f.path]) for f in (a, b, new)])
    except WriteFailed as exc:
        assert not exc.written and not exc.unknown, exc
        assert set(exc.not_written) == {"a", "b", "new"}
        assert "no space left" in str(exc)
        assert (disk / "a").read_text() == (disk / "b").read_text() == "old\\n"
        assert sorted(os.listdir(disk)) == before
        told.append("full")
    else:
        assert {name: (disk / name).read_text() for name in texts} == texts
        told.append("written")
print(json.dumps(told))
"""


def test_a_full_disk_is_found_before_the_first_file_is_replaced(tmp_path: Path) -> None:
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        pytest.skip("there is neither unshare nor mount")
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", FULL, disk], capture_output=True, text=True, timeout=60
    )
    if "unshare failed" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.count("full") >= 3
    assert told.count("written") >= 3
    assert told == sorted(told)  # full while there is too little room, and then never again
    assert os.listdir(disk) == []


def test_a_system_that_writes_a_few_bytes_at_a_time_still_gets_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, real = tmp_path / "work", os.write
    fill(folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[:7]))  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
        write_files(folder, rewrites(folder))
    assert now(folder) == NEW


def test_a_keyboard_interrupt_leaves_no_file_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work"
    fill(folder)
    plan, calls, real = rewrites(folder), [0], os.fsync

    def interrupted(fd: int) -> None:
        calls[0] += 1
        if calls[0] == 2:
            raise KeyboardInterrupt
        real(fd)

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_files(folder, plan)
    assert now(folder) == OLD
    assert left(folder) == []


def test_a_file_that_cannot_be_removed_is_told_beside_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work"
    fill(folder)

    def refusing(path: str, *, dir_fd: int | None = None) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        plan = rewrites(folder)
        patch.setattr(os, "unlink", refusing)
        done = write_files(folder, plan)
    assert now(folder) == NEW
    assert len(left(folder)) == 2
    for written, name in zip([w for w in done if w.status == "modified"], left(folder), strict=True):
        assert stat.S_ISREG((folder / written.path).stat().st_mode)
        assert any(".subagents-" in warning for warning in written.warnings), name
