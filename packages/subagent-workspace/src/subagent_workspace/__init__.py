"""The working folder of a delegated task: what a path may be, what changed, writing all or nothing, worktrees.

::

    before = await snapshot(folder)
    ...
    changes = await before.changes()     # files, commits, and what could not be looked at

The values are loaded at once, and the rest when it is named: `import subagents` needs no more than them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .changes import Changes, Commit, FileChange, FileStatus, WorktreeReport

if TYPE_CHECKING:
    from ._finishing import finish_worktree
    from ._review import Written
    from .errors import (
        FilesRefused,
        FolderUnusable,
        PathsRefused,
        WorkspaceError,
        WorktreeDirty,
        WorktreeFailed,
        WriteFailed,
    )
    from .paths import check_paths, refusal
    from .reading import Limits, Sources, TextFile, read_files
    from .snapshots import Snapshot, snapshot
    from .worktrees import Worktree, add_worktree, list_worktrees, remove_worktree
    from .writing import Rewrite, write_files

__all__ = [
    "Changes",
    "Commit",
    "FileChange",
    "FileStatus",
    "FilesRefused",
    "FolderUnusable",
    "Limits",
    "PathsRefused",
    "Rewrite",
    "Snapshot",
    "Sources",
    "TextFile",
    "WorkspaceError",
    "Worktree",
    "WorktreeDirty",
    "WorktreeFailed",
    "WorktreeReport",
    "WriteFailed",
    "Written",
    "add_worktree",
    "check_paths",
    "finish_worktree",
    "list_worktrees",
    "read_files",
    "refusal",
    "remove_worktree",
    "snapshot",
    "write_files",
]

_ROOMS = {
    "_finishing": ("finish_worktree",),
    "_review": ("Written",),
    "errors": (
        "FilesRefused",
        "FolderUnusable",
        "PathsRefused",
        "WorkspaceError",
        "WorktreeDirty",
        "WorktreeFailed",
        "WriteFailed",
    ),
    "paths": ("check_paths", "refusal"),
    "reading": ("Limits", "Sources", "TextFile", "read_files"),
    "snapshots": ("Snapshot", "snapshot"),
    "worktrees": ("Worktree", "add_worktree", "list_worktrees", "remove_worktree"),
    "writing": ("Rewrite", "write_files"),
}


def __getattr__(name: str) -> object:
    for room, names in _ROOMS.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{room}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
