"""The nested repositories that an index of git names, read without git.

The format is ``gitformat-index(5)``, versions 2 to 4; read there, and observed with git 2.39.
"""

from __future__ import annotations

from typing import Final

_GITLINK: Final = 0o160000
_BEFORE_NAME: Final = 40  # bytes of times, device, inode, mode, owner and size
_PATTERN: Final = _GITLINK.to_bytes(4, "big")


def gitlinks(index: bytes | None) -> frozenset[str] | None:
    """The paths of the nested repositories in an index; None for what is no index that we can read.

    Args:
        index: the file's bytes.
    """
    if index is None or not index.startswith(b"DIRC"):
        return None
    if _PATTERN not in index:
        return frozenset()  # nearly always: what follows takes about 1 µs an entry
    for hash_size in (20, 32):  # SHA-1, SHA-256: the configuration says which; the wrong one does not fit
        try:
            found, end = _paths(index, hash_size)
        except IndexError:
            continue
        if end == len(index) - hash_size or index[end : end + 4].isalpha():  # the checksum, or an extension
            return found
    return None


def _paths(index: bytes, hash_size: int) -> tuple[frozenset[str], int]:
    """What is found, and where the entries end."""
    found: set[str] = set()
    version, entries = (int.from_bytes(index[at : at + 4], "big") for at in (4, 8))
    at, name = 12, b""
    for _ in range(entries):
        mode = int.from_bytes(index[at + 24 : at + 28], "big")
        start = at + _BEFORE_NAME + hash_size + 2
        if index[start - 2] & 0x40:  # extended flags
            start += 2
        kept = 0
        if version == 4:  # how much of the name before is not in this one
            dropped, start = _offset(index, start)
            kept = len(name) - dropped
        end = index.find(b"\0", start)
        if end < 0:
            raise IndexError(start)
        name = name[:kept] + index[start:end]
        at = end + 1 if version == 4 else at + (end - at + 8) // 8 * 8
        if mode == _GITLINK:
            found.add(name.decode("utf-8", "replace"))
    return frozenset(found), at


def _offset(index: bytes, at: int) -> tuple[int, int]:
    """The number that starts at `at`, in the variable-width form of pack files' offsets, and where it ends."""
    value = index[at] & 0x7F
    while index[at] & 0x80:
        at += 1
        value = (value + 1) << 7 | index[at] & 0x7F
    return value, at + 1
