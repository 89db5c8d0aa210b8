"""What git cannot tell is said and never raised; and a repository is never written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from changes_kit import BOUND, IDENTITY, after, before, changed, git, repository, rows, write

from subagent_workspace._git import Clock, GitError, open_repository
from subagent_workspace._look import read
from subagent_workspace._status import read_commits, read_deltas, read_numstat, read_status
from subagent_workspace.snapshots import snapshot

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo", {"a.txt": "one\n", "b.txt": "two\n"})


def corrupt_index(repo: Path) -> None:
    (repo / ".git/index").write_bytes(b"DIRC rubbish")


def corrupt_config(repo: Path) -> None:
    (repo / ".git/config").write_text("[core\nrubbish")


def a_file_of_rubbish(repo: Path) -> None:
    shutil.rmtree(repo / ".git")
    (repo / ".git").write_text("rubbish\n")


def a_file_that_leads_nowhere(repo: Path) -> None:
    shutil.rmtree(repo / ".git")
    (repo / ".git").write_text("gitdir: /nonexistent\n")


def a_link_that_leads_nowhere(repo: Path) -> None:
    shutil.rmtree(repo / ".git")
    (repo / ".git").symlink_to("nowhere")


def a_folder_of_rubbish(repo: Path) -> None:
    (repo / ".git/HEAD").write_text("rubbish\n")


def a_newer_format(repo: Path) -> None:
    git(repo, "config", "core.repositoryFormatVersion", "99")


def a_bare_one(repo: Path) -> None:
    git(repo, "config", "core.bare", "true")


def a_working_tree_elsewhere(repo: Path) -> None:
    git(repo, "config", "core.worktree", "/nonexistent")


def the_root_of_the_disk(repo: Path) -> None:
    git(repo, "config", "core.worktree", "/")


def a_foreign_owner(repo: Path) -> None:
    os.chown(repo, 4711, 4711)
    os.chown(repo / ".git", 4711, 4711)


BAD: dict[Callable[[Path], None], str] = {
    corrupt_index: "index",
    corrupt_config: "bad config",
    a_file_of_rubbish: "invalid gitfile format",
    a_file_that_leads_nowhere: "not a git repository: /nonexistent",
    a_link_that_leads_nowhere: "not a git repository",
    a_folder_of_rubbish: "not a git repository",
    a_newer_format: "version",
    a_bare_one: "in no working tree of it",
    a_working_tree_elsewhere: "in no working tree of it",
    the_root_of_the_disk: "core.worktree leads to /, which has no .git",
    a_foreign_owner: "dubious ownership",
}


@pytest.mark.parametrize("spoil", BAD, ids=lambda spoil: spoil.__name__)
async def test_a_repository_that_cannot_be_read_is_said(repo: Path, spoil: Callable[[Path], None]) -> None:
    if spoil is a_foreign_owner and os.geteuid():
        pytest.skip("only root can give a folder away")
    seen_well = await before(repo)
    spoil(repo)

    changes = await after(await before(repo))
    assert (changes.files, len(changes.unseen)) == ((), 1)
    assert BAD[spoil] in changes.unseen[0]

    # By its contents it can be looked at all the same.
    changes = await changed(repo, lambda: write(repo, {"a.txt": "its\n"}), content=True)
    assert rows(changes) == {"a.txt": "modified +1 -1"}
    assert any(BAD[spoil] in note for note in changes.unseen)

    # When the run did it, what the person had changed is still looked at.
    changes = await after(seen_well)
    assert changes.files == ()
    assert BAD[spoil] in changes.unseen[0]
    assert "only what was changed before the run" in changes.unseen[0]


async def test_a_repository_that_the_run_removed_leaves_what_was_changed_before_it(repo: Path) -> None:
    write(repo, {"a.txt": "mine\n", "note": "mine\n", "kept": "mine\n"})

    def run() -> None:
        shutil.rmtree(repo / ".git")
        write(repo, {"a.txt": "mine\nits\n"})
        (repo / "note").unlink()

    changes = await changed(repo, run)
    assert rows(changes) == {"a.txt": "modified +1 -0", "note": "deleted +0 -1"}
    assert f"the repository of {repo} is gone" in changes.unseen[0]


async def test_the_repository_around_one_that_is_gone_is_not_taken_for_it(repo: Path) -> None:
    inner = repository(repo / "inner", {"x": "1\n"})
    changes = await changed(inner, lambda: shutil.rmtree(inner / ".git"))
    assert changes.files == ()
    assert f"the repository of {inner} is gone" in changes.unseen[0]


async def test_a_base_that_was_removed_is_said(repo: Path) -> None:
    seen = await before(repo)
    shutil.rmtree(repo / ".git/objects")
    (repo / ".git/objects").mkdir()
    write(repo, {"a.txt": "its\n"})
    (repo / ".git/index").unlink()
    git(repo, "symbolic-ref", "HEAD", "refs/heads/other")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "its")
    changes = await after(seen)
    assert changes.head_moved
    assert "what was committed cannot be told" in changes.unseen[0]


@pytest.mark.parametrize("where", ["bare", "repo/.git", "repo/.git/refs"])
async def test_a_folder_of_git_itself_is_no_working_tree(repo: Path, tmp_path: Path, where: str) -> None:
    repository(tmp_path / "bare", None, "--bare")
    changes = await after(await before(tmp_path / where))
    assert changes.unseen == (f"{tmp_path / where} is in a repository but in no working tree of it",)


async def test_more_settings_than_can_be_overruled_are_said(repo: Path) -> None:
    with (repo / ".git/config").open("a") as file:
        file.write(f'[filter "{"x" * 140_000}"]\n\tclean = false\n')
    changes = await after(await before(repo))
    assert changes.unseen == ("git rev-parse: more settings than can be overruled",)


async def test_an_answer_without_end_is_not_kept(repo: Path) -> None:
    clock = Clock(BOUND)
    asked = await open_repository(str(repo), clock)
    assert asked
    with pytest.raises(GitError, match="git cat-file wrote more than 0 MiB"):
        await asked.ask(clock, "cat-file", "blob", "HEAD:a.txt", limit=3)


@pytest.mark.parametrize(
    ("reader", "answer"),
    [
        (read_status, b"1 rubbish\0"),
        (read_status, b"2 R. N... 1 1 1 a b R100 new\0"),
        (read_deltas, b"rubbish\0"),
        (read_deltas, b":1 1 a b M\0"),
        (read_numstat, b"rubbish\0"),
        (read_numstat, b"1\t1\t\0old\0"),
        (read_commits, b"commit >a\nrubbish\n"),
    ],
)
def test_an_answer_that_is_none_is_an_error_of_git(reader: Callable[[bytes], object], answer: bytes) -> None:
    with pytest.raises(GitError, match="an answer of git was not understood"):
        read(reader, answer)


def test_what_a_newer_git_adds_is_passed_over() -> None:
    assert list(read_status(b"# stash 1\0! ignored\0@ 1 2 new\0? x\0").entries) == ["x"]


async def test_without_time_nothing_is_asked(repo: Path) -> None:
    changes = await after(await before(repo, timeout=0))
    assert changes.unseen == ("git config had not ended when the 0 s for it were over",)


async def test_files_that_cannot_be_read_in_time_are_said(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that hangs."""
    write(repo, {"a.txt": "mine\n"})
    good, by_content = await before(repo), await before(repo / ".git", content=True)
    good._timeout = by_content._timeout = 0.5  # pyright: ignore[reportPrivateUsage]
    let_go, real = threading.Event(), os.stat

    def hanging(path: str, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        if dir_fd is not None:
            let_go.wait(BOUND)
        return real(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "stat", hanging)
    try:
        late = "the files had not been read when the 0.5 s for it were over"
        assert (await after(good)).unseen == (late,)
        assert late in (await after(by_content)).unseen
        assert late in (await after(await before(repo, timeout=0.5))).unseen
        assert late in (await after(await before(repo / ".git", content=True, timeout=0.5))).unseen
    finally:
        let_go.set()


async def test_without_git_it_is_said(repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    changes = await after(await before(repo))
    assert changes.unseen == (f"there is no git in {tmp_path}",)


async def test_a_git_that_never_answers_is_said_in_time(
    repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "git").write_text("#!/bin/sh\nexec sleep 1000\n")
    (slow / "git").chmod(0o755)
    good = await before(repo, timeout=0.3)
    monkeypatch.setenv("PATH", f"{slow}{os.pathsep}{os.environ['PATH']}")
    changes = await after(await before(repo, timeout=0.3))
    assert changes.unseen == ("git config had not ended when the 0.3 s for it were over",)
    assert "git config had not ended when the 0.3 s for it were over" in (await after(good)).unseen[0]


async def test_a_look_can_be_cancelled(repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.mkdir()
    began = tmp_path / "began"
    os.mkfifo(began)
    (slow / "git").write_text(f'#!/bin/sh\necho > "{began}"\nexec sleep 1000\n')
    (slow / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow}{os.pathsep}{os.environ['PATH']}")
    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(snapshot, repo)
            await anyio.Path(began).read_bytes()
            tasks.cancel_scope.cancel()


async def test_variables_that_lead_git_elsewhere_are_not_seen(
    repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = repository(tmp_path / "other", {"o.txt": "one\n"})
    index = (other / ".git/index").read_bytes()
    for name, value in {
        "GIT_DIR": other / ".git",
        "GIT_INDEX_FILE": other / ".git/index",
        "GIT_WORK_TREE": other,
        "GIT_OBJECT_DIRECTORY": other / ".git/objects",
        "GIT_COMMON_DIR": other / ".git",
        "GIT_NAMESPACE": "x",
        "GIT_CONFIG_GLOBAL": "/nonexistent",
        "GIT_CONFIG_PARAMETERS": "'core.worktree'='/'",
        "GIT_TRACE": tmp_path / "trace",
        "GIT_LITERAL_PATHSPECS": "0",
        "GIT_EXTERNAL_DIFF": "false",
    }.items():
        monkeypatch.setenv(name, str(value))
    changes = await changed(repo, lambda: write(repo, {"a.txt": "its\n"}))
    assert (rows(changes), changes.root, changes.unseen) == ({"a.txt": "modified +1 -1"}, str(repo), ())
    assert (other / ".git/index").read_bytes() == index
    assert not (tmp_path / "trace").exists()


async def test_settings_that_shape_gits_answers_shape_none_of_ours(repo: Path) -> None:
    for key, value in {
        "status.showUntrackedFiles": "no",
        "status.renames": "false",
        "diff.renames": "copies",
        "diff.relative": "true",
        "diff.orderFile": "/nonexistent",
        "diff.noprefix": "true",
        "diff.ignoreSubmodules": "all",
        "diff.stat": "1",
        "core.quotePath": "true",
        "color.ui": "always",
        "column.ui": "always",
        "status.short": "true",
        "status.branch": "false",
        "status.relativePaths": "true",
        "status.aheadBehind": "true",
        "log.showSignature": "true",
        "log.date": "relative",
        "format.pretty": "oneline",
        "i18n.logOutputEncoding": "latin1",
    }.items():
        git(repo, "config", key, value)

    def run() -> None:
        write(repo, {"sub/ü/x": "1\n", "a.txt": "its\n"})
        git(repo, "-c", "diff.orderFile=/dev/null", "commit", "-qam", "ü")
        git(repo, "mv", "b.txt", "c.txt")

    (repo / "sub").mkdir()
    changes = await changed(repo / "sub", run)
    expected = {
        "../a.txt": "modified +1 -1 *",
        "../c.txt": "renamed +0 -0 from ../b.txt",
        "ü/x": "added +1 -0",
    }
    assert (rows(changes), [commit.subject for commit in changes.commits]) == (expected, ["ü"])
    assert changes.unseen == ()


@pytest.mark.parametrize("locked", [False, True])
async def test_the_index_is_not_written_and_a_lock_is_left_alone(repo: Path, locked: bool) -> None:
    lock, index = repo / ".git/index.lock", repo / ".git/index"
    os.utime(repo / "a.txt", (1, 1))
    if locked:
        lock.write_bytes(b"")
    watched = (lock, index) if locked else (index,)
    held = [(path.read_bytes(), path.stat().st_mtime_ns) for path in watched]
    listing = sorted(path.name for path in (repo / ".git").iterdir())
    changes = await changed(repo, lambda: write(repo, {"b.txt": "its\n"}))
    assert (rows(changes), changes.unseen) == ({"b.txt": "modified +1 -1"}, ())
    assert [(path.read_bytes(), path.stat().st_mtime_ns) for path in watched] == held
    assert sorted(path.name for path in (repo / ".git").iterdir()) == listing
    if not locked:  # plain git writes the new time into it
        git(repo, "status")
        assert index.read_bytes() != held[0][0]


COMMITTER = """
import pathlib, subprocess, sys
print("up", flush=True)
sys.stdin.readline()
for number in range(50):
    pathlib.Path(f"new{number}.txt").write_text("x\\n")
    subprocess.run(["git", "add", "."], check=True)
    subprocess.run(["git", "commit", "-qam", f"number {number}"], check=True)
print("done", flush=True)
"""


@pytest.mark.long
async def test_fifty_looks_disturb_nobody_who_commits_fifty_times(repo: Path) -> None:
    env = {"PATH": os.defpath, "HOME": "/nonexistent", **IDENTITY}
    argv = [sys.executable, "-c", COMMITTER]
    seen = await before(repo)
    async with await anyio.open_process(argv, cwd=repo, env=env, stderr=subprocess.PIPE) as committer:
        assert committer.stdin
        assert committer.stdout
        assert committer.stderr
        assert await committer.stdout.receive() == b"up\n"
        await committer.stdin.send(b"go\n")
        for _ in range(50):
            assert (await after(await before(repo))).unseen == ()
        with anyio.fail_after(BOUND):
            assert await committer.stdout.receive() == b"done\n"
            assert await committer.wait() == 0
    changes = await after(seen)
    assert (len(changes.files), len(changes.commits), changes.more_commits) == (50, 20, 30)


async def test_a_clean_tree_costs_no_reading(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = os.open

    def watched(path: str, *args: int, dir_fd: int | None = None) -> int:
        opened.append(os.fspath(path))
        return real(path, *args, dir_fd=dir_fd)

    write(repo, {"mine.txt": "mine\n"})
    monkeypatch.setattr(os, "open", watched)
    await changed(repo, lambda: None)
    assert opened.count("mine.txt") == 2
    (repo / "mine.txt").unlink()
    opened.clear()
    await changed(repo, lambda: None)
    await changed(repo, lambda: git(repo, "commit", "-q", "--allow-empty", "-m", "x"))
    assert [path for path in opened if path.endswith(".txt") or path == str(repo)] == []
