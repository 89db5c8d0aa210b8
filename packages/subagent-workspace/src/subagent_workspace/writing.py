"""Files of a folder replaced: all checked and made ready before the first, each in one step, never through a link.

The order, for all files that change:

1. every file is checked: its folder reached without a link, still the one that was read, still replaceable;
2. every new file is written beside the old one and brought to the disk: a full disk is found here;
3. one file after the other is checked once more and put in place, and its folder brought to the disk.

What fails in 1 is `FilesRefused`, in 2 `WriteFailed`, and nothing was written.  What fails in 3 is `WriteFailed`: files
before that one are written, those after it are not, and it says so of each.  A file is at every moment the old one or
the new one, whole, also when the process is killed; a kill may leave `.subagents-….tmp` beside it, and nothing else
does without being told.

What somebody else saves meanwhile is not lost: where the system can exchange two names (Linux), what was replaced is
looked at, and put back when it is not what the task read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from subagent_workspace._open import open_root
from subagent_workspace._replace import Change, Rewrite, checked, discard, replace_all
from subagent_workspace._review import Written, review
from subagent_workspace._text import parse
from subagent_workspace.errors import WriteFailed
from subagent_workspace.paths import check_paths

__all__ = ["Rewrite", "Written", "write_files"]

_NOT_TRIED: Final = "it was not tried, because another one failed"


def write_files(folder: str | os.PathLike[str], rewrites: Iterable[Rewrite]) -> tuple[Written, ...]:
    """Replace files by new texts, in the form (BOM, line ends, final newline) and with the mode that they have.

    Blocks for as long as the disk does, and is not to be broken off: call it in a thread, shielded.  A file whose bytes
    would be the same is not touched.

    Args:
        folder: the working folder that `read_files` read from.
        rewrites: what it returned for writing, each with its new text.

    Returns:
        For each rewrite, in order, what became of the file.

    Raises:
        FolderUnusable: the folder cannot be opened.
        PathsRefused: see `check_paths`.
        FilesRefused: a file changed since it was read, or cannot be replaced, or a text cannot stand in a file; nothing
            was written.
        WriteFailed: the system refused, or a file changed after the first check; it says of each file what it is.
    """
    rewrites = tuple(rewrites)
    check_paths(rewrite.file.path for rewrite in rewrites)
    with open_root(folder) as root, ExitStack() as opened:
        changes = checked(root, rewrites, opened)
        try:
            failure = replace_all(root, changes.values())
        finally:
            for change in changes.values():
                discard(change)
    if failure is not None:
        raise _failed(rewrites, changes) from failure
    return tuple(_written(rewrite, changes.get(rewrite.file.path)) for rewrite in rewrites)


def _failed(rewrites: Iterable[Rewrite], changes: dict[str, Change]) -> WriteFailed:
    states = {path: change.state for path, change in changes.items()}
    notes = {path: change.note or _NOT_TRIED for path, change in changes.items()}
    return WriteFailed(
        [_written(r, changes[r.file.path]) for r in rewrites if states.get(r.file.path) == "written"],
        {path: notes[path] for path, state in states.items() if state in ("waiting", "failed")},
        {path: notes[path] for path, state in states.items() if state == "unknown"},
    )


def _written(rewrite: Rewrite, change: Change | None) -> Written:
    file = rewrite.file
    if change is None:
        return review(file.path, file.form, file.form, unchanged=True)
    told = review(file.path, file.form if file.exists else None, parse(change.data))
    return replace(told, warnings=(*told.warnings, change.note)) if change.note else told
