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

import hashlib
import os
import re
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from subagent_process import state_root

from ._git import Clock, GitError, Repository, open_repository
from ._look import ask_status, is_there
from .errors import WorktreeDirty, WorktreeFailed

__all__ = ["Worktree", "add_worktree", "list_worktrees", "remove_worktree"]

BRANCHES: Final = "subagents/"
_AT_WORK: Final = "subagents: a run works here"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_POINTER: Final = 65_536  # bytes of a `.git` file
_ABOUT_IGNORING: Final = re.compile(rb"(?i)excludes|sparse|include|path\s*=|ignorestat|worktreeconfig")
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
        git_dir: the folder that git keeps for it.
        common_dir: the one that it shares with the repository.
        pointer: the text of its `.git`.
        rules: what stands for the rules of what is ignored.
    """

    path: str
    folder: str
    name: str
    base: str
    repository: str
    notes: tuple[str, ...] = ()
    git_dir: str = ""
    common_dir: str = ""
    pointer: str = ""
    rules: str = ""


async def add_worktree(
    folder: str | os.PathLike[str], *, name: str, parent: Path | None = None, timeout: float = 60.0
) -> Worktree:
    """Make a worktree, detached at HEAD.

    Args:
        folder: in a repository; it may be a folder below its top, and must be there at HEAD too.
        name: of its branch to be: letters, digits, `_` and `-`, at most 64.
        parent: where it is to lie; None: a folder of this library among the person's files.
        timeout: seconds for all of it.

    Raises:
        WorktreeFailed: there is no repository or no commit, or git could not do it. Nothing of it is left, also when
            this is cancelled.
        ValueError: the name is none.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is no name of a worktree: letters, digits, _ and -, at most 64")
    clock, where = Clock(timeout), _real(folder)
    try:
        repository = await open_repository(where, clock)
        if repository is None:
            raise WorktreeFailed(f"{where} is in no git repository, and a worktree needs one")
        status = await ask_status(repository, clock)
        if status.head is None:
            raise WorktreeFailed(f"{repository.top} has no commit yet, and a worktree begins at one")
        path = _place(parent or state_root() / "worktrees", f"{os.path.basename(repository.top) or 'root'}-{name}")
        worktree = _described(path, where, name, status.head, repository.top, len(status.entries))
        return await _make(repository, worktree, clock)
    except (GitError, OSError) as error:
        raise WorktreeFailed(f"no worktree could be made of {where}: {error}") from error


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


async def _make(repository: Repository, worktree: Worktree, clock: Clock) -> Worktree:
    done = False
    try:
        await repository.ask(
            clock, "worktree", "add", "--quiet", "--detach", "--no-checkout", worktree.path, worktree.base
        )
        inner = await open_repository(worktree.path, clock)  # its configuration may be another one
        if inner is None:
            raise GitError(f"{worktree.path} is no worktree")
        await inner.ask(clock, "reset", "--quiet", "--hard", "--no-recurse-submodules", worktree.base)
        if not is_there(worktree.path, worktree.folder):
            below = worktree.folder.removeprefix(worktree.path)
            raise WorktreeFailed(f"{below} is not in the commit {worktree.base[:12]}, at which a worktree begins")
        await inner.ask(clock, "worktree", "lock", "--reason", _AT_WORK, worktree.path)
        own, common = await folders_of(inner, clock)
        pointer, rules = pointer_of(worktree.path), rules_of(own, common)
        done = True
        return replace(worktree, git_dir=own, common_dir=common, pointer=pointer, rules=rules)
    finally:
        if not done:
            await _undo(repository, worktree.path)


async def folders_of(repository: Repository, clock: Clock) -> tuple[str, str]:
    """The folder that git keeps for a worktree, and the one that all of them share."""
    asked = ("--path-format=absolute", "--git-dir", "--git-common-dir")
    own, _, common = os.fsdecode(await repository.ask(clock, "rev-parse", *asked)).removesuffix("\n").partition("\n")
    return own, common


def pointer_of(path: str) -> str:
    """The text of the `.git` of a worktree; empty where it is no file of that kind."""
    with suppress(OSError):
        number = os.open(os.path.join(path, ".git"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(number, "rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return os.fsdecode(file.read(_POINTER))
    return ""


def rules_of(own: str, common: str) -> str:
    """What stands for the files outside of the worktree by which git is told what to ignore and to overlook."""
    found = hashlib.sha256()
    for folder, name in ((common, "config"), (common, "info/exclude"), (own, "config.worktree"), (own, "info/exclude")):
        path = Path(folder, name)
        data = path.read_bytes() if path.is_file() else b"\0none"
        lines = data.splitlines() if name.startswith("config") else [data]
        found.update(b"\n".join(line for line in lines if name != "config" or _ABOUT_IGNORING.search(line)))
    return found.hexdigest()


async def _undo(repository: Repository, path: str) -> None:
    with anyio.CancelScope(shield=True), suppress(GitError):
        await remove(repository, path, Clock(_UNDO))


async def remove(repository: Repository, path: str, clock: Clock) -> None:
    """Remove a worktree whatever is in it."""
    # Twice: a worktree may be locked, as one that is being made is.
    try:
        await repository.ask(clock, "worktree", "remove", "--force", "--force", path)
    except GitError:
        _, common = await folders_of(repository, clock)
        await anyio.to_thread.run_sync(_clear, path, common, abandon_on_cancel=True)
        await repository.ask(clock, "worktree", "prune", "--expire=now")


def _clear(path: str, common: str) -> None:
    """Remove a folder that git does not take for a worktree, and the lock of one that was being made."""
    shutil.rmtree(path, ignore_errors=True)
    for lock in Path(common, "worktrees").glob("*/locked"):
        pointer = lock.parent / "gitdir"
        mine = lock.parent.name.startswith(os.path.basename(path))
        if (pointer.read_text() if pointer.is_file() else "").strip() in ("", os.path.join(path, ".git")) and mine:
            lock.unlink(missing_ok=True)


async def list_worktrees(folder: str | os.PathLike[str], *, timeout: float = 10.0) -> tuple[str, ...]:
    """The worktrees of a repository that are ours, by path.

    Those that stand on a branch of ours, and those in the folder of this library: a harness that was killed leaves one
    without a branch.

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
    ours = Path(_real(state_root() / "worktrees"))
    for record in answer.split("\0\0"):
        lines = {word: rest for word, _, rest in (line.partition(" ") for line in record.split("\0"))}
        path = lines.get("worktree", "")
        if lines.get("branch", "").startswith(f"refs/heads/{BRANCHES}") or Path(path).parent == ours:
            found.append(path)
    return tuple(sorted(found))


async def remove_worktree(path: str | os.PathLike[str], *, force: bool = False, timeout: float = 60.0) -> None:
    """Remove a worktree; what was committed stays, on its branch, or else on one that is made now.

    Args:
        path: its top folder.
        force: also when there are changes in it that are not committed: they are lost; and when it is locked, because a
            run works there or its program was killed.
        timeout: seconds for all of it.

    Raises:
        WorktreeDirty: there are such changes; nothing was removed.
        WorktreeFailed: it is no worktree, is locked, or git could not remove it.
    """
    clock, where = Clock(timeout), _real(path)
    try:
        repository = await open_repository(where, clock)
        if repository is None or repository.top != where or not _is_linked(where):
            raise WorktreeFailed(f"{where} is no worktree")
        status = await ask_status(repository, clock)
        if not force and (changed := len(status.entries) + len(status.nested)):
            raise WorktreeDirty(where, changed)
        own, common = await folders_of(repository, clock)
        if not force and is_there(own, "locked"):
            raise WorktreeFailed(f"{where} is locked: a run works there, or was killed there. force=True removes it")
        lost = await repository.ask(clock, "rev-list", "-1", "HEAD", "--not", "--branches", "--tags", "--remotes")
        if lost:
            branch = f"refs/heads/{BRANCHES}{os.path.basename(own)}"
            await repository.ask(clock, "update-ref", branch, os.fsdecode(lost).strip(), "")
        await repository.ask(clock, f"--git-dir={common}", "worktree", "remove", "--force", "--force", where)
    except GitError as error:
        raise WorktreeFailed(f"{where} could not be removed: {error}") from error
