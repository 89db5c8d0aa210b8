"""Before a task may write in folders of git, and after it."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from git_kit import git, listing, repository, worktree

from subagent_codex._gitlinks import gitlinks
from subagent_codex._guard import Guard
from subagent_codex._roots import GitRoots, git_roots
from subagent_codex._sandbox import Opened

HOLD = """
import sys
from subagent_codex._guard import Guard
from subagent_codex._roots import git_roots
with Guard(git_roots(sys.argv[1], open_plain=True), print, closed=False):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def told() -> list[str]:
    """What people are told."""
    return []


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A plain repository."""
    return repository(Path(os.path.realpath(tmp_path)) / "repo")


@pytest.fixture
def wt(repo: Path) -> Path:
    """A linked worktree of it."""
    return worktree(repo, repo.parent / "wt")


def held(repo: Path) -> subprocess.Popen[bytes]:
    """Another harness with a run in the same repository."""
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(repo)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"held\n"
    return other


def test_what_is_not_opened_is_not_touched(tmp_path: Path, repo: Path, told: list[str]) -> None:
    before = listing(repo)
    for roots in (GitRoots("none"), git_roots(repo)):
        with Guard(roots, told.append, closed=False):
            assert listing(repo) == before
    assert listing(repo) == before
    assert told == []


def test_git_works_as_ever_in_a_guarded_repository_and_what_stays_is_empty(repo: Path, told: list[str]) -> None:
    git(repo, "config", "extensions.worktreeConfig", "true")
    for hook in (repo / ".git/hooks").iterdir():
        hook.unlink()
    (repo / ".git/hooks").rmdir()
    before = listing(repo / ".git")
    roots = git_roots(repo, open_plain=True)
    with Guard(roots, told.append, closed=False):
        assert all(path.exists() for path in roots.closed)  # else the engine would put empty files there
        assert git(repo, "rev-parse", "--git-dir", "--git-common-dir") == f".git\n{repo}/.git\n"
        (repo / "a").write_text("a")
        git(repo, "add", "a")
        git(repo, "commit", "-q", "-m", "a")
        git(repo, "worktree", "add", "-q", str(repo.parent / "other"))
        git(repo.parent / "other", "commit", "-q", "--allow-empty", "-m", "b")
        assert sorted(git(repo, "log", "--format=%s", "--all").split()) == ["a", "b", "first"]
        git(repo, "gc", "-q")
        git(repo, "worktree", "remove", str(repo.parent / "other"))
        assert git(repo, "fsck") == git(repo, "status", "--short") == ""
    assert {"commondir", "hooks", "config.worktree"} & (listing(repo / ".git") - before) == {"config.worktree"}
    assert (repo / ".git/config.worktree").read_bytes() == b""
    assert git(repo, "status", "--short") == ""
    assert told == []


def test_hooks_and_settings_that_were_there_stay(repo: Path, told: list[str]) -> None:
    git(repo, "config", "extensions.worktreeConfig", "true")
    git(repo, "config", "--worktree", "a.b", "c")
    before = listing(repo)
    with Guard(git_roots(repo, open_plain=True), told.append, closed=False):
        pass
    assert listing(repo) == before
    assert told == []


def test_hooks_that_are_a_file_stay_one(repo: Path, told: list[str]) -> None:
    shutil.rmtree(repo / ".git/hooks")
    (repo / ".git/hooks").touch()  # some people turn hooks off like this, and engines leave it
    with Guard(git_roots(repo, open_plain=True), told.append, closed=False):
        assert git(repo, "commit", "-q", "--allow-empty", "-m", "x") == ""
    assert (repo / ".git/hooks").is_file()
    assert told == []


def test_a_folder_that_cannot_be_laid_leaves_nothing(
    repo: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    before, descriptors = listing(repo), len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(OSError, match="No space left"):
        Guard(git_roots(repo, open_plain=True), told.append, closed=False).__enter__()
    assert listing(repo) == before
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_the_last_of_several_runs_takes_the_pointer_away(repo: Path, told: list[str]) -> None:
    pointer = repo / ".git/commondir"
    roots = git_roots(repo, open_plain=True)
    second = Guard(git_roots(repo, open_plain=True), told.append, closed=False)
    with Guard(roots, told.append, closed=False):
        second.__enter__()
        inode = pointer.stat().st_ino
    assert pointer.stat().st_ino == inode
    other = held(repo)
    second.__exit__(None, None, None)
    assert pointer.stat().st_ino == inode  # another process is in there
    assert other.communicate(b"", timeout=20) == (b"", None)
    assert not pointer.exists()
    assert told == []


def test_what_a_killed_harness_left_is_removed_by_the_next_run(repo: Path, told: list[str]) -> None:
    other = held(repo)
    other.send_signal(signal.SIGKILL)
    other.communicate(timeout=20)
    assert (repo / ".git/commondir").read_text() == ".\n"
    assert git(repo, "status", "--short") == ""
    with Guard(git_roots(repo, open_plain=True), told.append, closed=False):
        pass
    assert not (repo / ".git/commondir").exists()
    assert told == []


def test_a_pointer_that_goes_just_before_it_is_taken_hold_of_is_laid_again(
    repo: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of the others removes it: after we looked for it, and after we opened it."""
    pointer, link, lock = repo / ".git/commondir", os.link, fcntl.flock
    faults = [1, 1]

    def linked(source: Path, target: Path) -> None:
        link(source, target)
        if faults[0]:
            faults[0] = 0
            pointer.unlink()

    def locked(fd: int, how: int) -> None:
        if faults[1]:
            faults[1] = 0
            pointer.unlink()
        lock(fd, how)

    monkeypatch.setattr("os.link", linked)
    monkeypatch.setattr("fcntl.flock", locked)
    with Guard(git_roots(repo, open_plain=True), told.append, closed=False):
        assert pointer.read_text() == ".\n"
        assert [path.name for path in (repo / ".git").glob("commondir*")] == ["commondir"]
    assert faults == [0, 0]
    assert not pointer.exists()


def test_a_task_that_holds_the_pointer_stops_nobody(repo: Path, told: list[str]) -> None:
    pointer = repo / ".git/commondir"
    pointer.write_text(".\n")
    inode = pointer.stat().st_ino
    with pointer.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with Guard(git_roots(repo, open_plain=True), told.append, closed=False):
            assert pointer.stat().st_ino == inode
        assert pointer.stat().st_ino == inode
    with Guard(git_roots(repo, open_plain=True), told.append, closed=False):
        pass
    assert not pointer.exists()
    assert told == []


def test_a_pointer_that_never_stays_is_an_error(repo: Path, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.link", lambda _source, _target: None)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    with pytest.raises(BlockingIOError, match="it goes as often as it is made"):
        Guard(git_roots(repo, open_plain=True), told.append, closed=False).__enter__()
    assert list((repo / ".git").glob("commondir*")) == []


def leads_git(admin: Path, evil: Path) -> None:
    """What a task can do under `writable_roots`: have git of the host read a configuration of the task's."""
    evil.mkdir()
    for name in ("objects", "refs", "HEAD"):
        (evil / name).symlink_to(admin.parents[1] / name)
    (evil / "config").write_text(f'[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch {evil}/ran; false"\n')
    (admin / "commondir").write_text(str(evil))


@pytest.mark.parametrize("guarded", [False, True])
def test_a_worktree_leads_where_it_led_again(wt: Path, told: list[str], guarded: bool) -> None:
    admin = wt.parent / "repo/.git/worktrees/wt"
    roots = git_roots(wt) if guarded else GitRoots("none")
    with Guard(roots, told.append, closed=False):
        leads_git(admin, wt / "evil")
    git(wt, "status")
    assert (wt / "evil/ran").exists() is not guarded
    if guarded:
        assert told == [
            f"the task has changed {admin}/commondir, by which it could lead git on this host to run its commands;"
            " it has been put back"
        ]
        assert {path.name for path in admin.glob("commondir*")} == {"commondir"}


def as_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("elsewhere")


def as_same_link(path: Path) -> None:
    (path.parent / "copy").write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to("copy")


def as_nothing(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("harm", [as_link, as_same_link, as_nothing])
def test_whatever_has_become_of_a_pointer_it_is_a_file_again(
    wt: Path, told: list[str], harm: Callable[[Path], None]
) -> None:
    admin = wt.parent / "repo/.git/worktrees/wt"
    before = {name: (admin / name).read_bytes() for name in ("commondir", "gitdir")}
    with Guard(git_roots(wt), told.append, closed=False):
        for name in before:
            harm(admin / name)
    for name, content in before.items():
        assert not (admin / name).is_symlink()
        assert (admin / name).read_bytes() == content
    assert len(told) == 2
    assert git(wt, "status", "--short") == ""


@pytest.mark.parametrize("how", ["file", "large file", "link", "pipe"])
def test_a_configuration_that_the_task_made_for_its_worktree_goes(wt: Path, told: list[str], how: str) -> None:
    config = wt.parent / "repo/.git/worktrees/wt/config.worktree"
    with Guard(git_roots(wt), told.append, closed=False):
        match how:
            case "link":
                (wt / "evil").write_text("[core]\n")
                config.symlink_to(wt / "evil")
            case "pipe":
                os.mkfifo(config)
            case _:
                config.write_text("[core]\n" * (1 if how == "file" else 10_000))
    assert not os.path.lexists(config)
    assert len(told) == 1


def test_what_cannot_be_put_back_is_said_and_nothing_raises(wt: Path, told: list[str]) -> None:
    admin = wt.parent / "repo/.git/worktrees/wt"
    with Guard(git_roots(wt), told.append, closed=False):
        (admin / "commondir").unlink()
        (admin / "commondir").mkdir()
    assert len(told) == 1
    assert "could not be put back: Is a directory. Do that before you run git there" in told[0]
    assert {path.name for path in admin.glob("commondir*")} == {"commondir"}  # no draft stays


def test_a_pointer_that_the_task_changed_in_a_plain_repository_goes(repo: Path, told: list[str]) -> None:
    pointer = repo / ".git/commondir"
    with Guard(git_roots(repo, open_plain=True), told.append, closed=False):
        pointer.unlink()
        pointer.write_text("../evil")
    assert len(told) == 1
    with Guard(git_roots(repo, open_plain=True), told.append, closed=False):
        pass
    assert not pointer.exists()


def nested(repo: Path, name: str) -> None:
    repository(repo / name)
    git(repo, "add", name)


def test_nested_repositories_that_the_task_registered_are_named(repo: Path, wt: Path, told: list[str]) -> None:
    nested(repo, "before")
    with Guard(git_roots(repo, open_plain=True), told.append, closed=False):
        nested(repo, "sub")
        nested(repo, "a\nb")
    assert told == [
        "the task has registered nested repositories in the index (a\nb, sub): look at their configuration before"
        " you run git there, which would do what it says"
    ]
    with Guard(git_roots(wt), told.append, closed=False):
        nested(wt, "other")
    assert "(other)" in told[1]


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("hashes", ["sha1", "sha256"])
def test_every_version_of_the_index_is_read(tmp_path: Path, version: int, hashes: str) -> None:
    repo = repository(tmp_path / "repo", f"--object-format={hashes}")
    for name in ("a", "dir/file", "dir/file-with-a-longer-name" + "x" * 200, "z"):
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text(name)
    git(repo, "add", ".")
    fake = "1" * (40 if hashes == "sha1" else 64)
    for name in ("dir/links/one", "dir/links/two", "ünï"):
        git(repo, "update-index", "--add", "--cacheinfo", f"160000,{fake},{name}")
    later = ["b" * length for length in range(1, 9)]  # of each remainder by 8
    for name in later:
        (repo / name).touch()
    if version == 3:
        git(repo, "add", "--intent-to-add", *later)  # extended flags
    git(repo, "update-index", "--index-version", str(max(version, 2)))
    index = (repo / ".git/index").read_bytes()
    assert index[7] == version
    assert gitlinks(index) == {"dir/links/one", "dir/links/two", "ünï"}
    for end in range(0, len(index), 7):  # cut anywhere, it is never an error
        gitlinks(index[:end])


def test_what_is_no_index_is_told_from_one_without_nested_repositories() -> None:
    for rubbish in (None, b"", b"DIRC\0\0\0\2\0\0\0\1" + b"\0\0\xe0\0" * 20, b"x" * 99):
        assert gitlinks(rubbish) is None
    for without in (b"DIRC", b"DIRC" + b"\xff" * 40):
        assert gitlinks(without) == frozenset()


def test_an_index_that_can_no_longer_be_looked_at_is_told(repo: Path, told: list[str]) -> None:
    with Guard(git_roots(repo, open_plain=True), told.append, closed=True):
        (repo / ".git/index").rename(repo / ".git/elsewhere")
        (repo / ".git/index").symlink_to("elsewhere")
    (text,) = told
    assert "cannot be looked at any more" in text


def test_a_nested_repository_in_a_split_index_is_told(repo: Path, told: list[str]) -> None:
    with Guard(git_roots(repo, open_plain=True), told.append, closed=True):
        repository(repo / "sub")
        git(repo, "add", "sub")
        git(repo, "update-index", "--split-index")
    (text,) = told
    assert "nested repositories" in text
    assert "sub" in text


def test_where_the_sandbox_keeps_it_closed_a_change_is_the_persons_own_and_stays(repo: Path, told: list[str]) -> None:
    git(repo, "config", "extensions.worktreeConfig", "true")
    with Guard(git_roots(repo, open_plain=True), told.append, closed=True):
        git(repo, "sparse-checkout", "set", "src")
        set_by_git = (repo / ".git/config.worktree").read_bytes()
    assert b"sparseCheckout" in set_by_git
    assert (repo / ".git/config.worktree").read_bytes() == set_by_git
    assert told == []


def test_the_end_of_one_run_accuses_no_other_one(repo: Path, told: list[str]) -> None:
    git(repo, "config", "extensions.worktreeConfig", "true")
    first = Guard(git_roots(repo, open_plain=True), told.append, closed=False)
    second = Guard(git_roots(repo, open_plain=True), told.append, closed=False)
    with second, first:
        pass
    assert told == []


def test_a_repository_that_cannot_be_prepared_stays_closed_and_says_so(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refused)  # a file system without hard links
    roots = git_roots(repo, open_plain=True)
    opened = Opened(str(repo), {}, {"/t": "write", **roots.filesystem}, roots)
    with pytest.raises(PermissionError):
        Guard(roots, print, closed=True).__enter__()
    closed = opened.without_git("a commit will be refused")
    assert (closed.filesystem, closed.roots, closed.git.reason) == (
        {"/t": "write"}, (str(repo), "/t"), "a commit will be refused",
    )  # fmt: skip


def test_a_file_that_git_would_read_some_day_is_taken_away(repo: Path, told: list[str]) -> None:
    with Guard(git_roots(repo, open_plain=True), told.append, closed=True):
        (repo / ".git/config.worktree").write_text("[core]\n\tfsmonitor = evil\n")
    assert not (repo / ".git/config.worktree").exists()
    assert len(told) == 1


def test_what_the_person_has_turned_on_meanwhile_stays_and_is_told(repo: Path, told: list[str]) -> None:
    with Guard(git_roots(repo, open_plain=True), told.append, closed=True):
        git(repo, "sparse-checkout", "set", "src")
    assert (repo / ".git/config.worktree").exists()
    (text,) = told
    assert "look at it before you run git" in text


def test_hooks_stay_for_the_run_that_still_needs_them(repo: Path, told: list[str]) -> None:
    for hook in (repo / ".git/hooks").iterdir():
        hook.unlink()
    (repo / ".git/hooks").rmdir()
    first = Guard(git_roots(repo, open_plain=True), told.append, closed=True)
    second = Guard(git_roots(repo, open_plain=True), told.append, closed=True)
    with second:
        with first:
            pass
        assert (repo / ".git/hooks").is_dir()
    assert not (repo / ".git/hooks").exists()
