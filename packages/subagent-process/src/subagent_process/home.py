"""A throwaway home: one private folder that holds HOME, TMPDIR, the XDG folders and an engine's own.

Layout, all 0700::

    BASE/subagent-XXXXXXXX/       the root; short, because a child may bind a socket 43 characters below one of its
        folders, and .owner                    a socket's path has at most 103 bytes (macOS) home/  tmp/  config/
        cache/  data/  state/  run/  and the names that were asked for

Who removes it: the keeper of the process that it was handed to, once nothing of the tree lives, also when the harness
was killed; else the end of the context; else, after a crash, the next start (``_janitor``).
"""

from __future__ import annotations

import logging
import os
import secrets
import stat
import tempfile
import weakref
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread

from . import _janitor
from ._launcher import require_support
from ._supervisor import folder
from .errors import HomeError

__all__ = ["ThrowawayHome", "throwaway_home"]

_FOLDERS = {
    "HOME": "home",
    "TMPDIR": "tmp",
    "XDG_CONFIG_HOME": "config",
    "XDG_CACHE_HOME": "cache",
    "XDG_DATA_HOME": "data",
    "XDG_STATE_HOME": "state",
    "XDG_RUNTIME_DIR": "run",
}
_SOCKET_PATH = 103  # bytes: sun_path on macOS less its NUL; Linux has 107
_BELOW = 43  # bytes: "/app-server-control/app-server-control.sock"
_PATIENCE = 5.0  # s of trying to remove what something is still writing in
_ATTEMPTS = 100

_log = logging.getLogger("subagent_process")
_known: weakref.WeakSet[ThrowawayHome] = weakref.WeakSet()


class ThrowawayHome:
    """One private folder and what is in it.  Made by ``throwaway_home``; serves one process tree.

    Attributes:
        root: the folder; an absolute path without links.
        device: with ``inode``, which folder it is: a path may lead to another one later.
        inode: see ``device``.
    """

    def __init__(self, root: Path, names: tuple[str, ...]) -> None:
        """Fill a root that was just made."""
        root.chmod(0o700)  # mkdir's mode is subject to the umask
        found = root.lstat()
        self.root, self.device, self.inode = root, found.st_dev, found.st_ino
        self._folders = (*_FOLDERS.values(), *names)
        self._unlock = weakref.finalize(self, os.close, _janitor.claim(root))
        _known.add(self)
        for name in self._folders:
            (root / name).mkdir(mode=0o700)
            (root / name).chmod(0o700)

    def __repr__(self) -> str:
        """The path."""
        return f"<ThrowawayHome {self.root}>"

    def path(self, name: str) -> Path:
        """One of the folders that were asked for, or ``home``, ``tmp``, ``config`` and so on."""
        if name not in self._folders:
            raise ValueError(f"{name!r} is no folder of this home; it has {', '.join(self._folders)}.")
        return self.root / name

    def env(self) -> dict[str, str]:
        """HOME, TMPDIR and the XDG folders, all inside."""
        return {variable: str(self.root / name) for variable, name in _FOLDERS.items()}

    def remove(self) -> bool:
        """Remove it, and nothing but it; True when it is gone.

        Blocks for up to 5 s while something is still writing in it.  Never raises: what
        cannot be removed is left, with one warning to the logger ``subagent_process``.
        """
        gone = folder.remove(os.fspath(self.root), self.device, self.inode, patience=_PATIENCE)
        if not gone:
            _log.warning(
                "The throwaway home %s could not be removed: something writes in it, or it holds what is not ours."
                " Remove it by hand, or leave it to the next start.",
                self.root,
            )
        self.unlock()
        return gone

    def unlock(self) -> None:
        """Give up the lock, without removing anything."""
        self._unlock()


def _after_fork() -> None:  # pragma: no cover - runs only in a fork of the harness, which a test starts
    for home in list(_known):  # the lock is shared with a fork, which would hold it after our death
        home.unlock()


with suppress(AttributeError):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


@asynccontextmanager
async def throwaway_home(
    *names: str, base: str | os.PathLike[str] | None = None
) -> AsyncGenerator[ThrowawayHome, None]:
    """A private home for one process tree, removed at the end whatever happens in between.

    Hand it to ``open_process`` too, which removes it when the tree is gone, even if this process is killed.  The
    first home of a process also removes what earlier ones left behind in the same place when they crashed, and
    nothing else: not the home of a live process, not a stranger's folder, nothing behind a link.

    Args:
        names: folders of the engine's own, beside HOME and the others.
        base: where to make it; by default TMPDIR if that is short enough, else ``/tmp``, ``/var/tmp``, ``/dev/shm``.

    Raises:
        UnsupportedPlatform: neither Linux nor macOS.
        HomeError: no folder could be made, or only one whose path is too long for a socket.
        ValueError: a name that is no plain folder name, or is taken.

    Removal is best effort, takes at most about 5 s, is shielded from cancellation and never raises: modes are
    repaired, links are not followed, and what stays is named in one warning (logger ``subagent_process``).
    """
    require_support()
    _check(names)
    where = _choose(names) if base is None else _checked_base(base, names)
    with anyio.move_on_after(_PATIENCE):
        await anyio.to_thread.run_sync(_janitor.clean_once, where, abandon_on_cancel=True)
    home = _make(where, names)
    try:
        yield home
    finally:
        if home.root.exists():  # else its keeper was here
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(home.remove)
        home.unlock()


def _check(names: tuple[str, ...]) -> None:
    taken = {*_FOLDERS.values(), _janitor.OWNER}
    for name in names:
        if not name or name in (".", "..") or "/" in name or "\0" in name or name in taken:
            raise ValueError(f"{name!r} cannot be a folder of a home: it is no plain name, or it is taken.")
        taken.add(name)


def _excess(base: str, names: tuple[str, ...]) -> int:
    """By how many bytes a socket below the longest folder would be too long."""
    longest = max(len(os.fsencode(name)) for name in (*_FOLDERS.values(), *names))
    root = len(os.fsencode(base)) + 1 + len(_janitor.PREFIX) + 8
    return root + 1 + longest + _BELOW - _SOCKET_PATH


def _candidates() -> Iterator[str]:
    for variable in ("TMPDIR", "TEMP", "TMP"):
        if value := os.environ.get(variable):
            yield value
    yield from ("/tmp", "/var/tmp", "/dev/shm", tempfile.gettempdir())


def _usable(base: str) -> bool:
    """A folder that we may write in, and in which nobody else may replace what is ours."""
    try:
        mode = os.stat(base).st_mode
    except OSError:
        return False
    private = not mode & (stat.S_IWGRP | stat.S_IWOTH) or bool(mode & stat.S_ISVTX)
    return stat.S_ISDIR(mode) and private and os.access(base, os.W_OK | os.X_OK)


def _choose(names: tuple[str, ...]) -> str:
    tried = list(dict.fromkeys(map(os.path.realpath, _candidates())))
    for base in tried:
        if _excess(base, names) <= 0 and _usable(base):
            return base
    raise HomeError(
        ", ".join(tried),
        "none is a private or sticky folder that can be written in and has a short path. Set TMPDIR to one.",
    )


def _checked_base(base: str | os.PathLike[str], names: tuple[str, ...]) -> str:
    where = os.path.realpath(base)
    if (excess := _excess(where, names)) > 0:
        raise HomeError(where, f"the path is {excess} bytes too long for a socket below it. Choose a shorter one.")
    if not _usable(where):
        raise HomeError(where, "it has to be a folder that can be written in, and private or sticky.")
    return where


def _make(base: str, names: tuple[str, ...]) -> ThrowawayHome:
    for _ in range(_ATTEMPTS):
        root = Path(base, _janitor.PREFIX + secrets.token_hex(4))
        try:
            root.mkdir(mode=0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise HomeError(base, f"{error.strerror}. Set TMPDIR to a folder that can be written in.") from error
        try:
            return ThrowawayHome(root, names)
        except OSError as error:
            found = root.lstat()
            folder.remove(os.fspath(root), found.st_dev, found.st_ino, patience=0)
            raise HomeError(base, f"{error.strerror} while filling it.") from error
    raise HomeError(base, "every name that was tried is taken.")
