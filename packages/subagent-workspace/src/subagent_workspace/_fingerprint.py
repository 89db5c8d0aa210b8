"""What a file holds, in a form that can be kept: SHA-256, git's id, mode, lines.

A path is followed from the descriptor of its root, one folder at a time and through no link: what a run put in the
place of a folder leads nowhere.  A link is known by its target.  Nothing that could wait for somebody (a FIFO, a
device) is opened.  All of it is synchronous: for a worker thread.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, TypedDict

from ._lines import is_text, line_numbers

__all__ = ["Budget", "State", "fingerprints", "open_folder", "same"]

_MEBIBYTE: Final = 1024 * 1024
_CHUNK: Final = _MEBIBYTE
_TEXT: Final = _MEBIBYTE  # a longer file's lines are not counted
_LINES: Final = 2 * _MEBIBYTE  # in one look, 8 bytes each
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class State:
    """A file at one moment, as far as it is known.

    Attributes:
        kind: ``"file"``, ``"program"`` (it may be executed), ``"link"`` or ``"other"``.
        digest: the SHA-256 of its contents, or of a link's target.
        blob: the id that git gives it.
        stat: size, time of change in ns, inode: they stand for the contents where those were not read.
        lines: a number for each line, where it is text.
        size: in bytes; -1 where it is not known.
    """

    kind: str
    digest: str | None = None
    blob: str | None = None
    stat: tuple[int, int, int] | None = None
    lines: array[int] | None = None
    size: int = -1


def same(before: State | None, after: State | None) -> bool:
    """Whether they are one and the same contents, kind included, as far as can be told: by the strongest they share."""
    if before is None or after is None:
        return before is after
    if before.kind != after.kind:
        return False
    for name in ("digest", "blob", "stat"):
        one, other = getattr(before, name), getattr(after, name)
        if one is not None and other is not None:
            return one == other
    return False


class Budget:
    """What one look may read.

    Attributes:
        unread: files that were known by size and time only.
        failed: paths that could not be read.
    """

    def __init__(self, seconds: float, size: int = 256 * _MEBIBYTE) -> None:
        self._end = time.monotonic() + seconds
        self._bytes = size
        self.lines = _LINES
        self.unread = 0
        self.failed: list[str] = []

    @property
    def late(self) -> bool:
        return time.monotonic() > self._end

    def allows(self, size: int) -> bool:
        """Take ``size`` bytes; False where they or the time are used up."""
        if size > self._bytes or self.late:
            self.unread += 1
            return False
        self._bytes -= size
        return True

    def notes(self) -> list[str]:
        """What was not read, for a person."""
        size = [f"{self.unread} files were too many or too large to read: they are known by size and time"]
        return (size if self.unread else []) + [f"{path}: cannot be read" for path in self.failed]


def fingerprints(root: str, paths: Iterable[str], budget: Budget, algorithm: str | None = None) -> dict[str, State]:
    """The state of each of these that is there, by path.

    Args:
        root: the folder that the paths begin in.
        paths: with ``/``; neighbours should stand together.
        budget: what may be read.
        algorithm: what git's ids are made with; None for none.
    """
    found: dict[str, State] = {}
    folder, number = None, -1
    try:
        for path in paths:
            parent, _, name = path.rpartition("/")
            if parent != folder:
                if number >= 0:
                    os.close(number)
                folder, number = parent, -1
                try:
                    number = open_folder(root, parent)
                except OSError:
                    budget.failed.append(parent)
            if number >= 0 and (state := _fingerprint(number, name, path, budget, algorithm)):
                found[path] = state
    finally:
        if number >= 0:
            os.close(number)
    return found


def open_folder(root: str, path: str) -> int:
    """Its descriptor; -1: it is not there, or a link stands on the way.

    Raises:
        OSError: it is there and cannot be opened.
    """
    number = os.open(root, _FOLDER)
    try:
        for part in path.split("/") if path else ():
            number, above = os.open(part, _FOLDER, dir_fd=number), number
            os.close(above)
    except OSError as error:
        os.close(number)
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        return -1
    return number


def _fingerprint(folder: int, name: str, path: str, budget: Budget, algorithm: str | None) -> State | None:
    """One file of an open folder; None: it is not there, or is a folder."""
    known: State | None = None
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            return None
        known = State(_kind(status.st_mode), stat=_known(status), size=status.st_size)
        if known.kind == "link":
            target = os.fsencode(os.readlink(name, dir_fd=folder))
            return replace(known, size=len(target), **_contents([target], len(target), budget, algorithm))
        if known.kind != "other" and budget.allows(status.st_size):
            return _of_file(folder, name, known, budget, algorithm)
    except FileNotFoundError:
        return None
    except OSError:
        budget.failed.append(path)
    return known


def _of_file(folder: int, name: str, known: State, budget: Budget, algorithm: str | None) -> State:
    with open(os.open(name, _FILE, dir_fd=folder), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        kind = _kind(status.st_mode)
        if kind == "other":  # it has become something else since it was looked at
            return known
        chunks = iter(lambda: file.read(_CHUNK), b"")
        contents = _contents(chunks, status.st_size, budget, algorithm)
    return State(kind, stat=_known(status), size=status.st_size, **contents)


class _Contents(TypedDict):
    digest: str
    blob: str | None
    lines: array[int] | None


def _contents(chunks: Iterable[bytes], size: int, budget: Budget, algorithm: str | None) -> _Contents:
    digest = hashlib.sha256()
    blob = hashlib.new(algorithm, b"blob %d\0" % size, usedforsecurity=False) if algorithm else None
    kept: list[bytes] | None = [] if size <= _TEXT else None
    seen = 0
    for chunk in chunks:
        seen += len(chunk)
        if seen > size:  # it grows while it is read: as far as it went when it was looked at
            chunk = chunk[: len(chunk) - (seen - size)]
        digest.update(chunk)
        if blob:
            blob.update(chunk)
        if kept is not None:
            kept.append(chunk)
        if seen >= size:
            break
    lines = _lines(b"".join(kept), budget) if kept is not None else None
    return {"digest": digest.hexdigest(), "blob": blob.hexdigest() if blob else None, "lines": lines}


def _lines(data: bytes, budget: Budget) -> array[int] | None:
    if not is_text(data):
        return None
    room = data.count(b"\n") + 1
    if room > budget.lines:
        return None
    budget.lines -= room
    return line_numbers(data)


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "link"
    if not stat.S_ISREG(mode):
        return "other"
    return "program" if mode & stat.S_IXUSR else "file"


def _known(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ino
