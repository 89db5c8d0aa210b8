"""Opening what lies in a folder without ever following a link.

Every folder on the way is opened from the descriptor of the one above it, so what is checked is what is used: a folder
that is swapped for a link between two calls is not entered.  Only the working folder itself may be reached through
links; it is resolved once.  A FIFO or a device is looked at and never opened.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from subagent_workspace.errors import FolderUnusable

__all__ = [
    "FileIdentity",
    "Root",
    "Unfit",
    "close",
    "look",
    "open_parent",
    "open_regular",
    "open_root",
    "read_regular",
    "words",
]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_SPECIAL: Final = stat.S_ISUID | stat.S_ISGID
_KINDS: Final = ((stat.S_ISLNK, "a link"), (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"))


class Unfit(Exception):
    """Why one file cannot be read or written, for a person; it becomes a reason in an error that tells all of them."""


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """What tells whether a file still is the one that was read.  Two that are equal hold the same bytes."""

    dev: int
    ino: int
    mode: int
    uid: int
    gid: int
    links: int
    size: int
    mtime_ns: int
    sha256: str

    @classmethod
    def of(cls, st: os.stat_result, data: bytes) -> FileIdentity:
        """From what `fstat` said and what was read."""
        digest = hashlib.sha256(data).hexdigest()
        return cls(
            *(st.st_dev, st.st_ino, st.st_mode, st.st_uid, st.st_gid, st.st_nlink, st.st_size, st.st_mtime_ns), digest
        )


class Root(NamedTuple):
    """The working folder: a descriptor, and its device and inode."""

    fd: int
    place: tuple[int, int]


@contextmanager
def open_root(folder: str | os.PathLike[str]) -> Generator[Root]:
    """The working folder, open; it may itself be reached through links."""
    root = -1
    try:
        root = os.open(os.path.realpath(folder, strict=True), _FOLDER)
        st = os.fstat(root)
    except (OSError, ValueError) as exc:
        close(root)
        raise FolderUnusable(os.fspath(folder), words(exc)) from exc
    try:
        yield Root(root, (st.st_dev, st.st_ino))
    finally:
        close(root)


def close(fd: int) -> None:
    """Close what was only read: no error of this tells anything about a file."""
    with contextlib.suppress(OSError):
        os.close(fd)


def open_parent(root: Root, path: str) -> int:
    """A descriptor of the folder in which `path` lies; the caller closes it.

    Raises:
        Unfit: a folder on the way is missing, is a link, is no folder, or may not be opened.
    """
    here = os.dup(root.fd)
    for name in path.split("/")[:-1]:
        try:
            below = os.open(name, _FOLDER, dir_fd=here)
        except OSError as exc:
            raise Unfit(_obstacle(here, name, exc)) from exc
        finally:
            close(here)
        here = below
    return here


def _obstacle(here: int, name: str, exc: OSError) -> str:
    if exc.errno == errno.ENOENT:
        return "the folder for it does not exist: make it first"
    try:
        mode = os.stat(name, dir_fd=here, follow_symlinks=False).st_mode
    except OSError:
        mode = stat.S_IFDIR
    if stat.S_ISLNK(mode):
        return "a folder on the way is a link, and links are not followed"
    return words(exc) if stat.S_ISDIR(mode) else "what should be a folder on the way is a file"


def look(parent: int, name: str) -> os.stat_result | None:
    """What stands in a folder under a name; None if nothing does.

    Raises:
        Unfit: it is no regular file, or it cannot be looked at.
    """
    try:
        st = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise Unfit(words(exc)) from exc
    if not stat.S_ISREG(st.st_mode):
        kind = next((word for test, word in _KINDS if test(st.st_mode)), "a device or a socket")
        raise Unfit(f"it is {kind}, not a regular file" + (": links are not followed" if kind == "a link" else ""))
    return st


@contextmanager
def open_regular(parent: int, name: str) -> Generator[tuple[int, os.stat_result]]:
    """A descriptor for reading a regular file, and what `fstat` says of it.

    Raises:
        Unfit: it is none, or it may not be read.
    """
    before = look(parent, name)
    if before is None:
        raise Unfit("it does not exist")
    try:
        fd = os.open(name, _FILE, dir_fd=parent)
    except OSError as exc:
        raise Unfit(words(exc)) from exc
    try:
        st = os.fstat(fd)
        if not os.path.samestat(before, st):
            raise Unfit("it was replaced while it was being opened")
        yield fd, st
    finally:
        close(fd)


def read_regular(fd: int, st: os.stat_result, limit: int) -> bytes:
    """All bytes of an open file.

    Raises:
        Unfit: more than `limit` bytes, an error of the disk, or somebody writes in it at this moment.
    """
    too_large = f"it is larger than {limit:,} bytes"
    if st.st_size > limit:
        raise Unfit(f"{too_large} ({st.st_size:,})")
    chunks: list[bytes] = []
    try:
        while chunk := os.read(fd, limit + 1 - sum(map(len, chunks))):
            chunks.append(chunk)
        after = os.fstat(fd)
    except OSError as exc:
        raise Unfit(words(exc)) from exc
    data = b"".join(chunks)
    if len(data) > limit:
        raise Unfit(too_large)
    if len(data) != after.st_size or (after.st_mtime_ns, after.st_size) != (st.st_mtime_ns, st.st_size):
        raise Unfit("it is being written at this moment: try again")
    return data


def may_write(name: str, parent: int) -> bool:
    """Whether the system lets this process write there; root it lets nearly everywhere."""
    effective = os.access in os.supports_effective_ids
    return os.access(name, os.W_OK, dir_fd=parent, effective_ids=effective)


def writable(parent: int, name: str, st: os.stat_result) -> None:
    """Refuse a file that cannot be replaced by one that is the same but for its contents.

    Raises:
        Unfit: it is write-protected, has further names, runs with the rights of another, or belongs to another.
    """
    if not st.st_mode & 0o222 or not may_write(name, parent):
        raise Unfit("it is write-protected")
    if st.st_nlink > 1:
        raise Unfit(f"it has {st.st_nlink} names (hard links), and replacing it under one would part them")
    if st.st_mode & _SPECIAL:
        raise Unfit("it runs with the rights of its owner or group (setuid, setgid)")
    me = os.geteuid()
    if me != 0 and (st.st_uid != me or st.st_gid not in {os.getegid(), *os.getgroups()}):
        raise Unfit("it belongs to another user or group, and would not any more")


def words(exc: Exception) -> str:
    """What the system says, in small letters and without the name of the file."""
    return exc.strerror.lower() if isinstance(exc, OSError) and exc.strerror else str(exc)
