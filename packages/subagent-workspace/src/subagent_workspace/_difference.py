"""What changed in a repository since a look at it.

What was changed before the run is read before and after; what the run changed is read only where git's answer leaves it
open: where the index is another than HEAD and the file another than the index.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from ._compare import Change, Counts, differences, own_count, told
from ._fingerprint import State
from ._git import Clock, GitError, Repository, open_repository
from ._look import Look, ask_either, ask_status, in_thread, is_there, nested_in, read, read_in_thread
from ._status import EMPTY_TREE, Delta, Entry, Status, read_commits, read_deltas, read_numstat
from .changes import Commit, FileChange

__all__ = ["LISTED", "Found", "find_changes"]

LISTED: Final = 200
_COMMITS: Final = 20
_SLACK: Final = 2.0  # s by which a file system's clock may lag
_SUBJECT: Final = 500  # characters
_REACHED: Final = 10_000  # commits that are looked at
_KINDS: Final = {0o100644: "file", 0o100755: "program", 0o120000: "link"}
_DELTAS: Final = ("diff-tree", "-r", "-z", "--raw", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")
_NUMSTAT: Final = ("--numstat", "-z", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all")
_COMMITTED: Final = (
    "rev-list", "--left-right", "--encoding=UTF-8", f"--max-count={_REACHED}", "--format=tformat:%ct %s",
)  # fmt: skip


@dataclass(slots=True)
class Found:
    """What changed in one repository; paths from its top."""

    files: list[FileChange] = field(default_factory=list[FileChange])
    more: int = 0
    commits: list[Commit] = field(default_factory=list[Commit])
    more_commits: int = 0
    head_moved: bool = False
    notes: list[str] = field(default_factory=list[str])


async def find_changes(before: Look, clock: Clock) -> Found:
    """What changed since ``before``, the repositories within included; what could not be told is in the notes."""
    found = Found(notes=list(before.notes))
    try:
        await _find(before, found, clock)
    except GitError as error:
        found.notes.append(str(error))
    found.files.sort(key=lambda change: change.path)
    found.more += len(found.files[LISTED:])
    del found.files[LISTED:]
    return found


async def _find(before: Look, found: Found, clock: Clock) -> None:
    try:
        repository = await open_repository(before.top, clock)
        if repository is None or repository.top != before.top:
            raise GitError(f"the repository of {before.top} is gone")
        status = await ask_status(repository, clock, "--find-renames=50%")
    except GitError as error:
        found.notes.append(f"{error}; of {before.top} only what was changed before the run was looked at")
        states = await read_in_thread(before.top, before.status.entries, clock, found.notes, None)
        pairs = (Change(path, before.states.get(path), states.get(path)) for path in before.status.entries)
        _tell(found, differences(pairs, {}), {})
        return
    comparison = _Comparison(repository, before, status, found, clock)
    deltas = await comparison.history()
    changes = await comparison.changes(deltas)
    counted = await comparison.counted(changes[:LISTED])
    await in_thread(partial(_tell, found, changes, counted), clock)
    await comparison.nested()


def _tell(found: Found, changes: list[Change], counted: Mapping[str, Counts | None]) -> None:
    listed = [change for change in changes[:LISTED] if counted.get(change.path, True)]
    found.files += [told(change, counted) for change in listed]
    found.more += len(changes[LISTED:])


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A look before, a status after; the steps between them, in this order."""

    repository: Repository
    before: Look
    status: Status
    found: Found
    clock: Clock

    @property
    def _base(self) -> str:
        return self.before.status.head or EMPTY_TREE[self.repository.algorithm]

    async def history(self) -> dict[str, Delta]:
        """What differs between the two HEADs; the commits go into ``found``."""
        old, new, found = self.before.status.head, self.status.head, self.found
        if old == new:
            return {}
        try:
            if new is None:
                found.head_moved = True
            else:
                reach = f"{old}...{new}" if old else new
                reached, left = read(read_commits, await self._ask(*_COMMITTED, reach, "--"))
                commits = [Commit(oid, text[:_SUBJECT]) for oid, when, text in reached if when >= self.before.began]
                found.commits, found.more_commits = commits[:_COMMITS], len(commits[_COMMITS:])
                found.head_moved = left or len(commits) < len(reached) or len(reached) >= _REACHED
            tip = new or EMPTY_TREE[self.repository.algorithm]
            rest = (self._base, tip, "--")
            answer = await ask_either(self.repository, self.clock, _DELTAS, "-M", "--no-renames", rest=rest)
            return read(read_deltas, answer)
        except GitError as error:
            found.head_moved = True
            found.notes.append(f"what was committed cannot be told: {error}")
            return {}

    async def changes(self, deltas: Mapping[str, Delta]) -> list[Change]:
        """Every file that counts."""
        entries, dirty = self.status.entries, self.before.status.entries
        if any(posixpath.basename(path) == ".gitignore" for path in entries.keys() | deltas.keys()):
            entries = await self._without_older(entries)
        pairs: dict[str, Change] = {}
        wanted = set(dirty)
        for path in dirty.keys() | entries.keys() | deltas.keys():
            entry, delta = entries.get(path), deltas.get(path)
            pair = Change(path, self.before.states.get(path), None)
            if path not in dirty:
                pair = Change(path, _beforehand(entry, delta), _afterwards(entry, delta))
                if pair.before and pair.after and entry and (delta or entry.staged):
                    wanted.add(path)
            pairs[path] = replace(pair, committed=bool(self.found.commits and delta))
        fresh = sorted(path for path, pair in pairs.items() if path in entries and pair.after and not pair.before)
        if not any(pair.before and not pair.after for pair in pairs.values()):
            fresh = fresh[:LISTED]  # none of them can be a rename, and more are not listed
        states = await self._states(wanted.union(fresh))
        for path in wanted:
            pairs[path] = replace(pairs[path], after=states.get(path))
        for path in fresh:
            pairs[path] = replace(pairs[path], after=states.get(path, pairs[path].after))
        renames = {path: delta.renamed_from for path, delta in deltas.items() if delta.renamed_from}
        renames |= {path: entry.old for path, entry in entries.items() if entry.old}
        return differences(pairs.values(), renames)

    async def _without_older(self, entries: dict[str, Entry]) -> dict[str, Entry]:
        """Where the rules of what is ignored changed: without the new files that were there before the run.

        Only the time of their last change tells; a folder that the run moved here keeps the times of what is in it.
        """
        new = [path for path, entry in entries.items() if not entry.tracked and path not in self.before.status.entries]
        older = await in_thread(partial(_older, self.repository.top, new, self.before.began - _SLACK), self.clock)
        if older:
            self.found.notes.append(
                f"{len(older)} files that were there before, and are ignored no longer, are not told"
            )
        return {path: entry for path, entry in entries.items() if path not in older}

    async def counted(self, changes: list[Change]) -> dict[str, Counts | None]:
        """Lines added and removed of files that were clean: git knows what was in them.

        None for a file that is the same to git: other line ends, where the person's settings say that these are none.
        ``git status`` shows it as changed when its size is another.
        """
        ways: dict[tuple[str, ...], list[Change]] = {}
        for change in changes:
            entry, dirty = self.status.entries.get(change.path), self.before.status.entries
            known = change.path not in dirty and change.old not in dirty
            if known and own_count(change) is None and (entry is None or entry.tracked or change.after is None):
                ways.setdefault(self._way(change), []).append(change)
        counted: dict[str, Counts | None] = {}
        for way, group in ways.items():
            paths = [path for change in group for path in (change.old, change.path) if path is not None]
            try:
                found = read(read_numstat, await self._ask(*way, "--", *(() if way[-1] == self._base else paths)))
            except GitError as error:
                self.found.notes.append(f"lines were not counted: {error}")
                continue
            for change in group:
                unknown = None if change.status == "modified" and not change.committed else (None, None)
                counted[change.path] = found.get(change.path, unknown)
        return counted

    def _way(self, change: Change) -> tuple[str, ...]:
        """How git is asked for the lines of a file.

        A commit against the working tree takes git 2.39 17 s for one path of 100,000 files, and 0.1 s for all of them:
        that is asked for without paths, and only where neither commit against commit nor index against file tells.
        """
        entry, renames = self.status.entries.get(change.path), "-M" if change.old else "--no-renames"
        if entry is None and self.status.head:
            return ("diff-tree", "-r", *_NUMSTAT, renames, self._base, self.status.head)
        if entry and entry.unstaged and not entry.staged and self.status.head == self.before.status.head:
            return ("diff", *_NUMSTAT, renames)
        return ("diff", *_NUMSTAT, renames, self._base)

    async def nested(self) -> None:
        """The repositories within."""
        known, found = self.before.nested, self.found
        now = await nested_in(self.repository, self.status, self.clock, found.notes, known)
        found.files += [FileChange(f"{path}/", "added") for path in now if path not in known]
        for path, inner in known.items():
            if path not in now and is_there(self.repository.top, path):
                found.notes.append(f"{path}/ is no repository any more")
            elif path not in now:
                found.files.append(FileChange(f"{path}/", "deleted"))
            elif inner:
                within = Found()
                await _find(inner, within, self.clock)
                found.files += [_moved(change, path) for change in within.files]
                found.more += within.more
                found.notes += [f"{path}/: {note}" for note in within.notes]
                found.notes += [f"{path}/: HEAD moved"] if within.head_moved else []

    async def _ask(self, *arguments: str) -> bytes:
        return await self.repository.ask(self.clock, *arguments)

    async def _states(self, paths: set[str]) -> dict[str, State]:
        repository, notes = self.repository, self.found.notes
        return await read_in_thread(repository.top, paths, self.clock, notes, repository.algorithm)


def _older(top: str, paths: list[str], than: float) -> set[str]:
    """Those of which nothing changed since that time."""
    found: set[str] = set()
    for path in paths:
        with suppress(OSError):
            if os.lstat(os.path.join(top, path)).st_ctime < than:
                found.add(path)
    return found


def _in_tree(blob: str | None, mode: int) -> State | None:
    return State(_KINDS.get(mode, "file"), blob=blob) if blob else None


def _beforehand(entry: Entry | None, delta: Delta | None) -> State | None:
    """A file that was clean before: what HEAD had."""
    if delta:
        return _in_tree(delta.old, delta.old_mode)
    return _in_tree(entry.head, entry.head_mode) if entry else None


def _afterwards(entry: Entry | None, delta: Delta | None) -> State | None:
    """A file that was clean before, as git tells it: with an id only where it is clean again."""
    if entry is None:
        return _in_tree(delta.new, delta.new_mode) if delta else None
    return State(_KINDS.get(entry.mode or 0, "file")) if entry.mode != 0 else None


def _moved(change: FileChange, path: str) -> FileChange:
    old = change.old_path and f"{path}/{change.old_path}"
    return replace(change, path=f"{path}/{change.path}", old_path=old)
