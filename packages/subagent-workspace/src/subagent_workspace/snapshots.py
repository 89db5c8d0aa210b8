"""A look at a folder before a run, which tells afterwards what the run did to it."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import final

from ._compare import Change, differences, told
from ._difference import LISTED, Found, find_changes
from ._fingerprint import Budget, fingerprints
from ._git import Clock, GitError
from ._look import Look, in_thread, look_at
from ._walk import Walked, walk
from .changes import Changes, FileChange

__all__ = ["Snapshot", "snapshot"]

_NOTES = 20
_NOTE = 500  # characters
_WALK = 5.0  # s


@final
class Snapshot:
    """A folder as it was: what git showed as changed or new with its contents, or all of it without git.

    ``snapshot`` makes one.  It holds no descriptor, and serves any number of ``changes``.
    """

    def __init__(self, folder: str, timeout: float, seen: Look | Walked | None, notes: list[str]) -> None:
        self._folder = folder
        self._timeout = timeout
        self._seen = seen
        self._notes = notes

    @property
    def root(self) -> str:
        """The top of the repository; the folder itself where there is none."""
        return self._seen.top if isinstance(self._seen, Look) else self._folder

    async def changes(self) -> Changes:
        """What differs now.

        A file counts when its contents, its kind or its name is another than it was at the snapshot, and when a commit
        since then has it.  What was changed before and is still the same does not count; nor does staging alone.  Not
        seen: what git ignores; what its index says to overlook (assume-unchanged, skip-worktree), also where the run
        itself said so; where the run changed what is ignored, files that were there before.  Filters of the repository
        (git-lfs) are not run: a file whose time changed may count as changed.

        It ends within the ``timeout`` of the snapshot, and raises for nothing but cancellation: what could not be told
        stands in ``Changes.unseen``.
        """
        clock = Clock(self._timeout)
        if isinstance(self._seen, Look):
            found, root = await find_changes(self._seen, clock), self._seen.top
        elif self._seen:
            found, root = await _walk_again(self._folder, self._seen, clock), self._folder
        else:
            found, root = Found(), self._folder
        files = sorted(_from(root, self._folder, found.files), key=lambda change: change.path)
        return Changes(
            tuple(files),
            found.more,
            tuple(found.commits),
            found.more_commits,
            found.head_moved,
            root,
            _shown([*self._notes, *found.notes]),
        )


async def snapshot(folder: str | os.PathLike[str], *, content: bool = False, timeout: float = 10.0) -> Snapshot | None:
    """Look at a folder before a run.

    In a git repository git is asked, and nothing is written there, not even its index; nothing that the
    repository's configuration or attributes name is run.  Only files that git shows as changed or new are read.
    Repositories within (submodules too, at most 20) are looked at likewise.

    Args:
        folder: where the run will work.
        content: where there is no repository, or one that git cannot read, read the files themselves: at most 20,000,
            256 MiB, 5 s.
        timeout: seconds for this look, and for each of ``Snapshot.changes``.

    Returns:
        None where there is no repository and ``content`` is false.  A repository that could not be looked at gives a
        snapshot that says so in ``Changes.unseen``.
    """
    clock = Clock(timeout)
    where = os.path.realpath(folder)  # noqa: ASYNC240  # what hangs here would hang everything in this folder
    notes: list[str] = []
    try:
        if look := await look_at(where, clock):
            return Snapshot(where, timeout, look, notes)
    except GitError as error:
        notes.append(str(error))
    seen: Walked | None = None
    if content:
        budget = Budget(min(_WALK, clock.left))
        try:
            seen = await in_thread(partial(walk, where, budget), clock)
        except GitError as error:
            notes.append(str(error))
        notes += budget.notes()
    return Snapshot(where, timeout, seen, notes) if content or notes else None


async def _walk_again(folder: str, before: Walked, clock: Clock) -> Found:
    budget = Budget(min(_WALK, clock.left))

    def look() -> Walked:
        now = walk(folder, budget)
        # Where the budget ended is another place now: what was found before is looked at all the same.
        now.states |= fingerprints(folder, sorted(before.states.keys() - now.states.keys()), budget)
        return now

    found = Found()
    try:
        now = await in_thread(look, clock)
    except GitError as error:
        found.notes.append(str(error))
        return found
    known = before.states.keys() | {path for path in now.states if before.knows(path)}
    changes = differences((Change(path, before.states.get(path), now.states.get(path)) for path in known), {})
    found.files = [told(change, {}) for change in changes[:LISTED]]
    found.more = len(changes[LISTED:])
    unlisted = before.unlisted | now.unlisted
    found.notes += budget.notes() + [f"{path or '.'}: {reason}" for path, reason in sorted(unlisted.items())]
    return found


def _from(root: str, folder: str, files: list[FileChange]) -> list[FileChange]:
    """The same with paths from the folder of the task and not from the root."""
    if (prefix := os.path.relpath(folder, root)) == ".":
        return files
    return [
        replace(
            change,
            path=_relative(prefix, change.path),
            old_path=None if change.old_path is None else _relative(prefix, change.old_path),
        )
        for change in files
    ]


def _relative(prefix: str, path: str) -> str:
    here, there = prefix.split("/"), path.split("/")
    shared = 0
    while shared < min(len(here), len(there) - 1) and here[shared] == there[shared]:
        shared += 1
    return "/".join([".."] * (len(here) - shared) + there[shared:]) or "./"


def _shown(notes: list[str]) -> tuple[str, ...]:
    """For a person to read: each once, bounded, hidden characters as codes."""
    unique = list(dict.fromkeys("".join(_printable(letter) for letter in note[:_NOTE]) for note in notes))
    rest = len(unique) - _NOTES
    return tuple(unique if rest <= 0 else [*unique[:_NOTES], f"and {rest} more"])


def _printable(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape", "surrogatepass").decode("ascii")
