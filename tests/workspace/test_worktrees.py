"""A worktree for a run, and what becomes of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from worktree_kit import BOUND, git, made, repository_in

from subagent_workspace import (
    WorktreeDirty,
    WorktreeFailed,
    finish_worktree,
    list_worktrees,
    remove_worktree,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return repository_in(tmp_path)


@pytest.fixture
def state(repository: Path) -> Callable[[], tuple[str, ...]]:
    """All that a run must not change in the repository of the person."""

    def look() -> tuple[str, ...]:
        return git(repository, "status", "--porcelain"), git(repository, "rev-parse", "HEAD"), git(repository, "branch")

    return look


async def test_it_begins_at_head_and_belongs_to_no_branch(
    repository: Path, tmp_path: Path, state: Callable[[], tuple[str, ...]]
) -> None:
    (repository / "a.txt").write_text("the person's\n")
    before = state()
    worktree = await made(repository, tmp_path / "w")
    assert Path(worktree.path, "a.txt").read_text() == "one\n"
    assert git(worktree.path, "rev-parse", "--abbrev-ref", "HEAD") == "HEAD"
    assert worktree.base == git(repository, "rev-parse", "HEAD")
    assert any("1 uncommitted change of" in note for note in worktree.notes)
    assert state() == before


async def test_the_run_works_in_the_same_folder_of_it(repository: Path, tmp_path: Path) -> None:
    worktree = await made(repository / "pkg", tmp_path / "w")
    assert worktree.folder == os.path.join(worktree.path, "pkg")


async def test_one_in_which_nothing_was_done_is_removed(
    repository: Path, tmp_path: Path, state: Callable[[], tuple[str, ...]]
) -> None:
    before = state()
    worktree = await made(repository, tmp_path / "w")
    report = await finish_worktree(worktree)
    assert (report.path, report.branch, report.notes) == (None, None, ())
    assert not Path(worktree.path).exists()
    assert git(repository, "worktree", "list").count("\n") == 0
    assert state() == before


async def test_a_commit_is_kept_on_a_branch_of_its_own(repository: Path, tmp_path: Path) -> None:
    worktree = await made(repository, tmp_path / "w")
    Path(worktree.path, "a.txt").write_text("two\n")
    git(worktree.path, "commit", "-qam", "by the run")
    report = await finish_worktree(worktree)
    assert (report.path, report.branch) == (worktree.path, "subagents/x")
    assert git(repository, "log", "-1", "--format=%s", "subagents/x") == "by the run"
    assert git(worktree.path, "status", "--porcelain", "--branch") == "## subagents/x"
    assert "-one\n+two\n" in report.diff
    assert report.head != report.base
    assert await list_worktrees(repository) == (worktree.path,)


async def test_what_is_not_committed_is_kept_and_is_in_the_diff(repository: Path, tmp_path: Path) -> None:
    worktree = await made(repository, tmp_path / "w")
    Path(worktree.path, "new file.txt").write_text("new\n")
    Path(worktree.path, "pkg", "b.txt").unlink()
    report = await finish_worktree(worktree)
    assert report.path == worktree.path
    assert "+new\n" in report.diff
    assert "deleted file" in report.diff
    assert git(worktree.path, "status", "--porcelain").splitlines() == ["D pkg/b.txt", '?? "new file.txt"']


async def test_making_the_diff_writes_nothing_to_the_repository(repository: Path, tmp_path: Path) -> None:
    worktree = await made(repository, tmp_path / "w")
    Path(worktree.path, "new.txt").write_text("never stored\n")
    before = git(repository, "count-objects", "-v")
    assert "+never stored\n" in (await finish_worktree(worktree)).diff
    assert git(repository, "count-objects", "-v") == before


async def test_a_branch_that_the_run_made_is_told(repository: Path, tmp_path: Path) -> None:
    worktree = await made(repository, tmp_path / "w")
    git(worktree.path, "switch", "-qc", "mine")
    Path(worktree.path, "a.txt").write_text("two\n")
    git(worktree.path, "commit", "-qam", "by the run")
    assert (await finish_worktree(worktree)).branch == "mine"
    assert "subagents/" not in git(repository, "branch")


async def test_a_branch_of_that_name_is_not_moved(repository: Path, tmp_path: Path) -> None:
    git(repository, "branch", "subagents/x")
    before = git(repository, "rev-parse", "subagents/x")
    worktree = await made(repository, tmp_path / "w")
    Path(worktree.path, "a.txt").write_text("two\n")
    git(worktree.path, "commit", "-qam", "by the run")
    report = await finish_worktree(worktree)
    assert report.branch is None
    assert report.path == worktree.path
    assert "subagents/x could not be made" in report.notes[0]
    assert git(repository, "rev-parse", "subagents/x") == before


async def test_nothing_that_the_repository_names_is_run(repository: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    (repository / ".gitattributes").write_text("*.txt filter=bad\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "attributes")
    for key in ("smudge", "clean"):
        git(repository, "config", f"filter.bad.{key}", f"touch {marker}; cat")
    plain = tmp_path / "plain"
    git(repository, "worktree", "add", "-q", "--detach", str(plain))
    assert marker.exists()  # plain git does
    marker.unlink()
    worktree = await made(repository, tmp_path / "w")
    Path(worktree.path, "a.txt").write_text("two\n")
    report = await finish_worktree(worktree)
    await remove_worktree(worktree.path, force=True)
    assert "+two\n" in report.diff
    assert not marker.exists()


async def test_changes_are_not_removed_unless_told_so(repository: Path, tmp_path: Path) -> None:
    worktree = await made(repository, tmp_path / "w")
    Path(worktree.path, "a.txt").write_text("two\n")
    await finish_worktree(worktree)
    with pytest.raises(WorktreeDirty, match="1 change that is not committed"):
        await remove_worktree(worktree.path)
    assert Path(worktree.path, "a.txt").read_text() == "two\n"
    await remove_worktree(worktree.path, force=True)
    assert not Path(worktree.path).exists()
    assert await list_worktrees(repository) == ()


async def test_the_repository_itself_is_no_worktree_to_remove(repository: Path) -> None:
    with pytest.raises(WorktreeFailed, match="is no worktree"):
        await remove_worktree(repository, force=True)
    assert (repository / "a.txt").exists()


async def test_one_that_the_run_removed_is_told(repository: Path, tmp_path: Path) -> None:
    worktree = await made(repository, tmp_path / "w")
    git(repository, "worktree", "remove", "--force", "--force", worktree.path)
    report = await finish_worktree(worktree)
    assert report.path is None
    assert "was removed during the run" in report.notes[0]


async def test_one_whose_pointer_was_broken_is_kept(repository: Path, tmp_path: Path) -> None:
    worktree = await made(repository, tmp_path / "w")
    Path(worktree.path, ".git").write_text("gitdir: /nowhere\n")
    report = await finish_worktree(worktree)
    assert report.path == worktree.path
    assert report.notes
    assert Path(worktree.path, "a.txt").exists()


async def test_there_is_none_without_a_repository_or_a_commit(tmp_path: Path) -> None:
    with pytest.raises(WorktreeFailed, match="in no git repository"):
        await made(tmp_path, tmp_path / "w")
    git(tmp_path, "init", "-q")
    with pytest.raises(WorktreeFailed, match="has no commit yet"):
        await made(tmp_path, tmp_path / "w")


async def test_a_folder_that_the_commit_does_not_have_is_refused(repository: Path, tmp_path: Path) -> None:
    (repository / "new").mkdir()
    with pytest.raises(WorktreeFailed, match="is not in the commit"):
        await made(repository / "new", tmp_path / "w")
    assert not [*(tmp_path / "w").iterdir()]
    assert git(repository, "worktree", "list").count("\n") == 0


async def test_one_that_is_cancelled_while_it_is_made_leaves_nothing(repository: Path, tmp_path: Path) -> None:
    for number in range(2000):  # so that a checkout takes its time
        (repository / f"f{number}").write_text("x\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "many")
    where = tmp_path / "w"
    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made, repository, where)
            while not where.exists() or not [*where.iterdir()]:  # git tells nobody
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert not [*where.iterdir()]
    assert git(repository, "worktree", "list").count("\n") == 0


async def test_many_at_once_do_not_disturb_each_other(repository: Path, tmp_path: Path) -> None:
    made_names: list[str] = []

    async def one(name: str) -> None:
        worktree = await made(repository, tmp_path / "w", name)
        Path(worktree.path, "a.txt").write_text(f"{name}\n")
        report = await finish_worktree(worktree)
        assert report.branch == f"subagents/{name}", report.notes
        made_names.append(name)

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as tasks:
            for number in range(12):
                tasks.start_soon(one, f"n{number}")
    assert len(made_names) == 12
