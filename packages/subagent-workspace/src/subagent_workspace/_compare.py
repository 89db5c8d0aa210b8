"""Two states of the same files become changes: what differs, what was only renamed, how many lines."""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ._fingerprint import State, same
from ._lines import count_edits
from .changes import FileChange, FileStatus

__all__ = ["Change", "Counts", "differences", "told"]

Counts = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class Change:
    """A path before and after; where it is a rename, ``before`` is the state of ``old``."""

    path: str
    before: State | None
    after: State | None
    committed: bool = False
    old: str | None = None

    @property
    def status(self) -> FileStatus:
        if self.old is not None:
            return "renamed"
        if self.before is None:
            return "added"
        return "deleted" if self.after is None else "modified"


def differences(pairs: Iterable[Change], renames: Mapping[str, str]) -> list[Change]:
    """Those that count, by path, with each rename as one.

    Args:
        pairs: every path that may have changed.
        renames: old names by new ones, as git tells them; chains are followed.
    """
    there = [pair for pair in pairs if pair.before or pair.after]
    found = {pair.path: pair for pair in there if pair.committed or not same(pair.before, pair.after)}
    gone = {path: change for path, change in found.items() if change.before and not change.after}
    come = [change for _, change in sorted(found.items()) if change.after and not change.before]
    twins = _Twins(gone)
    told_by_git = [(change, _origin(change.path, renames, gone)) for change in come]
    for change, old in told_by_git:
        if old in gone:
            _join(found, gone, change, old)
    for change, old in told_by_git:
        if old is None and (twin := twins.take(change)):
            _join(found, gone, change, twin)
    return [found[path] for path in sorted(found)]


class _Twins:
    """Files that are gone, by what they held: one of the same name first, then by path; each is taken once."""

    def __init__(self, gone: Mapping[str, Change]) -> None:
        self._gone = gone
        self._queues: dict[tuple[str, ...], deque[str]] = {}
        for path in sorted(gone):
            for key in _keys(gone[path].before):
                for place in ((*key, posixpath.basename(path)), key):
                    self._queues.setdefault(place, deque()).append(path)

    def take(self, change: Change) -> str | None:
        keys, name = _keys(change.after), posixpath.basename(change.path)
        for place in (*((*key, name) for key in keys), *keys):
            queue = self._queues.get(place)
            while queue:
                if (path := queue.popleft()) in self._gone:
                    return path
        return None


def _origin(path: str, renames: Mapping[str, str], gone: Mapping[str, Change]) -> str | None:
    seen: set[str] = set()
    old = renames.get(path)
    while old is not None and old not in gone and old not in seen:
        seen.add(old)
        old = renames.get(old)
    return old if old in gone else None


def _join(found: dict[str, Change], gone: dict[str, Change], change: Change, old: str) -> None:
    before = gone.pop(old)
    del found[old]
    committed = change.committed or before.committed
    found[change.path] = replace(change, before=before.before, old=old, committed=committed)


def _keys(state: State | None) -> list[tuple[str, str]]:
    """What its contents can be found by."""
    if state is None or state.size == 0 or state.kind == "other":
        return []  # every empty file is the same as every other: that says nothing about where it came from
    kind = "link" if state.kind == "link" else "file"
    return [(kind, text) for text in (state.digest, state.blob) if text]


def told(change: Change, counted: Mapping[str, Counts | None]) -> FileChange:
    """The change as the caller sees it.

    Args:
        change: one of ``differences``.
        counted: lines added and removed by path, where git was asked.
    """
    added, removed = own_count(change) or counted.get(change.path) or (None, None)
    return FileChange(change.path, change.status, added, removed, change.old, change.committed)


def own_count(change: Change) -> Counts | None:
    """Lines added and removed; None: that cannot be told from what is known here."""
    before, after = change.before, change.after
    if before and after:
        if same(replace(before, kind=after.kind), after):
            return 0, 0
        return count_edits(before.lines, after.lines) if before.lines is not None and after.lines is not None else None
    if after and after.lines is not None:
        return len(after.lines), 0
    if before and before.lines is not None:
        return 0, len(before.lines)
    return None
