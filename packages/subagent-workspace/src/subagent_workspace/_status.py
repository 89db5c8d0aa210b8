"""What git writes, read: ``status --porcelain=v2``, ``diff-tree --raw``, ``diff --numstat``, each with ``-z``; commits.

With ``-z`` a name stands as its bytes, unquoted; bytes that are no UTF-8 become lone surrogates.  In a record of
``status`` a new name comes before the old one, in ``diff-tree`` and ``diff --numstat`` after it.  What a newer git adds
is passed over.  Nobody asks for copies, so no record is one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

__all__ = ["EMPTY_TREE", "Delta", "Entry", "Status", "read_commits", "read_deltas", "read_numstat", "read_status"]

EMPTY_TREE: Final = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_GITLINK: Final = 0o160000


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that git shows as changed or new.

    Attributes:
        head: its id in HEAD; None if it is not there.
        head_mode: its mode there; 0 if it is not there.
        staged: the index differs from HEAD.
        unstaged: the file differs from the index.
        tracked: it is in the index.
        mode: of the file; 0 if it is not there, None where git does not say.
        old: where the index has it from, for a rename.
    """

    head: str | None = None
    head_mode: int = 0
    staged: bool = False
    unstaged: bool = False
    tracked: bool = True
    mode: int | None = None
    old: str | None = None


@dataclass(slots=True)
class Status:
    """One answer.

    Attributes:
        head: the commit; None before the first.
        entries: the files, by path from the top.
        nested: folders that are repositories of their own; without ``/`` at the end.
    """

    head: str | None = None
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    nested: set[str] = field(default_factory=set[str])


def read_status(answer: bytes) -> Status:
    """Raises ValueError for a record that is none."""
    status, records = Status(), _records(answer)
    for record in records:
        kind, _, rest = record.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            if name == "branch.oid" and value != "(initial)":
                status.head = value
        elif kind == "?":
            if rest.endswith("/"):
                status.nested.add(rest[:-1])
            else:  # `git rm --cached` gives two records
                before = status.entries.get(rest, Entry())
                status.entries[rest] = replace(before, staged=True, unstaged=True, tracked=False, mode=None)
        elif kind == "1":
            xy, _, *modes, head, _, path = rest.split(" ", 7)
            _add(status, path, xy, modes, head)
        elif kind == "2":
            xy, _, *modes, head, _, _, path = rest.split(" ", 8)
            old = next(records)
            _add(status, old, "DD", [modes[0], "0", "0"], head)
            _add(status, path, xy, ["0", *modes[1:]], "0", old)
        elif kind == "u":  # a merge stopped there: what HEAD has is the second of three
            xy, _, _, ours, _, mode, _, head, _, path = rest.split(" ", 9)
            _add(status, path, "UU", [ours, ours, mode], head)
    return status


def _add(status: Status, path: str, xy: str, modes: list[str], head: str, old: str | None = None) -> None:
    head_mode, index_mode, mode = (int(text, 8) for text in modes)
    if _GITLINK in (index_mode, head_mode) and mode in (0, _GITLINK):
        status.nested.add(path)
        return
    status.entries[path] = Entry(
        head if head_mode else None, head_mode, xy[0] != ".", xy[1] != ".", xy[0] != "D", mode, old
    )


@dataclass(frozen=True, slots=True)
class Delta:
    """A file that differs between two commits.

    Attributes:
        old: its id before; None if it was not there.
        old_mode: its mode before.
        new: its id after; None if it is not there.
        new_mode: its mode after.
        renamed_from: where it was before, for a rename; that path has a Delta of its own.
    """

    old: str | None
    old_mode: int
    new: str | None
    new_mode: int
    renamed_from: str | None = None


def read_deltas(answer: bytes) -> dict[str, Delta]:
    """``diff-tree -r -z --raw -M``, without the submodules.  Raises ValueError for a record that is none."""
    deltas: dict[str, Delta] = {}
    records = _records(answer)
    for record in records:
        old_mode, new_mode, old, new, letter = record.removeprefix(":").split(" ")
        modes, path = (int(old_mode, 8), int(new_mode, 8)), next(records)
        target = next(records) if letter[0] == "R" else path
        if _GITLINK in modes:
            continue
        if letter[0] == "R":
            deltas[path] = Delta(old, modes[0], None, 0)
            deltas[target] = Delta(None, 0, new, modes[1], path)
        else:
            deltas[path] = Delta(old if old.strip("0") else None, modes[0], new if new.strip("0") else None, modes[1])
    return deltas


def read_numstat(answer: bytes) -> dict[str, tuple[int | None, int | None]]:
    """Lines added and removed by path; None for what is no text.  Raises ValueError for a record that is none."""
    counts: dict[str, tuple[int | None, int | None]] = {}
    records = _records(answer)
    for record in records:
        added, removed, path = record.split("\t", 2)
        if not path:
            next(records)
            path = next(records)
        counts[path] = (None, None) if added == "-" else (int(added), int(removed))
    return counts


def read_commits(answer: bytes) -> tuple[list[tuple[str, int, str]], bool]:
    """``rev-list --left-right --format=tformat:%ct %s``.

    Returns:
        id, time and subject of each commit on the right, and whether there is one on the left.
    """
    found: list[tuple[str, int, str]] = []
    lines = iter(answer.decode("utf-8", "replace").split("\n"))
    left = False
    for line in lines:
        if not line.startswith("commit "):
            continue
        mark = line.removeprefix("commit ")
        time, _, subject = next(lines, "").partition(" ")
        if mark.startswith("<"):
            left = True
        else:
            found.append((mark.removeprefix(">"), int(time), subject))
    return found, left


def _records(answer: bytes) -> Iterator[str]:
    return iter(os.fsdecode(answer).split("\0")[:-1])
