"""What is opened so that a task can commit, and what never is."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from git_kit import git, repository, worktree

from subagent_codex._roots import GitRoots, content, git_roots


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder without links on its way, with a name that has to be quoted."""
    path = Path(os.path.realpath(tmp_path)) / "per's\nba se"
    path.mkdir()
    return path


def names(roots: GitRoots, below: Path) -> tuple[list[str], list[str]]:
    return tuple([str(path.relative_to(below)) for path in paths] for paths in (roots.roots, roots.closed))  # pyright: ignore[reportReturnType]


def test_a_folder_in_no_repository_needs_nothing(base: Path) -> None:
    assert git_roots(base) == GitRoots("none")


def test_what_only_looks_like_a_repository_is_none(base: Path) -> None:
    inner = repository(base / "repo") / "a/b"
    inner.mkdir(parents=True)
    (base / "repo/a/.git").mkdir()  # what an engine leaves
    os.mkfifo(inner / ".git")
    assert names(git_roots(inner, open_plain=True), base / "repo")[0] == [".git"]


def test_a_plain_repository_is_opened_only_if_asked_for(base: Path) -> None:
    repo = repository(base / "repo")
    (repo / "sub").mkdir()
    for cwd in (repo, repo / "sub"):
        closed = git_roots(cwd)
        assert (closed.kind, closed.roots, closed.closed) == ("plain", (), ())
        assert closed.reason is not None
        assert "a commit will be refused" in closed.reason
        assert "git_writable" in closed.reason
        opened = git_roots(cwd, open_plain=True)
        assert (opened.kind, opened.reason) == ("plain", None)
        assert names(opened, repo / ".git") == (["."], ["commondir", "config", "hooks"])
    assert git_roots(repo, open_plain=True).filesystem == {
        f"{repo}/.git": "write",
        f"{repo}/.git/commondir": "read",
        f"{repo}/.git/config": "read",
        f"{repo}/.git/hooks": "read",
    }


def test_what_else_leads_git_somewhere_stays_closed_too(base: Path) -> None:
    repo = repository(base / "repo")
    git(repo, "submodule", "--quiet", "add", str(repository(base / "other")), "sub")
    worktree(repo, base / "wt")
    git(repo, "config", "extensions.worktreeConfig", "true")
    expected = ["commondir", "config", "hooks", "modules", "worktrees", "config.worktree"]
    assert names(git_roots(repo, open_plain=True), repo / ".git") == (["."], expected)
    git(base / "wt", "config", "--worktree", "a.b", "c")
    for config in (True, False):  # asked for by the configuration, or simply there
        git(repo, "config", "extensions.worktreeConfig", str(config).lower())
        assert git_roots(base / "wt").closed[-1] == repo / ".git/worktrees/wt/config.worktree"


def test_a_linked_worktree_is_opened_without_the_configuration_and_the_hooks(base: Path) -> None:
    repo = repository(base / "repo")
    wt = worktree(repo, base / "wt")
    (wt / "sub").mkdir()
    for cwd in (wt, wt / "sub"):
        roots = git_roots(cwd)
        assert (roots.kind, roots.reason) == ("worktree", None)
        assert names(roots, repo / ".git") == (
            ["worktrees/wt", "objects", "refs", "logs"],
            ["worktrees/wt/commondir", "worktrees/wt/gitdir"],
        )


def test_a_detached_worktree_opens_no_branch(base: Path) -> None:
    repo = repository(base / "repo")
    wt = worktree(repo, base / "wt")
    git(wt, "switch", "-q", "--detach")
    assert names(git_roots(wt), repo / ".git")[0] == ["worktrees/wt", "objects"]


def test_a_linked_worktree_that_is_reached_by_a_link_is_the_same(base: Path) -> None:
    wt = worktree(repository(base / "repo"), base / "wt")
    (base / "link").symlink_to(wt)
    assert git_roots(base / "link") == git_roots(wt)


def refusal(cwd: Path) -> str:
    roots = git_roots(cwd, open_plain=True)
    assert roots.roots == roots.closed == ()
    assert roots.reason is not None
    assert roots.reason.startswith("a commit will be refused: ")
    return roots.reason


@pytest.mark.parametrize("what", ["config", "hooks", "commondir", ".git"])
def test_nothing_is_opened_through_a_link(base: Path, what: str) -> None:
    repo = repository(base / "repo")
    path = repo / ".git" / what if what != ".git" else repo / ".git"
    if path.exists():
        path.rename(base / "moved")
    path.symlink_to(base / "moved")
    reason = refusal(repo)
    assert "is a link" in reason or "is no file that can be read" in reason


def test_a_linked_pointer_is_not_taken_for_nothing(base: Path) -> None:
    repo = repository(base / "repo")
    wt = worktree(repo, base / "wt")
    (repo / "sub").mkdir()
    (repo / "sub/.git").symlink_to(wt / ".git")  # git would follow it
    assert f"{repo}/sub/.git is a link" in refusal(repo / "sub")


def test_a_configuration_that_includes_another_file_is_not_opened(base: Path) -> None:
    repo = repository(base / "repo")
    git(repo, "config", "include.path", "more")
    assert "includes other files" in refusal(repo)


def test_a_plain_folder_that_already_leads_elsewhere_is_not_opened(base: Path) -> None:
    repo = repository(base / "repo")
    (repo / ".git/commondir").write_text("../../other/.git\n")
    assert "leads to another repository" in refusal(repo)
    (repo / ".git/commondir").write_text(".\n")  # what a run that was killed left
    assert git_roots(repo, open_plain=True).reason is None


def test_a_submodule_and_a_folder_with_its_git_elsewhere_are_not_opened(base: Path) -> None:
    repo = repository(base / "repo")
    git(repo, "submodule", "--quiet", "add", str(repository(base / "other")), "sub")
    assert "as in a submodule" in refusal(repo / "sub")
    assert "as in a submodule" in refusal(repository(base / "apart", "--separate-git-dir", str(base / "elsewhere")))


@pytest.mark.parametrize("text", [b"", b"rubbish", b"gitdir:", b"gitdir: a\0b", b"gitdir: " + b"x" * 70_000])
def test_a_git_file_that_git_did_not_write_is_not_opened(base: Path, text: bytes) -> None:
    (base / ".git").write_bytes(text)
    assert "is no file that git could have written" in refusal(base)


def test_a_planted_pointer_at_another_repository_opens_nothing(base: Path) -> None:
    """An earlier task can write any file in its folder, but not the way back in the other repository."""
    wt = worktree(repository(base / "repo"), base / "wt")
    mine = base / "mine"
    mine.mkdir()
    (mine / ".git").write_text((wt / ".git").read_text())
    assert "does not belong to it" in refusal(mine)
    admin = mine / "admin"
    admin.mkdir()
    (admin / "commondir").write_text(str(base / "repo/.git"))
    (admin / "gitdir").write_text(str(mine / ".git"))
    (mine / ".git").write_text(f"gitdir: {admin}")
    assert "does not belong to it" in refusal(mine)


def test_a_planted_repository_opens_nothing_behind_a_link(base: Path) -> None:
    mine = base / "mine"
    admin = mine / "common/worktrees/w"
    admin.mkdir(parents=True)
    (base / "precious").mkdir()
    for name in ("HEAD", "refs"):
        (mine / "common" / name).mkdir()
    (mine / "common/objects").symlink_to(base / "precious")
    (admin / "commondir").write_text("../..")
    (admin / "gitdir").write_text(f"{mine}/.git\n")
    (mine / ".git").write_text("gitdir: common/worktrees/w\n")
    assert f"{mine}/common/objects is a link" in refusal(mine)
    (mine / "common/objects").unlink()
    (mine / "common/objects").mkdir()
    assert all(root.is_relative_to(mine) for root in git_roots(mine).roots)  # its own: nothing gained


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder in which we may not write, and somebody who may not."""
    path = Path(tempfile.mkdtemp(dir="/tmp"))
    path.chmod(0o755)
    repo = repository(path / "repo")
    (repo / ".git").chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield repo
    if root:
        os.seteuid(0)
    (repo / ".git").chmod(0o755)
    shutil.rmtree(path)


def test_what_we_may_not_write_in_is_not_opened(as_nobody: Path) -> None:
    assert "is not yours to write in" in refusal(as_nobody)


def test_only_small_regular_files_are_read(base: Path) -> None:
    (base / "file").write_bytes(b"12345")
    os.mkfifo(base / "pipe")
    (base / "link").symlink_to("file")
    assert content(base / "file", 5) == b"12345"
    assert content(base / "file", 4) is None
    for name in ("pipe", "link", ".", "missing"):
        assert content(base / name) is None
