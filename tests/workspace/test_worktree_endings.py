"""What a run can do to its worktree so that work would be lost, or another repository be written to."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from worktree_kit import git, made, repository_in

from subagent_workspace import WorktreeFailed, finish_worktree, list_worktrees, remove_worktree

pytestmark = pytest.mark.anyio


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return repository_in(tmp_path)


async def test_files_that_git_was_told_to_overlook_are_kept_and_told(repository: Path, tmp_path: Path) -> None:
    worktree = await made(repository, tmp_path / "w")
    for flag in ("--assume-unchanged", "--skip-worktree"):
        git(worktree.path, "update-index", flag, "a.txt")
    Path(worktree.path, "a.txt").write_text("work\n")
    report = await finish_worktree(worktree)
    assert report.path == worktree.path
    assert report.notes == ("the run told git to overlook a.txt",)
    assert "+work\n" in report.diff


async def test_what_the_persons_settings_mark_as_never_changed_is_seen(repository: Path, tmp_path: Path) -> None:
    git(repository, "config", "core.ignoreStat", "true")
    worktree = await made(repository, tmp_path / "w")
    Path(worktree.path, "a.txt").write_text("work\n")
    report = await finish_worktree(worktree)
    assert report.path == worktree.path
    assert "+work\n" in report.diff


async def test_new_rules_of_what_is_ignored_remove_nothing(repository: Path, tmp_path: Path) -> None:
    worktree = await made(repository, tmp_path / "w")
    Path(worktree.path, "work.txt").write_text("work\n")
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "exclude").write_text("*\n")
    report = await finish_worktree(worktree)
    assert report.path == worktree.path
    assert "rules of what is ignored" in report.notes[0]


async def test_commits_that_the_run_left_again_get_the_branch(repository: Path, tmp_path: Path) -> None:
    worktree = await made(repository, tmp_path / "w")
    Path(worktree.path, "a.txt").write_text("work\n")
    git(worktree.path, "commit", "-qam", "by the run")
    git(worktree.path, "checkout", "-q", "--detach", "HEAD~1")
    report = await finish_worktree(worktree)
    assert (report.path, report.branch) == (None, "subagents/x")
    assert git(repository, "log", "-1", "--format=%s", "subagents/x") == "by the run"
    assert "+work\n" in report.diff
    assert not Path(worktree.path).exists()


async def test_commits_in_a_folder_that_the_run_removed_get_the_branch(repository: Path, tmp_path: Path) -> None:
    worktree = await made(repository, tmp_path / "w")
    Path(worktree.path, "a.txt").write_text("work\n")
    git(worktree.path, "commit", "-qam", "by the run")
    shutil.rmtree(worktree.path)
    report = await finish_worktree(worktree)
    assert (report.path, report.branch) == (None, "subagents/x")
    assert git(repository, "log", "-1", "--format=%s", "subagents/x") == "by the run"


@pytest.mark.parametrize("way", ["pointer", "commondir"])
async def test_one_that_leads_to_another_repository_is_left_alone(way: str, repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", str(repository), str(other))
    git(other, "checkout", "-q", "--detach")
    before = git(other, "for-each-ref"), (other / ".git" / "HEAD").read_text()
    worktree = await made(repository, tmp_path / "w")
    Path(worktree.path, "a.txt").write_text("work\n")
    if way == "pointer":
        Path(worktree.path, ".git").write_text(f"gitdir: {other}/.git\n")
    else:
        Path(worktree.git_dir, "commondir").write_text(f"{other}/.git\n")
    report = await finish_worktree(worktree)
    assert report.path == worktree.path
    assert report.branch is None
    assert "left alone" in report.notes[0]
    assert (git(other, "for-each-ref"), (other / ".git" / "HEAD").read_text()) == before


async def test_nothing_that_a_submodule_names_is_run_for_the_diff(repository: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    inner = tmp_path / "inner"
    git(tmp_path, "init", "-q", str(inner))
    git(inner, "commit", "-q", "--allow-empty", "-m", "one")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    git(repository, "commit", "-qm", "submodule")
    git(repository, "config", "diff.submodule", "diff")
    worktree = await made(repository, tmp_path / "w")
    git(worktree.path, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
    sub = Path(worktree.path, "sub")
    (sub / "f.txt").write_text("x\n")
    git(sub, "add", ".")
    git(sub, "commit", "-qm", "two")
    git(sub, "config", "diff.evil.command", f"touch {marker}; true")
    attributes = Path(git(sub, "rev-parse", "--path-format=absolute", "--git-path", "info/attributes"))
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text("* diff=evil\n")
    git(worktree.path, "diff")
    assert marker.exists()  # plain git runs it
    marker.unlink()
    report = await finish_worktree(worktree)
    assert "Subproject commit" in report.diff
    assert not marker.exists()


async def test_one_that_a_killed_harness_left_is_listed(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    worktree = await made(repository, None)
    assert await list_worktrees(repository) == (worktree.path,)
    Path(worktree.path, "a.txt").write_text("work\n")
    git(worktree.path, "commit", "-qam", "by the run")
    with pytest.raises(WorktreeFailed, match="is locked"):
        await remove_worktree(worktree.path)
    await remove_worktree(worktree.path, force=True)
    assert await list_worktrees(repository) == ()
    assert git(repository, "log", "-1", "--format=%s", "--branches=subagents/*") == "by the run"


async def test_what_became_another_kind_of_file_is_in_the_diff(repository: Path, tmp_path: Path) -> None:
    worktree = await made(repository, tmp_path / "w")
    shutil.rmtree(Path(worktree.path, "pkg"))
    Path(worktree.path, "pkg").write_text("a file now\n")
    Path(worktree.path, "a.txt").unlink()
    os.mkfifo(Path(worktree.path, "a.txt"))
    report = await finish_worktree(worktree)
    assert "+a file now\n" in report.diff
    assert any("a.txt is not in the diff" in note for note in report.notes)


async def test_a_branch_without_a_commit_is_told(repository: Path, tmp_path: Path) -> None:
    worktree = await made(repository, tmp_path / "w")
    git(worktree.path, "checkout", "-q", "--orphan", "fresh")
    report = await finish_worktree(worktree)
    assert (report.path, report.branch) == (worktree.path, "fresh")


@pytest.mark.parametrize("name", ["", "a/b", "-x", "a b", "..", "x" * 65])
async def test_a_name_that_is_no_word_is_refused(name: str, repository: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no name of a worktree"):
        await made(repository, tmp_path / "w", name)


async def test_configuration_that_counts_in_the_worktree_alone_is_not_run(repository: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    evil = tmp_path / "evil.cfg"
    evil.write_text(f'[filter "evil"]\n\tsmudge = "touch {marker}; cat"\n\tclean = "touch {marker}; cat"\n')
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    for condition in ("gitdir:**/worktrees/**", "onbranch:subagents/**"):
        git(repository, "config", f"includeIf.{condition}.path", str(evil))
    git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "plain"))
    assert marker.exists()  # plain git runs it
    marker.unlink()
    worktree = await made(repository, tmp_path / "w")
    Path(worktree.path, "a.txt").write_text("two\n")
    report = await finish_worktree(worktree)
    assert "+two\n" in report.diff
    assert not marker.exists()


async def test_a_submodules_own_filter_is_not_run_for_the_diff(repository: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    worktree = await made(repository, tmp_path / "w")
    sub = Path(worktree.path, "sub")
    git(worktree.path, "init", "-q", str(sub))
    (sub / "f.txt").write_text("x\n")
    git(sub, "add", ".")
    git(sub, "commit", "-qm", "one")
    git(sub, "config", "filter.evil.clean", f"touch {marker}; cat")
    (sub / ".git" / "info").mkdir(exist_ok=True)
    (sub / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    (sub / "f.txt").write_text("y\n")
    Path(worktree.path, "empty").mkdir()
    git(worktree.path, "init", "-q", "empty")
    Path(worktree.path, "a.txt").write_text("two\n")
    report = await finish_worktree(worktree)
    assert "+two\n" in report.diff
    assert not marker.exists()


async def test_a_rebase_that_is_not_finished_is_left_as_it_is(repository: Path, tmp_path: Path) -> None:
    worktree = await made(repository, tmp_path / "w")
    Path(worktree.git_dir, "rebase-merge").mkdir()
    Path(worktree.path, "a.txt").write_text("two\n")
    report = await finish_worktree(worktree)
    assert report.branch == "subagents/x"
    assert "unfinished" in report.notes[0]
    assert git(worktree.path, "rev-parse", "--symbolic-full-name", "HEAD") == "HEAD"
