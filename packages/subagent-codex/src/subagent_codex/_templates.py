"""Prepared databases: five SQLite files that cost a fresh CODEX_HOME 60 to 200 ms, made once and copied in 1 to 2 ms.

    CACHE/codex/KEY/          0700, appears in one rename; KEY stands for one binary
        state_5.sqlite  logs_2.sqlite  memories_1.sqlite  goals_1.sqlite  queue_1.sqlite
    CACHE/codex/lock          held (flock) by the one process that makes one

CACHE is `subagent_process.cache_root()`.

They are made by `initialize` and the end of the input in a throwaway home, never from a home that was worked in: they
hold migrations and three rows of the engine's own, no path, no name, no key (observed for 0.163.0). The installation
id, which the engine sends to the model server, is never among them: each home makes its own.

Nothing here fails a run. Without the files, or with damaged ones, which the engine notices and makes anew (observed
for garbage, a cut and an empty file of each), it is only slower.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import secrets
import shutil
import sqlite3
import stat
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

from subagent_codex._methods import PINNED
from subagent_process import (
    JsonObject,
    Ladder,
    Peer,
    ProcessError,
    RpcError,
    StderrTail,
    cache_root,
    child_env,
    open_process,
    redact,
    throwaway_home,
)

_FILES: Final = ("state_5.sqlite", "logs_2.sqlite", "memories_1.sqlite", "goals_1.sqlite", "queue_1.sqlite")
_LADDER: Final = Ladder(eof=1, term=1)
_LIMIT: Final = 20.0  # s for making them; 0.2 are usual
_KEPT: Final = 4  # binaries
_log = logging.getLogger("subagents.codex")


def key(binary: Path) -> str | None:
    """What stands for a binary without reading its 300 MB: where its bytes lie, how many, and since when."""
    try:
        found = binary.stat()
    except OSError:
        return None
    text = f"{found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


async def prepare(home: Path, key: str) -> bool:
    """Copy the databases into a fresh CODEX_HOME, under 1 ms; False when there are none, and it stays empty.

    Never raises but for cancellation, and then it has ended.
    """
    folder = _folder()
    return folder is not None and await to_thread.run_sync(_copy, folder / key, home)


async def make(argv: Sequence[str | os.PathLike[str]], key: str, *, given: Mapping[str, str] | None = None) -> bool:
    """Make the databases of a binary where they are missing and nobody else is at it; True when they are there.

    About 0.2 s and a process of its own: beside a run, not before it. Never raises but for cancellation; the process,
    its home and what was half made are gone then too.

    Args:
        argv: an app-server with settings that hold no path and no secret.
        key: of its binary.
        given: variables of its environment, beside those of the throwaway home.
    """
    folder = _folder()
    if folder is None or _made(folder / key):
        return folder is not None
    try:
        with _alone(folder), anyio.fail_after(_LIMIT):
            await _make(argv, folder, key, given or {})
    except* (OSError, sqlite3.Error, ProcessError) as failed:
        _log.debug("no prepared databases: %s", redact(str(failed.exceptions[0])))
    return _made(folder / key)


def _made(folder: Path) -> bool:
    """`Path.is_dir` raises where a folder on the way may not be searched."""
    return os.path.isdir(folder)


@contextmanager
def _alone(folder: Path) -> Generator[None]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


async def _make(argv: Sequence[str | os.PathLike[str]], folder: Path, key: str, given: Mapping[str, str]) -> None:
    async with throwaway_home("codex") as home:
        codex = home.path("codex")
        env = child_env(minimal=True, home=home, set={"CODEX_HOME": str(codex), **given})
        # Not handed over to the process: it is needed when that has ended.
        process = await open_process(argv, env=env, cwd=home.root, ladder=_LADDER)
        async with anyio.create_task_group() as tasks, process:
            peer = Peer(process, answer=_answer, notified=_notified, envelope=False)
            tasks.start_soon(peer.run)
            tasks.start_soon(StderrTail(process.stderr).run)
            await peer.request("initialize", {"clientInfo": {"name": "subagents", "version": PINNED}})
        await to_thread.run_sync(_keep, codex, folder, key)


async def _answer(method: str, _: JsonObject) -> JsonObject:
    raise RpcError.method_not_found(method)


def _notified(_: str, __: JsonObject) -> None:
    pass


def _keep(codex: Path, folder: Path, key: str) -> None:
    """Through SQLite and not by copying: after a clean exit most of it may still be in the write-ahead log."""
    made = folder / f"{key}.{secrets.token_hex(4)}"
    made.mkdir(mode=0o700)
    try:
        for name in _FILES:
            address = f"{(codex / name).as_uri()}?mode=rw"  # else a missing one would be made, empty
            with closing(sqlite3.connect(address, uri=True)) as live, closing(sqlite3.connect(made / name)) as copy:
                live.backup(copy)
        made.rename(folder / key)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    others = sorted((p for p in folder.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime, reverse=True)
    for old in others[_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)


def _copy(source: Path, home: Path) -> bool:
    try:
        if not all(map(_ours, (source.parent, source))):
            return False
        for name in _FILES:
            shutil.copyfile(source / name, home / name, follow_symlinks=False)
    except OSError:
        shutil.rmtree(source, ignore_errors=True)  # incomplete: the next run makes them anew
        for name in _FILES:
            (home / name).unlink(missing_ok=True)
        return False
    return True


def _ours(folder: Path) -> bool:
    """A folder in which nobody else may write: what lies there becomes the state of an engine."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _folder() -> Path | None:
    """Where they lie; None where the person's word for it means nothing."""
    try:
        return Path(cache_root() / "codex").absolute()
    except (RuntimeError, OSError):
        return None
