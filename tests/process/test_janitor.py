"""What a crash left is removed by the next start, and nothing else is."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from endings import parent
from victims import unharmed

from subagent_process import (
    HomeError,
    throwaway_home,
)
from subagent_process import _janitor as janitor  # pyright: ignore[reportPrivateUsage]
from subagent_process import home as home_module
from subagent_process._supervisor import folder
from subagent_process._supervisor.processes import started

pytestmark = pytest.mark.anyio
PATH = {"PATH": "/usr/bin:/bin"}


def leftovers(base: Path) -> list[str]:
    return sorted(entry.name for entry in base.iterdir() if entry.name.startswith("subagent-"))


CRASH = """
import anyio, os, signal, sys
from subagent_process import throwaway_home
async def main():
    async with throwaway_home("engine", base=sys.argv[1]) as home:
        (home.path("engine") / "f").write_text("x")
        print(home.root, flush=True)
        {then}
anyio.run(main)
"""


def _crashed(base: Path) -> Path:
    """A home whose process was killed."""
    script = CRASH.format(then="os.kill(os.getpid(), signal.SIGKILL)")
    done = subprocess.run([sys.executable, "-c", script, base], capture_output=True, text=True, timeout=30)
    return Path(done.stdout.strip())


async def test_the_next_start_removes_what_a_crash_left(base: Path) -> None:
    left = _crashed(base)
    assert (left / "engine" / "f").exists()
    async with throwaway_home(base=base) as home:
        assert leftovers(base) == [home.root.name]


async def test_a_base_is_looked_through_once_by_a_process(base: Path) -> None:
    async with throwaway_home(base=base):
        left = _crashed(base)
    async with throwaway_home(base=base):
        assert left.exists()


def test_a_live_runs_home_is_left_alone(base: Path) -> None:
    script = CRASH.format(then="sys.stdin.read()")
    with subprocess.Popen(
        [sys.executable, "-c", script, base], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        root = Path(other.stdout.readline().strip())
        assert janitor.clean(str(base)) == []
        # Each of the two signs alone protects it: the lock …
        text = (root / ".owner").read_text()
        (root / ".owner").write_text("subagents 999999999 1\n")
        assert janitor.clean(str(base)) == []
        # … and the live process, also where the lock was lost.
        (root / ".owner").unlink()
        (root / ".owner").write_text(text)
        assert janitor.clean(str(base)) == []
        assert (root / "engine" / "f").exists()
        other.communicate("", timeout=30)
    assert leftovers(base) == []


def test_only_what_is_plainly_ours_is_removed(base: Path, victim: Path) -> None:
    dead = "subagents 999999999 1\n"

    def make(name: str, owner: str | None) -> Path:
        root = base / name
        root.mkdir()
        (root / "file").touch()
        if owner is not None:
            (root / ".owner").write_text(owner)
        return root

    make("subagent-dead", dead)
    kept = [
        make("subagent-no-owner", None),
        make("subagent-empty-owner", ""),
        make("subagent-odd-owner", "subagents one two\n"),
        make("subagent-more", dead + "x"),
        make("other-dead", dead),
    ]
    (base / "subagent-link").symlink_to(victim)
    (victim / ".owner").write_text(dead)
    odd = make("subagent-owner-is-a-link", None)
    (odd / ".owner").symlink_to(victim / ".owner")
    fifo = make("subagent-owner-is-a-fifo", None)
    os.mkfifo(fifo / ".owner")
    (base / "subagent-file").write_text(dead)
    locked = make("subagent-locked", dead)
    with (locked / ".owner").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert janitor.clean(str(base)) == ["subagent-dead"]
    assert unharmed(victim)
    assert all((path / "file").exists() for path in (*kept, odd, fifo, locked))
    assert janitor.clean(str(base / "nope")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder that belongs to somebody else")
def test_a_strangers_folder_is_left_alone(base: Path) -> None:
    for name, who in (("subagent-theirs", "root"), ("subagent-their-owner", "file")):
        root = base / name
        root.mkdir()
        (root / ".owner").write_text("subagents 999999999 1\n")
        os.chown(root if who == "root" else root / ".owner", 65534, 65534)
    assert janitor.clean(str(base)) == []


def test_a_start_time_tells_a_process_from_a_later_one_with_its_number() -> None:
    assert started(os.getpid()) == started(os.getpid())
    assert started(1) != started(os.getpid())
    assert started(999_999_999) is None


async def test_a_home_that_cannot_be_filled_leaves_nothing(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_root: Path) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(janitor, "claim", full)
    with pytest.raises(HomeError, match="No space left on device while filling it"):
        async with throwaway_home(base=base):
            pass
    assert list(base.iterdir()) == []


async def test_a_file_system_without_locks_is_refused(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_fd: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(HomeError, match="No locks available"):
        async with throwaway_home(base=base):
            pass
    assert list(base.iterdir()) == []


async def test_a_base_in_which_nothing_can_be_made_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_module, "_usable", lambda _base: True)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    with pytest.raises(HomeError, match="Set TMPDIR"):
        async with throwaway_home(base="/proc"):
            pass


def test_what_refuses_is_passed_over_and_the_rest_goes(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = base / "root"
    (root / "sub").mkdir(parents=True)
    for name in ("gone", "stays", "other", "sub/stays", "sub/other"):
        (root / name).touch()
    found = root.lstat()
    unlink = os.unlink

    def moody(name: str, *, dir_fd: int) -> None:
        if name == "stays":
            raise PermissionError
        unlink(name, dir_fd=dir_fd)
        if name == "gone":
            raise FileNotFoundError  # somebody else was faster

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", moody)
        assert not folder.remove(str(root), found.st_dev, found.st_ino, patience=0.05)
    assert sorted(path.name for path in root.rglob("*") if path.is_file()) == ["stays", "stays"]
    assert folder.remove(str(root), found.st_dev, found.st_ino, patience=0)


async def test_taken_names_are_passed_over_and_then_given_up(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (base / "subagent-taken").mkdir()
    names = iter(["taken", "free"])

    def name(_size: int) -> str:
        return next(names, "taken")

    monkeypatch.setattr(secrets, "token_hex", name)
    async with throwaway_home(base=base) as home:
        assert home.root.name == "subagent-free"
    with pytest.raises(HomeError, match="every name"):
        async with throwaway_home(base=base):
            pass


FORK = """
import fcntl, os, sys
from pathlib import Path
from subagent_process import ThrowawayHome
root = Path(sys.argv[1]); root.mkdir()
home = ThrowawayHome(root, ())
ready, go = os.pipe(), os.pipe()
if (pid := os.fork()) == 0:
    os.close(go[1]); os.write(ready[1], b"x"); os.read(go[0], 1); os._exit(0)
os.read(ready[0], 1)
home.unlock()
with (root / ".owner").open() as lock:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("free while the fork lives", os.waitpid(pid, os.WNOHANG)[0])
os.close(go[1]); os.waitpid(pid, 0)
"""


def test_a_fork_of_the_harness_gives_up_its_copy_of_the_lock(base: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, base / "subagent-f"], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stdout == "free while the fork lives 0\n", done.stderr


RUN = """
import anyio, sys
from subagent_process import open_process, throwaway_home
from subagent_process import _launcher as launcher
async def main():
    async with throwaway_home(base=sys.argv[1]) as home, await open_process(["/bin/cat"], env={}, home=home) as process:
        (home.path("tmp") / "f").write_text("x")
        print(home.root, process.pid, launcher.LAUNCHER.guard.pid, flush=True)
        await anyio.sleep(60)
anyio.run(main)
"""


def _killed(base: Path, *, keeper: bool) -> Path:
    """The home of a run whose harness was killed, also its keeper if asked, once the last helper has ended."""
    with subprocess.Popen([sys.executable, "-c", RUN, base], stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        root, leader, guard = harness.stdout.readline().split()
        watched = os.pidfd_open(int(guard))
        if keeper:
            os.kill(parent(int(leader)), signal.SIGKILL)
        harness.kill()
        assert select.select([watched], [], [], 20)[0]
        os.close(watched)
    return Path(root)


def test_the_keeper_removes_the_home_of_a_killed_harness(base: Path) -> None:
    assert not _killed(base, keeper=False).exists()


def test_what_a_killed_harness_and_its_killed_keeper_leave_is_removed_by_the_next_start(base: Path) -> None:
    left = _killed(base, keeper=True)
    assert (left / "tmp" / "f").exists()
    assert janitor.clean(str(base)) == [left.name]


def test_a_home_while_its_tree_lives_is_left_alone_although_the_harness_is_gone(base: Path) -> None:
    """The keeper's lock is what protects it: a tree may take its time to end."""
    root = base / "subagent-tree"
    root.mkdir()
    (root / ".owner").write_text("subagents 999999999 1\n")
    holder = f"import sys; from subagent_process._supervisor.keeper import hold; hold({os.fsencode(root)!r});"
    script = f"{holder} print(1, flush=True); sys.stdin.read()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe) as keeper:
        assert keeper.stdout is not None
        keeper.stdout.readline()
        assert janitor.clean(str(base)) == []
        keeper.communicate(timeout=20)
    assert janitor.clean(str(base)) == ["subagent-tree"]


@pytest.mark.parametrize(("later", "removed"), [(0, False), (1, True)])
def test_another_process_with_the_owners_number_does_not_keep_it(base: Path, later: int, removed: bool) -> None:
    root = base / "subagent-number"
    root.mkdir()
    (root / ".owner").write_text(f"subagents {os.getpid()} {(started(os.getpid()) or 0) + later}\n")
    assert janitor.clean(str(base)) == (["subagent-number"] if removed else [])
