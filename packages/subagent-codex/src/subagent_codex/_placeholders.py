"""The empty folders that the engine leaves where it was stopped in a command.

While a command runs in its sandbox, ``.git``, ``.agents``, ``.codex`` and ``.aws`` are made on the host, empty, in
every folder that is open for writing, where they are missing.  A command that ends takes them away again; one that is
stopped with the engine does not (observed, Codex 0.163.0: after end of input, SIGTERM and an interrupted turn, always).

A concurrent run in the same folder still stands on them: were they removed, its sandbox would lose what they close.  So
the last run of this process in a folder removes what was missing before the first.  Runs of other processes are not
seen, and a process that is killed leaves them behind: empty, ignored by git, and taken for the person's own by the
next run.
"""

from __future__ import annotations

import os
import stat
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_NAMES: Final = (".git", ".agents", ".codex", ".aws")


@dataclass(slots=True)
class _Folder:
    missing: frozenset[str]
    users: int = 0


_folders: dict[str, _Folder] = {}
_lock: Final = threading.Lock()  # runs of several loops, in several threads


class Placeholders:
    """The time in which an engine may make them."""

    def __init__(self, *folders: str | Path, active: bool = True) -> None:
        """`folders` are those that the sandbox opens for writing, the working folder among them."""
        self._paths = tuple({os.path.realpath(folder) for folder in folders}) if active else ()

    def __enter__(self) -> None:
        """Note what is missing."""
        with _lock:
            for path in self._paths:
                if path not in _folders:
                    _folders[path] = _Folder(frozenset(n for n in _NAMES if not os.path.lexists(f"{path}/{n}")))
                _folders[path].users += 1

    def __exit__(self, *_: object) -> None:
        """Remove what was made meanwhile and is empty, if nobody else is in the folder; never raises."""
        with _lock:
            for path in self._paths:
                folder = _folders[path]
                folder.users -= 1
                if not folder.users:
                    del _folders[path]
                    for name in folder.missing:
                        _remove(f"{path}/{name}")


def _remove(path: str) -> None:
    with suppress(OSError):  # not there, not empty, or not ours to remove
        found = os.lstat(path)
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
            os.rmdir(path)  # refuses a link that has come since, and a folder with something in it
