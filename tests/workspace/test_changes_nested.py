"""Repositories within a repository are looked at too, each as one of its own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from changes_kit import after, before, changed, git, repository, rows, write

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """With a submodule, and a repository of nobody; a repository in each of them."""
    inner = repository(tmp_path / "inner", {"s.txt": "one\n", "t.txt": "one\n"})
    middle = repository(tmp_path / "middle", {"m.txt": "one\n"})
    git(middle, "submodule", "--quiet", "add", str(inner), "deep")
    git(middle, "commit", "-qm", "deep")
    repo = repository(tmp_path / "repo", {"a.txt": "one\n"})
    git(repo, "submodule", "--quiet", "add", str(middle), "sub dir/mod")
    git(repo, "submodule", "--quiet", "update", "--init", "--recursive")
    git(repo, "commit", "-qm", "mod")
    repository(repo / "own", {"o.txt": "one\n"})
    return repo


async def test_their_files_stand_under_their_path(repo: Path) -> None:
    write(repo, {"sub dir/mod/mine": "mine\n", "own/o.txt": "mine\n"})

    def run() -> None:
        write(repo, {"sub dir/mod/m.txt": "its\n", "sub dir/mod/deep/s.txt": "its\n", "own/new": "its\n"})
        git(repo / "sub dir/mod/deep", "commit", "-qam", "its")
        git(repo / "sub dir/mod/deep", "mv", "t.txt", "u.txt")

    changes = await changed(repo, run)
    assert rows(changes) == {
        "own/new": "added +1 -0",
        "sub dir/mod/deep/s.txt": "modified +1 -1 *",
        "sub dir/mod/deep/u.txt": "renamed +0 -0 from sub dir/mod/deep/t.txt",
        "sub dir/mod/m.txt": "modified +1 -1",
    }
    assert (changes.commits, changes.unseen) == ((), ())


async def test_one_that_came_or_went_is_one_path(repo: Path) -> None:
    def run() -> None:
        shutil.rmtree(repo / "own")
        repository(repo / "came/here", {"x": "1\n"})
        git(repo, "worktree", "add", "-q", "--detach", "tree")

    assert rows(await changed(repo, run)) == {"came/here/": "added", "own/": "deleted", "tree/": "added"}
    assert rows(await changed(repo / "came", lambda: repository(repo / "came"))) == {"./": "added"}


async def test_what_cannot_be_looked_at_is_said_and_the_rest_is_told(repo: Path) -> None:
    (repo / "own/.git/index").write_bytes(b"rubbish")
    git(repo, "config", "-f", ".gitmodules", "submodule.x.path", "../../inner")
    git(repo, "config", "-f", ".gitmodules", "submodule.y.path", "link")
    (repo / "link").symlink_to(repo.parent / "inner")
    seen = await before(repo)
    write(repo, {"a.txt": "its\n", "own/o.txt": "its\n", "../inner/s.txt": "its\n"})
    shutil.rmtree(repo / "sub dir/mod/deep")
    (repo / "sub dir/mod/.git").unlink()
    changes = await after(seen)
    assert rows(changes)["a.txt"] == "modified +1 -1"
    assert not any("inner" in path or path.startswith("link") for path in rows(changes))
    assert any(note.startswith("own/: git status: ") for note in changes.unseen)
    assert any(note == "sub dir/mod/ is no repository any more" for note in changes.unseen)


async def test_of_more_than_twenty_the_rest_is_said(tmp_path: Path) -> None:
    repo = repository(tmp_path / "many", {"a.txt": "one\n"})
    for number in range(22):
        repository(repo / f"r{number:02}")
    changes = await changed(repo, lambda: write(repo, {"r19/x": "1\n", "r21/x": "1\n"}))
    assert rows(changes) == {"r19/x": "added +1 -0"}
    assert [note.partition(":")[0] for note in changes.unseen] == ["r20/", "r21/"]


async def test_a_list_of_submodules_that_is_no_file_holds_nobody_up(repo: Path) -> None:
    (repo / ".gitmodules").unlink()
    os.mkfifo(repo / ".gitmodules")
    assert rows(await changed(repo, lambda: write(repo, {"a.txt": "its\n"}))) == {"a.txt": "modified +1 -1"}


async def test_a_submodule_that_the_run_committed_is_told_by_its_files(repo: Path) -> None:
    def run() -> None:
        write(repo, {"sub dir/mod/m.txt": "its\n"})
        git(repo / "sub dir/mod", "commit", "-qam", "its")
        git(repo, "commit", "-qam", "a newer mod")

    changes = await changed(repo, run)
    assert rows(changes) == {"sub dir/mod/m.txt": "modified +1 -1 *"}
    assert [commit.subject for commit in changes.commits] == ["a newer mod"]


async def test_a_head_that_moved_within_is_said(repo: Path) -> None:
    git(repo / "own", "commit", "-q", "--allow-empty", "-m", "second")
    changes = await changed(repo, lambda: git(repo / "own", "reset", "-q", "--hard", "HEAD~1"))
    assert (changes.files, changes.head_moved, changes.unseen) == ((), False, ("own/: HEAD moved",))


async def test_a_folder_of_rubbish_in_the_place_of_a_repository_is_said_once(repo: Path) -> None:
    (repo / "empty/.git").mkdir(parents=True)
    git(repo, "config", "-f", ".gitmodules", "submodule.x.path", "empty")
    changes = await changed(repo, lambda: write(repo, {"a.txt": "its\n"}))
    assert (rows(changes), changes.unseen) == (
        {"a.txt": "modified +1 -1"},
        ("empty/: its .git is none that git can read",),
    )


async def test_a_list_of_submodules_that_is_rubbish_is_said(repo: Path) -> None:
    def run() -> None:
        write(repo, {".gitmodules": "[rubbish", "sub dir/mod/m.txt": "its\n"})

    changes = await changed(repo, run)
    assert rows(changes) == {".gitmodules": "modified +1 -3", "sub dir/mod/m.txt": "modified +1 -1"}
    assert [note.partition("fatal")[0] for note in changes.unseen] == [".gitmodules: git config: "]
