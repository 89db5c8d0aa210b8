"""What can go wrong with a working folder.

::

    WorkspaceError
    ├── FolderUnusable          the folder itself cannot be opened: folder, reason
    ├── PathsRefused            paths that no task may name: a reason for each
    │   └── FilesRefused        … or files that may not be read or written; nothing was written
    ├── WriteFailed             writing broke off: what was written, what was not, what is not known
    └── WorktreeFailed          a worktree could not be made, told of, or removed
        └── WorktreeDirty       … because of changes in it that are not committed: path, changed

Every message shows a path with its control and hidden characters as codes; no message holds what stands in a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from subagent_workspace._names import shown

if TYPE_CHECKING:
    from subagent_workspace._review import Written

__all__ = [
    "FilesRefused",
    "FolderUnusable",
    "PathsRefused",
    "WorkspaceError",
    "WorktreeDirty",
    "WorktreeFailed",
    "WriteFailed",
]

_TOLD: Final = 20  # in a message; the attributes hold all


class WorkspaceError(Exception):
    """The root of everything that this package raises on its own account."""


class FolderUnusable(WorkspaceError):
    """The working folder cannot be opened.

    Attributes:
        folder: as it was given.
        reason: what is wrong with it.
    """

    def __init__(self, folder: str, reason: str) -> None:
        """Name the folder and what is wrong with it."""
        self.folder, self.reason = folder, reason
        super().__init__(f"The working folder {shown(folder)} cannot be used: {reason}.")


class PathsRefused(WorkspaceError):
    """Paths that a task may not name.

    Attributes:
        reasons: for each path, as it was given, why.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        """A reason for each path that is refused; those that are fine are not in it."""
        self.reasons = dict(reasons)
        super().__init__(f"Refused, and nothing was touched: {_list(reasons)}.")


class FilesRefused(PathsRefused):
    """Files that may not be read or written, or paths that may not be named; nothing was written."""


class WriteFailed(WorkspaceError):
    """Writing broke off.  Each file is the old one or the new one, whole.

    Attributes:
        written: the files that hold their new contents, in order; those that needed no change are not in it.
        not_written: for each file that still is what it was before the call, why.
        unknown: for each file of which neither can be said, what is known.
    """

    def __init__(
        self, written: Iterable[Written], not_written: Mapping[str, str], unknown: Mapping[str, str] | None = None
    ) -> None:
        """What became of each file."""
        self.written = tuple(written)
        self.not_written, self.unknown = dict(not_written), dict(unknown or {})
        told = [
            ("Written", ", ".join(shown(done.path) for done in self.written[:_TOLD])),
            ("Not written", _list(self.not_written)),
            ("Not known", _list(self.unknown)),
        ]
        begin = "Writing broke off half-way." if self.written or self.unknown else "Nothing was written."
        super().__init__(" ".join([begin, *(f"{word}: {text}." for word, text in told if text)]))


class WorktreeFailed(WorkspaceError):
    """Git could not do it, or it would be wrong; the message says what and why."""


class WorktreeDirty(WorktreeFailed):
    """A worktree was not removed: changes in it are not committed.

    Attributes:
        path: its top folder.
        changed: how many files.
    """

    def __init__(self, path: str, changed: int) -> None:
        """Name it, and say how to go on."""
        self.path, self.changed = path, changed
        some = f"{changed} change{'s' * (changed != 1)} that {'are' if changed != 1 else 'is'} not committed"
        super().__init__(f"{path} holds {some}: commit what is to stay, or remove it with force=True.")


def _list(reasons: Mapping[str, str]) -> str:
    told = "; ".join(f"{shown(path)}: {reason}" for path, reason in list(reasons.items())[:_TOLD])
    return told if len(reasons) <= _TOLD else f"{told}; and {len(reasons) - _TOLD} more"
