"""The steps of `write_files` for the files that change: checked, staged, put in place, and what is ours removed."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final, Literal

from subagent_workspace._open import (
    FileIdentity,
    Root,
    Unfit,
    close,
    look,
    open_parent,
    open_regular,
    read_regular,
    words,
    writable,
)
from subagent_workspace._rename import exchange, place
from subagent_workspace._stage import remove, stage
from subagent_workspace._text import in_form
from subagent_workspace.errors import FilesRefused
from subagent_workspace.reading import TextFile

__all__ = ["Change", "Rewrite", "checked", "discard", "replace_all"]

_CHANGED: Final = "it was changed since it was read, and was left as it is"
_NO_FOLDER_SYNC: Final = {errno.EINVAL, errno.ENOTSUP}


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A new text for a file that `read_files` read for writing."""

    file: TextFile
    text: str


class _Unclear(Exception):
    """Why it cannot be said whether a file is the old one or the new one."""


@dataclass(slots=True)
class Change:
    """One file that is being replaced.

    `parent` is its folder, open; `staged` a name in it that is ours to remove; `note` a reason or a warning.
    """

    file: TextFile
    data: bytes
    parent: int
    staged: str = ""
    state: Literal["waiting", "written", "failed", "unknown"] = "waiting"
    note: str = ""

    @property
    def name(self) -> str:
        return self.file.path.rpartition("/")[2]


def checked(root: Root, rewrites: Iterable[Rewrite], opened: ExitStack) -> dict[str, Change]:
    """The files that change, by path, each with its folder open for as long as `opened` is.

    Raises:
        FilesRefused: with a reason for each file that cannot be replaced.
    """
    changes: dict[str, Change] = {}
    reasons: dict[str, str] = {}
    for rewrite in rewrites:
        file = rewrite.file
        try:
            data = in_form(rewrite.text, file.form)
            if file.root != root.place:
                raise Unfit("it was read from another folder, or the folder was replaced since")
            if file.exists and data == file.data:
                continue
            parent = open_parent(root, file.path)
            opened.callback(close, parent)
            change = Change(file, data, parent)
            with _as_read(parent, change.name, file):
                changes[file.path] = change
        except (Unfit, OSError) as exc:
            reasons[file.path] = words(exc)
    if reasons:
        raise FilesRefused(reasons)
    return changes


@contextmanager
def _as_read(parent: int, name: str, file: TextFile) -> Generator[int | None]:
    """A descriptor of what stands under a name, when that is exactly what was read; None where nothing stood.

    Raises:
        Unfit: it is not what was read.
    """
    if file.identity is None:
        if look(parent, name) is not None:
            raise Unfit("it was made by somebody else since it was asked for, and was left as it is")
        yield None
        return
    with open_regular(parent, name) as (fd, st):
        if st.st_size != file.identity.size:
            raise Unfit(_CHANGED)
        if FileIdentity.of(st, read_regular(fd, st, st.st_size)) != file.identity:
            raise Unfit(_CHANGED)
        writable(parent, name, st)
        yield fd


def replace_all(root: Root, changes: Iterable[Change]) -> Exception | None:
    """Stage all, then place all; stops at the first that fails, with the failure."""
    for step in (_stage, _place):
        for change in changes:
            try:
                step(root, change)
            except (Unfit, OSError) as exc:
                change.state, change.note = "failed", words(exc)
                return exc
            except _Unclear as exc:
                change.state, change.note = "unknown", str(exc)
                return exc
    return None


def _stage(_root: Root, change: Change) -> None:
    with _as_read(change.parent, change.name, change.file) as old:
        change.staged = stage(change.parent, change.data, old)


def _place(root: Root, change: Change) -> None:
    """Check one file again, and put the new one in its place.

    Raises:
        Unfit, OSError: it was not replaced.
        _Unclear: nobody knows.
    """
    _check_again(root, change)
    new = os.stat(change.staged, dir_fd=change.parent, follow_symlinks=False)
    try:
        if change.file.exists:
            kept = exchange(change.parent, change.staged, change.name)
        else:
            kept = False
            place(change.parent, change.staged, change.name)
    except OSError as exc:
        if _is(change, change.staged, new) and not _is(change, change.name, new):
            raise
        raise _Unclear(f"the system says: {words(exc)}; and yet the new file is not where it was") from exc
    if kept and not _is_as_read(change, change.staged):
        _put_back(change, new)
    change.state = "written"
    if not kept:
        change.staged = ""
    discard(change)
    try:
        os.fsync(change.parent)
    except OSError as exc:
        if exc.errno not in _NO_FOLDER_SYNC:
            raise _Unclear(f"the new file is in place, but may not be on the disk: {words(exc)}") from exc


def _check_again(root: Root, change: Change) -> None:
    parent = open_parent(root, change.file.path)
    try:
        if not os.path.samestat(os.fstat(parent), os.fstat(change.parent)):
            raise Unfit("its folder was replaced since it was read, and was left as it is")
    finally:
        close(parent)
    with _as_read(change.parent, change.name, change.file):
        pass


def _is_as_read(change: Change, name: str) -> bool:
    try:
        with _as_read(change.parent, name, change.file):
            return True
    except (Unfit, OSError):
        return False


def _is(change: Change, name: str, new: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(name, dir_fd=change.parent, follow_symlinks=False), new)
    except OSError:
        return False


def _put_back(change: Change, new: os.stat_result) -> None:
    """Somebody changed the file in the last moment: what they made of it takes its place again.

    Raises:
        Unfit: done.
        _Unclear: that failed, and what they made of it stands under the other name.
    """
    try:
        exchange(change.parent, change.staged, change.name)
    except OSError as exc:
        left, change.staged = change.staged, ""
        raise _Unclear(f"somebody changed it meanwhile, and that stands in {left} beside it: {words(exc)}") from exc
    if not _is(change, change.staged, new):
        left, change.staged = change.staged, ""
        raise _Unclear(f"somebody changed it twice meanwhile, and one of both stands in {left} beside it")
    raise Unfit(_CHANGED)


def discard(change: Change) -> None:
    """Remove what is ours beside the file; what stays is told."""
    if change.staged and not remove(change.parent, change.staged):
        left = f"a file that could not be removed is left beside it: {change.staged}"
        change.note = f"{change.note}; {left}" if change.note else left
    change.staged = ""
