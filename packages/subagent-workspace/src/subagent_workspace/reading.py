"""Files of a folder, read for a task: whole, as text, never through a link, and with what tells whether they change.

All that is wrong is told at once, with a reason for each path.  A file with further names (hard links) may be read, but
not written: it is replaced by another, and the other names would keep the old one without a word.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from subagent_workspace._names import fold, shown
from subagent_workspace._open import (
    FileIdentity,
    Root,
    Unfit,
    close,
    look,
    may_write,
    open_parent,
    open_regular,
    open_root,
    read_regular,
    words,
    writable,
)
from subagent_workspace._text import Form, parse
from subagent_workspace.errors import FilesRefused, PathsRefused
from subagent_workspace.paths import check_paths
from subagent_workspace.protection import PROTECTED, SECRET, protecting

__all__ = ["Limits", "Sources", "TextFile", "read_files"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What `read_files` refuses beside what no task may have.

    Attributes:
        max_bytes: the largest file.
        protected: patterns (see `PROTECTED`) of what may be read but not written.
        secret: patterns (see `SECRET`) of what may be neither read nor written.
    """

    max_bytes: int = 256 * 1024
    protected: tuple[str, ...] = PROTECTED
    secret: tuple[str, ...] = SECRET


@dataclass(frozen=True, slots=True)
class TextFile:
    """One file as it was read; or one that does not exist yet, and may be written.

    Attributes:
        path: as it was given, relative to the folder.
        data: its bytes; b"" for one that does not exist.
        identity: device, inode, mode, owner, size, time and SHA-256; None for one that does not exist.
        root: device and inode of the folder.
        form: its lines, their ends, and whether it has a BOM.
    """

    path: str
    data: bytes = field(repr=False)
    identity: FileIdentity | None
    root: tuple[int, int]
    form: Form = field(repr=False)

    @property
    def exists(self) -> bool:
        """Whether it existed when it was read."""
        return self.identity is not None

    @property
    def text(self) -> str:
        """Without BOM, with every line end as a newline."""
        return self.form.text


class Sources(NamedTuple):
    """What `read_files` returns, in the order of its arguments."""

    read: tuple[TextFile, ...]
    write: tuple[TextFile, ...]


def read_files(
    folder: str | os.PathLike[str], read: Iterable[str] = (), write: Iterable[str] = (), *, limits: Limits | None = None
) -> Sources:
    """Read the files that a task may see, and those that it may rewrite.

    Blocks for as long as the disk does: call it in a thread.  The folder itself may be reached through links.

    Args:
        folder: the working folder.
        read: paths of files that the task may only see: they exist.
        write: paths of files that it may replace; one that does not exist yet is fine where its folder does.
        limits: size and protected names; the defaults are those of `Limits`.

    Raises:
        FolderUnusable: the folder cannot be opened.
        FilesRefused: with a reason for each path: it may not be named (`check_paths`), a link is on the way or at its
            end, it is no regular file, too large, not UTF-8, holds a NUL, is being written, cannot be read or written,
            is protected, has more than one name, has its folder missing, or is new and differs from a name that is
            there only by case.
    """
    limits = limits or Limits()
    read, write = tuple(read), tuple(write)
    reasons: dict[str, str] = {}
    try:
        check_paths([*write, *read])
    except PathsRefused as exc:
        reasons = exc.reasons
    files: list[TextFile] = []
    with open_root(folder) as root:
        for path, writing in [*((path, False) for path in read), *((path, True) for path in write)]:
            if path in reasons:
                continue
            try:
                files.append(_read(root, path, writing, limits))
            except (Unfit, OSError) as exc:
                reasons[path] = words(exc)
    if reasons:
        raise FilesRefused({path: reasons[path] for path in [*read, *write] if path in reasons})
    return Sources(tuple(files[: len(read)]), tuple(files[len(read) :]))


def _read(root: Root, path: str, writing: bool, limits: Limits) -> TextFile:
    if pattern := protecting(path, limits.secret):
        raise Unfit(f"it is protected as a secret (by the pattern {shown(pattern)}), and is neither read nor written")
    if writing and (pattern := protecting(path, limits.protected)):
        raise Unfit(f"it is protected (by the pattern {shown(pattern)}), and may only be read")
    name = path.rpartition("/")[2]
    parent = open_parent(root, path)
    try:
        if writing and not may_write(".", parent):
            raise Unfit("nothing can be written in its folder")
        if writing and look(parent, name) is None:
            _check_new(parent, name)
            return TextFile(path, b"", None, root.place, Form())
        with open_regular(parent, name) as (fd, st):
            if writing:
                writable(parent, name, st)
            data = read_regular(fd, st, limits.max_bytes)
        return TextFile(path, data, FileIdentity.of(st, data), root.place, parse(data))
    finally:
        close(parent)


def _check_new(parent: int, name: str) -> None:
    try:
        same = [other for other in os.listdir(parent) if fold(other) == fold(name)]
    except OSError as exc:
        raise Unfit(words(exc)) from exc
    if same:
        raise Unfit(f"it would differ from {shown(same[0])}, which is there, only by case or the form of letters")
