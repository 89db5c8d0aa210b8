"""The cache: one file per model, named by its sha256, and the room in which it is put together.

    models/<sha256>.gguf              verified, complete; appears in one rename
    models/<sha256>.json              {"size": …, "mtime_ns": …} of the file when its hash was last computed
    models/incoming/<sha256>.lock     held (flock) by the one process that pulls this model
    models/incoming/<sha256>/         what has arrived of it; kept when a pull is cancelled or fails

A file whose size and modification time are those of its stamp is not hashed again: 1.1 GB take seconds, at every start.
So a file that was changed with its time put back goes unnoticed here; who can do that can change this program too. A
file without a fitting stamp (a restored backup, a copied cache) is hashed once and gets a new one.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import from_thread, to_thread

from subagent_local._pulling import settings
from subagent_local.errors import CacheUnusable, DiskFull

if TYPE_CHECKING:
    from subagent_local.models import LocalModel

_BLOCK = 1 << 20
_LOCK_POLL = 0.2  # seconds: flock has no time limit that can be cancelled, so the waiting one asks now and then
_MARGIN = 64 << 20  # bytes that a pull leaves free, so that it is not what fills the disk


class Cache:
    """The models folder. `root` is the cache root; `None` means the configured one."""

    def __init__(self, root: str | os.PathLike[str] | None = None) -> None:
        """Touch nothing yet: folders are made by the first pull.

        Raises:
            CacheUnusable: the configured place means nothing.
        """
        base = Path(root) if root is not None else settings.cache_root(settings.environment())
        self.folder = base.absolute() / "models"

    def path(self, model: LocalModel) -> Path:
        """Where the complete file is, or will be."""
        return self.folder / f"{model.sha256}.gguf"

    def incoming(self, model: LocalModel) -> Path:
        """The folder in which it is put together."""
        return self.folder / "incoming" / model.sha256

    def find(self, model: LocalModel) -> Path | None:
        """The complete, verified file, or None. Reads no more than the stamp."""
        path = self.path(model)
        try:
            return path if json.loads(self._stamp(model).read_bytes()) == _measure(path) else None
        except (OSError, ValueError):
            return None

    async def adopt(self, model: LocalModel) -> Path | None:
        """The complete file, hashed again where its stamp does not fit, or None; a wrong file is removed."""
        path = self.path(model)
        if found := self.find(model):
            return found
        with cache_errors(self.folder):
            if not path.exists():
                return None
            if await sha256_of(path) != model.sha256:
                path.unlink()
                return None
            self._write_stamp(model)
            return path

    async def install(self, model: LocalModel, arrived: Path) -> Path:
        """Move verified bytes to their place in one step, safe on the disk, and clear the room."""
        path = self.path(model)
        with cache_errors(self.folder):
            await to_thread.run_sync(_replace, arrived, path)
            self._write_stamp(model)
        shutil.rmtree(self.incoming(model), ignore_errors=True)
        return path

    @asynccontextmanager
    async def lock(self, model: LocalModel, waiting: Callable[[], None]) -> AsyncGenerator[None]:
        """Be the only one that pulls this model; `waiting` is called once when another one is at it.

        Raises:
            CacheUnusable: the folders cannot be made.
        """
        path = self.incoming(model).with_suffix(".lock")
        with cache_errors(self.folder):
            self.incoming(model).mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if not _try_lock(descriptor):
                waiting()
                while not _try_lock(descriptor):  # noqa: ASYNC110  # no event crosses from another process
                    await anyio.sleep(_LOCK_POLL)
            # The one before may have cleared the room after this one had made it.
            self.incoming(model).mkdir(parents=True, exist_ok=True)
            yield
        finally:
            os.close(descriptor)  # the lock goes with the descriptor, also when the process is killed

    def require_room(self, needed: int) -> None:
        """Refuse before the first byte when `needed` more bytes do not fit.

        Raises:
            DiskFull: with the number of bytes that are missing.
        """
        free = shutil.disk_usage(self.folder).free
        if free < needed + _MARGIN:
            raise DiskFull(self.folder, needed + _MARGIN - free)

    def _stamp(self, model: LocalModel) -> Path:
        return self.folder / f"{model.sha256}.json"

    def _write_stamp(self, model: LocalModel) -> None:
        self._stamp(model).write_text(json.dumps(_measure(self.path(model))))


async def sha256_of(path: Path) -> str:
    """Hash a file in a worker thread; a cancelled caller does not wait for the end of a large one."""

    def work() -> str:
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                from_thread.check_cancelled()
        return digest.hexdigest()

    return await to_thread.run_sync(work)


@contextmanager
def cache_errors(folder: Path) -> Generator[None]:
    """Turn "no space left" and "over quota" into `DiskFull`, and what else a disk may say into `CacheUnusable`."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(folder, None) from error
        raise CacheUnusable(folder, error.strerror or error) from error


def _measure(path: Path) -> dict[str, int]:
    status = path.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns}


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _replace(arrived: Path, path: Path) -> None:
    _sync(arrived)
    arrived.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
