"""Throwaway homes: private, short, and gone afterwards, with nothing else."""

from __future__ import annotations

import logging
import os
import socket
import stat
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from victims import unharmed

from subagent_process import (
    HomeError,
    SpawnError,
    child_env,
    open_process,
    throwaway_home,
)
from subagent_process import home as home_module
from subagent_process._supervisor import folder

pytestmark = pytest.mark.anyio
PATH = {"PATH": "/usr/bin:/bin"}


async def test_everything_in_a_home_is_private_and_inside(base: Path) -> None:
    async with throwaway_home("codex", "other", base=base) as home:
        assert home.root.parent == base
        env = home.env()
        assert set(env) == {
            "HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR",
        }  # fmt: skip
        for path in (home.root, *map(Path, env.values()), home.path("codex"), home.path("other"), home.path("tmp")):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
            assert path.is_relative_to(home.root)
        assert repr(home) == f"<ThrowawayHome {home.root}>"
        with pytest.raises(ValueError, match="no folder of this home"):
            home.path("nope")
    assert not home.root.exists()
    assert list(base.iterdir()) == []


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o277])
async def test_modes_do_not_depend_on_the_umask(base: Path, umask: int) -> None:
    old = os.umask(umask)
    try:
        async with throwaway_home("engine", base=base) as home:
            for path in (home.root, home.path("engine"), home.path("tmp")):
                assert stat.S_IMODE(path.stat().st_mode) == 0o700
    finally:
        os.umask(old)


async def test_a_socket_can_be_bound_43_characters_below_every_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    long = Path("/tmp") / ("t" * 65)
    long.mkdir(mode=0o700)
    try:
        monkeypatch.setenv("TMPDIR", str(long))
        async with throwaway_home("engine-with-a-name") as home:
            assert len(os.fsencode(home.root)) + 43 <= 103
            for where in (home.path("engine-with-a-name"), *map(Path, home.env().values())):
                path = where / "app-server-control" / "app-server-control.sock"
                assert len(os.fsencode(path)) <= 103
                path.parent.mkdir()
                with socket.socket(socket.AF_UNIX) as sock:
                    sock.bind(str(path))
            assert list(long.iterdir()) == []
        assert not home.root.exists()
    finally:
        long.rmdir()


async def test_a_short_tmpdir_is_used_and_links_are_resolved(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (base / "real").mkdir()
    (base / "link").symlink_to("real")
    monkeypatch.setenv("TMPDIR", str(base / "link"))
    async with throwaway_home() as home:
        assert home.root.parent == base / "real"
        assert home.root == home.root.resolve()


async def test_a_base_that_cannot_serve_is_refused_with_its_reason(base: Path) -> None:
    (base / "file").touch()
    (base / "shared").mkdir(mode=0o777)
    (base / "shared").chmod(0o777)
    cases = {
        "x" * 50: "too long",
        "nope": "folder that can be written",
        "file": "folder",
        "shared": "private or sticky",
    }
    for name, why in cases.items():
        bad = base / name
        with pytest.raises(HomeError, match=why) as caught:
            async with throwaway_home(base=bad):
                pass
        assert caught.value.path == str(bad)


async def test_no_usable_folder_at_all_is_one_error_that_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_module, "_candidates", lambda: iter(["/nope", "/nope2"]))
    with pytest.raises(HomeError, match="/nope, /nope2: none is a private or sticky folder"):
        async with throwaway_home():
            pass


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "home", "tmp", ".owner", "a\0b"])
async def test_a_folder_needs_a_plain_name_of_its_own(name: str, base: Path) -> None:
    with pytest.raises(ValueError, match="cannot be a folder"):
        async with throwaway_home(name, base=base):
            pass
    with pytest.raises(ValueError, match="cannot be a folder"):
        async with throwaway_home("twice", "twice", base=base):
            pass


async def test_it_is_removed_whatever_ends_the_body(base: Path) -> None:
    with pytest.raises(KeyError):
        async with throwaway_home(base=base):
            raise KeyError
    with anyio.CancelScope() as scope:
        async with throwaway_home(base=base):
            scope.cancel()
            await anyio.sleep(60)
    with pytest.raises(SpawnError):
        async with throwaway_home(base=base) as home:
            await open_process(["no-such-program"], env=PATH, home=home)
    assert list(base.iterdir()) == []


def _fill(root: Path, victim: Path) -> None:
    """What agents leave: read-only folders, links out, deep trees, odd names, sockets."""
    (root / "ro" / "sub").mkdir(parents=True)
    (root / "ro" / "sub" / "file").write_text("x")
    (root / "ro" / "sub").chmod(0o500)
    (root / "ro").chmod(0o000)
    (root / "out").symlink_to(victim)
    (root / "out-file").symlink_to(victim / "keep.txt")
    (root / "dangling").symlink_to("/nope")
    (root / "\udcff\n").write_text("x")
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(root / "sock"))
    os.link(victim / "keep.txt", root / "hard")


async def test_modes_are_repaired_and_links_are_not_followed(base: Path, victim: Path) -> None:
    async with throwaway_home("engine", base=base) as home:
        _fill(home.path("engine"), victim)
        home.path("engine").chmod(0o500)
        home.root.chmod(0o500)
    assert list(base.iterdir()) == []
    assert unharmed(victim)


def test_modes_are_repaired_by_one_who_is_not_root(base: Path) -> None:
    script = textwrap.dedent(f"""
        import os
        from subagent_process._supervisor import folder
        if os.geteuid() == 0:
            os.chown("{base}", 65534, 65534); os.setgroups([]); os.setgid(65534); os.setuid(65534)
        os.makedirs("{base}/made/a/b/c"); open("{base}/made/a/b/c/f", "w").close()
        os.symlink("{base}", "{base}/made/a/l")
        for path, mode in (("/a/b/c", 0), ("/a/b", 0o500), ("/a", 0o111), ("", 0o100)):
            os.chmod("{base}/made" + path, mode)
        found = os.lstat("{base}/made")
        print(folder.remove("{base}/made", found.st_dev, found.st_ino, patience=0), os.listdir("{base}"))
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "True []\n", done.stderr


async def test_a_very_deep_and_a_very_wide_tree_are_removed(base: Path) -> None:
    async with throwaway_home("engine", base=base) as home:
        fd = os.open(home.path("engine"), os.O_RDONLY)
        for _ in range(1500):  # deeper than a path is long, or a stack or the descriptors are
            os.mkdir("d" * 20, dir_fd=fd)
            deeper = os.open("d" * 20, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = deeper
        os.close(fd)
        for number in range(5000):
            (home.path("tmp") / f"f{number}").touch()
    assert list(base.iterdir()) == []


async def test_removal_outlasts_something_that_is_still_writing(base: Path) -> None:
    stop, wrote = threading.Event(), threading.Event()

    def write(root: Path) -> None:
        number = 0
        while not stop.is_set():
            try:
                where = root / "home" / f"d{number}"
                where.parent.mkdir(exist_ok=True)  # not the root: that would be a folder of our own making
                where.mkdir()
                (where / "f").touch()
            except OSError:
                if not root.exists():
                    return
            number += 1
            wrote.set()

    async with throwaway_home(base=base) as home:
        thread = threading.Thread(target=write, args=(home.root,))
        thread.start()
        await to_thread.run_sync(wrote.wait)
        timer = threading.Timer(0.3, stop.set)
        timer.start()
    thread.join()
    timer.join()
    assert list(base.iterdir()) == []


async def test_what_cannot_be_removed_is_one_warning_that_names_it(
    base: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_module, "_PATIENCE", 0.1)
    with caplog.at_level(logging.WARNING, "subagent_process"):
        async with throwaway_home(base=base) as home:
            # A folder that is not the one that was made: never ours to remove.
            home.root.rename(base / "moved")
            home.root.mkdir()
            (home.root / "theirs").touch()
            home.root.chmod(0o500)
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o500
    assert (home.root / "theirs").exists()
    (record,) = caplog.records
    assert str(home.root) in record.getMessage()


def test_a_link_in_the_place_of_the_folder_is_refused(base: Path, victim: Path) -> None:
    root = base / "subagent-x"
    root.mkdir()
    found = root.lstat()
    root.rmdir()
    root.symlink_to(victim)
    assert not folder.remove(str(root), found.st_dev, found.st_ino, patience=0)
    assert unharmed(victim)
    assert folder.remove(str(base / "nope"), 1, 1, patience=0)


def test_a_mount_inside_is_not_entered(base: Path) -> None:
    """In a mount namespace of its own: a bind mount below the folder keeps its files, and the removal says no."""
    script = textwrap.dedent(f"""
        import os, sys
        from subagent_process._supervisor import folder
        os.makedirs("{base}/made/mnt"); os.makedirs("{base}/kept/sub"); open("{base}/kept/sub/file", "w").close()
        assert os.system("mount --bind {base}/kept {base}/made/mnt") == 0
        found = os.lstat("{base}/made")
        gone = folder.remove("{base}/made", found.st_dev, found.st_ino, patience=0)
        print(gone, os.path.exists("{base}/kept/sub/file"))
        os.system("umount {base}/made/mnt")
    """)
    if os.geteuid() != 0:
        pytest.skip("a mount namespace needs root here")
    done = subprocess.run(["unshare", "-m", sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    if "unshare failed" in done.stderr:
        pytest.skip("no mount namespaces here")
    assert done.stdout.split() == ["False", "True"], done.stderr


async def test_the_home_goes_with_the_tree_before_the_context_ends(base: Path) -> None:
    async with throwaway_home("engine", base=base) as home:
        env = child_env(home=home, ambient=PATH)
        script = "cd; echo x > f; mkdir ro; touch ro/f; chmod 500 ro; (sleep 60 &) ; echo {}; cat"
        async with await open_process(["sh", "-c", script], env=env, home=home) as process:
            assert await anext(process.messages()) == {}
            assert home.root.exists()
        assert process.report is not None
        assert process.report.home_removed is True
        assert process.report.killed == 1
        assert not home.root.exists()
        with pytest.raises(SpawnError, match="serves one process tree"):
            await open_process(["true"], env=env, home=home)


async def test_a_pinned_folder_is_not_a_home_and_stays(base: Path) -> None:
    pinned = base / "pinned"
    pinned.mkdir()
    async with throwaway_home(base=base) as home:
        env = child_env(home=home, set={"CODEX_HOME": str(pinned)}, ambient=PATH)
        async with await open_process(["touch", str(pinned / "f")], env=env, home=home) as process:
            await process.wait()
    assert (pinned / "f").exists()
