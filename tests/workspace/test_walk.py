"""Without git: the same from reading the folder, within a budget, and what was not looked at is said."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from changes_kit import after, before, changed, repository, rows, write

from subagent_workspace import _walk  # pyright: ignore[reportPrivateUsage]
from subagent_workspace._fingerprint import Budget, fingerprints, same
from subagent_workspace._walk import walk

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, {"site/a.txt": "one\ntwo\n", "site/b.txt": "b\n", "site/sub/c.txt": "c\n", "site/empty": ""})
    return tmp_path / "site"


async def test_a_folder_without_git_is_told_by_its_contents(folder: Path) -> None:
    def run() -> None:
        write(folder, {"a.txt": "one\n2\n3\n", "sub/new": "1\n", "empty2": ""})
        (folder / "b.txt").rename(folder / "sub/b.txt")
        (folder / "sub/c.txt").chmod(0o755)
        (folder / "empty").unlink()

    changes = await changed(folder, run, content=True)
    assert rows(changes) == {
        "a.txt": "modified +2 -1",
        "empty": "deleted +0 -0",
        "empty2": "added +0 -0",
        "sub/b.txt": "renamed +0 -0 from b.txt",
        "sub/c.txt": "modified +0 -0",
        "sub/new": "added +1 -0",
    }
    assert (changes.unseen, changes.root, changes.head_moved) == ((), str(folder), False)


async def test_a_file_that_was_only_written_anew_is_no_change(folder: Path) -> None:
    def run() -> None:
        for name in ("a.txt", "sub/c.txt"):
            text = (folder / name).read_text()
            (folder / name).unlink()
            (folder / name).write_text(text)
            os.utime(folder / name, (1, 1))

    assert rows(await changed(folder, run, content=True)) == {}


async def test_links_and_mounts_are_not_followed_and_git_folders_not_entered(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"outside/x": "1\n"})
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "loop").symlink_to(".")
    os.mkfifo(folder / "pipe")
    repository(folder / "inner", {"i.txt": "1\n"})
    real = os.fstat

    def elsewhere(number: int) -> os.stat_result:
        status = real(number)
        other = os.path.samestat(status, os.stat(folder / "sub"))
        return os.stat_result([*status[:2], 4711, *status[3:]]) if other else status

    monkeypatch.setattr(os, "fstat", elsewhere)

    def run() -> None:
        write(tmp_path, {"outside/x": "2\n", "site/sub/c.txt": "its\n", "site/inner/i.txt": "its\n"})
        (folder / "loop").unlink()
        (folder / "loop").symlink_to("sub")

    changes = await changed(folder, run, content=True)
    assert rows(changes) == {"inner/i.txt": "modified +1 -1", "loop": "modified +1 -1"}
    assert changes.unseen == ("inner/.git: git's own", "sub: another file system")


async def test_what_the_budget_of_files_left_out_is_said_and_never_told_as_new(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, {f"zz/{number}": "x\n" for number in range(10)})
    monkeypatch.setattr(_walk, "FILES", 8)
    seen = await before(folder, content=True)
    write(folder, {"zz/3": "its\n", "zz/new": "its\n", "a.txt": "one\n"})
    shutil.rmtree(folder / "sub")
    monkeypatch.setattr(_walk, "FILES", 100)
    changes = await after(seen)
    assert rows(changes) == {"a.txt": "modified +0 -1", "sub/c.txt": "deleted +0 -1"}
    assert changes.unseen == ("zz: it holds more than is looked at",)

    # What the run added may push others out: those are still looked at.
    monkeypatch.setattr(_walk, "FILES", 20)
    seen = await before(folder, content=True)
    write(folder, {f"{number}/{name}": "x\n" for number in range(8) for name in "xy"} | {"zz/3": "again\n"})
    changes = await after(seen)
    added = {f"{number}/{name}": "added +1 -0" for number in range(4) for name in "xy"}
    assert rows(changes) == added | {"zz/3": "modified +1 -1"}
    assert changes.unseen == tuple(f"{name}: the budget was used up" for name in (4, 5, 6, 7, "zz"))


def test_beyond_the_budget_of_bytes_size_and_time_stand_for_contents(folder: Path) -> None:
    paths = ["a.txt", "b.txt", "sub/c.txt"]
    budget = Budget(60, size=9)
    first = fingerprints(str(folder), paths, budget)
    assert [path for path in paths if first[path].digest] == ["a.txt"]
    assert budget.notes() == ["2 files were too many or too large to read: they are known by size and time"]
    (folder / "b.txt").write_text("x\n")
    os.utime(folder / "b.txt", (1, 1))
    second = fingerprints(str(folder), paths, Budget(60))
    assert [path for path in paths if not same(first[path], second[path])] == ["b.txt"]


def test_beyond_the_budget_of_time_nothing_is_read_or_listed(folder: Path) -> None:
    budget = Budget(-1)
    assert walk(str(folder), budget).unlisted == {"": "the budget was used up"}
    assert fingerprints(str(folder), ["a.txt"], budget)["a.txt"].digest is None


def test_a_file_that_grows_while_it_is_read_is_read_as_far_as_it_went(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fstat

    def shorter(number: int) -> os.stat_result:
        status = real(number)
        return os.stat_result([*status[:6], 4, *status[7:]])

    monkeypatch.setattr(os, "fstat", shorter)
    grown = fingerprints(str(folder), ["a.txt"], Budget(60), "sha1")["a.txt"]
    monkeypatch.undo()
    (folder / "a.txt").write_text("one\n")
    assert same(grown, fingerprints(str(folder), ["a.txt"], Budget(60), "sha1")["a.txt"])


def test_a_name_that_no_file_can_have_is_said(folder: Path) -> None:
    budget, long = Budget(60), "x" * 300
    assert fingerprints(str(folder), [long, f"{long}/a", "sub/none", "a.txt/x", "sub"], budget) == {}
    assert budget.failed == [long, long]


def test_a_folder_that_cannot_be_listed_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(number: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "scandir", failing)
    assert walk(str(folder), Budget(60)).unlisted == {"": "Input/output error"}


def test_a_folder_that_goes_while_it_is_walked_is_gone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def going(path: str, flags: int, *, dir_fd: int | None = None) -> int:
        if path == "sub":
            shutil.rmtree(folder / "sub")
        return real(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", going)
    found = walk(str(folder), Budget(60))
    assert (sorted(found.states), found.unlisted) == (["a.txt", "b.txt", "empty"], {})


@pytest.mark.parametrize("swap", ["gone", "a link", "a pipe"])
def test_a_file_that_is_swapped_while_it_is_looked_at_leads_nowhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch, swap: str
) -> None:
    real = os.stat

    def swapped(path: str, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        status = real(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        os.unlink(folder / "a.txt")
        if swap == "a link":
            os.symlink("b.txt", folder / "a.txt")
        elif swap == "a pipe":
            os.mkfifo(folder / "a.txt")
        return status

    monkeypatch.setattr(os, "stat", swapped)
    budget = Budget(60)
    state = fingerprints(str(folder), ["a.txt"], budget).get("a.txt")
    assert (state and state.digest, budget.failed) == (None, ["a.txt"] if swap == "a link" else [])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_what_may_not_be_read_is_said(folder: Path) -> None:
    (folder / "a.txt").chmod(0)
    (folder / "sub").chmod(0)
    changes = await changed(folder, lambda: None, content=True)
    (folder / "sub").chmod(0o755)
    assert changes.unseen == ("a.txt: cannot be read", "sub: cannot be read")


async def test_a_file_a_hundred_folders_deep_is_told_and_250_are_listed_as_200(folder: Path) -> None:
    deep = "/".join("d" * 100)

    def run() -> None:
        write(folder, {f"{deep}/x": "1\n"} | {f"many/{number}": "1\n" for number in range(249)})

    changes = await changed(folder, run, content=True)
    assert (len(changes.files), changes.more, changes.files[0].path) == (200, 50, f"{deep}/x")
