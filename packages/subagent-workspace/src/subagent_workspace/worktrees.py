"""A git worktree for a run: made at HEAD, and what became of it.

It is detached while the run works in it. Codex's sandbox can then open what a commit needs and nothing else (the
worktree's own folder in ``.git`` and ``objects``), and no branch of the person's can move. The branch is made
afterwards, by us.

The rule: a worktree that holds a commit or a change is kept, and stands on a branch of its own; one that holds neither
is removed. What git ignores is no change. Where it cannot be told, it is kept.

Nothing that the repository's configuration names is run, so that files which a filter makes (git-lfs) are left as git
stores them, and submodules are not checked out.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio

from subagent_process import state_root

from ._git import Clock, GitError, Repository, open_repository
from ._look import ask_status, is_there
from .changes import WorktreeReport
from .errors import WorktreeDirty, WorktreeFailed

__all__ = ["Worktree", "add_worktree", "finish_worktree", "list_worktrees", "remove_worktree"]

BRANCHES: Final = "subagents/"
_DIFF: Final = 1024 * 1024  # bytes of a diff that are kept
_READ: Final = 64 * 1024 * 1024  # bytes of a diff that are read
_UNDO: Final = 10.0  # s to take back one that was not made whole


@dataclass(frozen=True, slots=True)
class Worktree:
    """A worktree at the beginning of a run.

    Attributes:
        path: its top folder.
        folder: where the run works: the folder in it that is for it what the given one is for the repository.
        name: its branch will be `subagents/NAME`.
        base: the commit at which it begins.
        repository: the top folder of the repository.
        notes: what is not in it.
    """

    path: str
    folder: str
    name: str
    base: str
    repository: str
    notes: tuple[str, ...] = ()


async def add_worktree(
    folder: str | os.PathLike[str], *, name: str, parent: Path | None = None, timeout: float = 60.0
) -> Worktree:
    """Make a worktree, detached at HEAD.

    Args:
        folder: in a repository; it may be a folder below its top, and must be there at HEAD too.
        name: of its branch to be, a plain word.
        parent: where it is to lie; None: a folder of this library among the person's files.
        timeout: seconds for all of it.

    Raises:
        WorktreeFailed: there is no repository or no commit, or git could not do it. Nothing of it is left, also when
            this is cancelled.
    """
    clock, where = Clock(timeout), _real(folder)
    try:
        repository = await open_repository(where, clock)
        if repository is None:
            raise WorktreeFailed(f"{where} is in no git repository, and a worktree needs one")
        status = await ask_status(repository, clock, "--no-renames")
        if status.head is None:
            raise WorktreeFailed(f"{repository.top} has no commit yet, and a worktree begins at one")
        path = _place(parent or state_root() / "worktrees", f"{os.path.basename(repository.top) or 'root'}-{name}")
        worktree = _described(path, where, name, status.head, repository.top, len(status.entries))
        await _make(repository, worktree, clock)
    except (GitError, OSError) as error:
        raise WorktreeFailed(f"no worktree could be made of {where}: {error}") from error
    if not is_there(worktree.path, worktree.folder):
        await _undo(repository, worktree.path)
        raise WorktreeFailed(f"{where} is not in the commit {status.head[:12]}, at which a worktree begins")
    return worktree


def _real(folder: str | os.PathLike[str]) -> str:
    return os.path.realpath(folder)


def _is_linked(top: str) -> bool:
    """Whether it is a worktree beside the first one: its `.git` is a file."""
    return os.path.isfile(os.path.join(top, ".git"))


def _place(parent: Path, name: str) -> str:
    """Where a new one is to lie."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = os.path.join(os.path.realpath(parent), name)
    if os.path.lexists(path):
        raise WorktreeFailed(f"{path} is there already")
    return path


def _described(path: str, where: str, name: str, base: str, top: str, changed: int) -> Worktree:
    notes = [f"the worktree begins at {base[:12]}"]
    if changed:
        notes[0] += f": {changed} uncommitted change{'s' * (changed != 1)} of {top} {'are' if changed != 1 else 'is'}"
        notes[0] += " not in it"
    if os.path.lexists(os.path.join(top, ".gitmodules")):
        notes.append("submodules are not checked out in the worktree")
    folder = os.path.normpath(os.path.join(path, os.path.relpath(where, top)))
    return Worktree(path, folder, name, base, top, tuple(notes))


async def _make(repository: Repository, worktree: Worktree, clock: Clock) -> None:
    done = False
    try:
        await repository.ask(clock, "worktree", "add", "--quiet", "--detach", worktree.path, worktree.base)
        done = True
    finally:
        if not done:
            await _undo(repository, worktree.path)


async def _undo(repository: Repository, path: str) -> None:
    with anyio.CancelScope(shield=True), suppress(GitError):
        await _remove(repository, path, Clock(_UNDO))


async def _remove(repository: Repository, path: str, clock: Clock) -> None:
    # Twice: a worktree may be locked, as one that is being made is.
    try:
        await repository.ask(clock, "worktree", "remove", "--force", "--force", path)
    except GitError:
        if not is_there(path, ""):
            raise
        await anyio.to_thread.run_sync(lambda: shutil.rmtree(path, ignore_errors=True), abandon_on_cancel=True)
        await repository.ask(clock, "worktree", "prune")


async def finish_worktree(worktree: Worktree, *, timeout: float = 60.0) -> WorktreeReport:
    """After the run: put it on its branch, or remove it where nothing is in it.

    Raises for nothing but cancellation; where git cannot be asked, the folder stays and the notes say why.
    """
    report = WorktreeReport(worktree.path, None, worktree.base)
    if not is_there(worktree.path, ""):
        return WorktreeReport(None, None, worktree.base, notes=(f"{worktree.path} was removed during the run",))
    clock, notes = Clock(timeout), list[str]()
    try:
        repository = await open_repository(worktree.path, clock)
        if repository is None or repository.top != worktree.path:
            raise GitError(f"{worktree.path} is no longer a worktree")
        status = await ask_status(repository, clock, "--no-renames")
        if status.head == worktree.base and not status.entries and not status.nested:
            await _remove(await _source(worktree, repository, clock), worktree.path, clock)
            return WorktreeReport(None, None, worktree.base, status.head)
        branch = await _branch(repository, worktree, status.head, notes, clock)
        diff, cut = await _diff(repository, worktree, notes, clock)
        return WorktreeReport(worktree.path, branch, worktree.base, status.head, diff, cut, tuple(notes))
    except (GitError, OSError) as error:
        return WorktreeReport(report.path, None, worktree.base, notes=(*notes, str(error)))


async def _source(worktree: Worktree, inner: Repository, clock: Clock) -> Repository:
    """The repository of a worktree: a folder is not removed from within."""
    found = await open_repository(worktree.repository, clock)
    return inner if found is None else found


async def _branch(
    repository: Repository, worktree: Worktree, head: str | None, notes: list[str], clock: Clock
) -> str | None:
    """The branch on which it stands: that of the run, else a new one at its commit."""
    symbolic = await _text(repository, clock, "rev-parse", "--symbolic-full-name", "HEAD")
    if symbolic.startswith("refs/heads/"):  # the run made one, or took one
        return symbolic.removeprefix("refs/heads/")
    if head is None:
        return None
    branch = f"{BRANCHES}{worktree.name}"
    try:
        await repository.ask(clock, "update-ref", f"refs/heads/{branch}", head, "")
        await repository.ask(clock, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
    except GitError as error:
        notes.append(f"the branch {branch} could not be made: {error}")
        return None
    return branch


async def _diff(repository: Repository, worktree: Worktree, notes: list[str], clock: Clock) -> tuple[str, bool]:
    """From the base to what stands there, through an index and a store of objects of our own: nothing is written."""
    try:
        index = await _text(repository, clock, "rev-parse", "--path-format=absolute", "--git-path", "index")
        objects = await _text(repository, clock, "rev-parse", "--path-format=absolute", "--git-path", "objects")
        with tempfile.TemporaryDirectory(prefix="subagents-") as own:
            apart = repository.with_env(_apart(own, index, objects))
            await apart.ask(clock, "add", "--all", "--ignore-errors")
            wanted = (
                "diff",
                "--cached",
                "--no-color",
                "--no-ext-diff",
                "--no-textconv",
                "--find-renames",
                worktree.base,
            )
            found = await apart.ask(clock, *wanted, limit=_READ)
    except (GitError, OSError) as error:
        notes.append(f"no diff could be made: {error}")
        return "", False
    return found[:_DIFF].decode("utf-8", "replace"), len(found) > _DIFF


def _apart(own: str, index: str, objects: str) -> Mapping[str, str]:
    """The variables with which git writes to a folder of our own."""
    if os.path.exists(index):
        shutil.copy2(index, os.path.join(own, "index"))  # with its time: git tells by it which entries to doubt
    os.mkdir(os.path.join(own, "objects"))
    return {
        "GIT_INDEX_FILE": os.path.join(own, "index"),
        "GIT_OBJECT_DIRECTORY": os.path.join(own, "objects"),
        # In quotes, as git reads a list: a folder may have a colon in its name.
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": '"' + objects.replace("\\", "\\\\").replace('"', '\\"') + '"',
    }


async def _text(repository: Repository, clock: Clock, *arguments: str) -> str:
    return os.fsdecode(await repository.ask(clock, *arguments)).removesuffix("\n")


async def list_worktrees(folder: str | os.PathLike[str], *, timeout: float = 10.0) -> tuple[str, ...]:
    """The worktrees of a repository that stand on a branch of ours, by path.

    Raises:
        WorktreeFailed: git could not tell.
    """
    clock = Clock(timeout)
    try:
        repository = await open_repository(_real(folder), clock)
        if repository is None:
            return ()
        answer = os.fsdecode(await repository.ask(clock, "worktree", "list", "--porcelain", "-z"))
    except GitError as error:
        raise WorktreeFailed(f"the worktrees of {folder} could not be told: {error}") from error
    found: list[str] = []
    for record in answer.split("\0\0"):
        lines = {word: rest for word, _, rest in (line.partition(" ") for line in record.split("\0"))}
        if lines.get("branch", "").startswith(f"refs/heads/{BRANCHES}"):
            found.append(lines["worktree"])
    return tuple(sorted(found))


async def remove_worktree(path: str | os.PathLike[str], *, force: bool = False, timeout: float = 60.0) -> None:
    """Remove a worktree; its branch, and with it what was committed, stays.

    Args:
        path: its top folder.
        force: also when there are changes in it that are not committed: they are lost.
        timeout: seconds for all of it.

    Raises:
        WorktreeDirty: there are such changes; nothing was removed.
        WorktreeFailed: it is no worktree, or git could not remove it.
    """
    clock, where = Clock(timeout), _real(path)
    try:
        repository = await open_repository(where, clock)
        if repository is None or repository.top != where or not _is_linked(where):
            raise WorktreeFailed(f"{where} is no worktree")
        status = await ask_status(repository, clock, "--no-renames")
        if not force and (changed := len(status.entries) + len(status.nested)):
            raise WorktreeDirty(where, changed)
        common = await _text(repository, clock, "rev-parse", "--path-format=absolute", "--git-common-dir")
        await repository.ask(clock, f"--git-dir={common}", "worktree", "remove", "--force", "--force", where)
    except GitError as error:
        raise WorktreeFailed(f"{where} could not be removed: {error}") from error
