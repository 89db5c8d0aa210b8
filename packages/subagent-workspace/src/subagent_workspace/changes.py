"""What a run did to its folder: plain values, which go through JSON as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Changes", "Commit", "FileChange", "FileStatus", "WorktreeReport"]

FileStatus: TypeAlias = Literal["added", "modified", "deleted", "renamed"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file whose contents, kind or name is another than before the run, or that is in a commit of the run.

    Attributes:
        path: from the folder of the task, with ``/``; ``../other/c`` for one elsewhere in the repository.  Bytes that
            are no UTF-8 are lone surrogates (``os.fsencode`` gives them back; JSON has U+FFFD there).  A repository
            that came or went as a whole is one path with ``/`` at its end.
        status: ``modified`` is also another kind (file, program, link) of the same path.
        added: lines; None where it is no text, too long to count, or was not read.
        removed: likewise.  What moved within a file of more than a hundred edits is in neither.
        old_path: what it was called before, for a rename.
        committed: it is in a commit of the run.
    """

    path: str
    status: FileStatus
    added: int | None = None
    removed: int | None = None
    old_path: str | None = None
    committed: bool = False


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of the run.

    Attributes:
        id: in full.
        subject: its first line, at most 500 characters; text from outside.
    """

    id: str
    subject: str


@dataclass(frozen=True, slots=True)
class Changes:
    """All that a run did to its folder, as far as it can be told.

    Attributes:
        files: at most 200, by path.
        more: how many are not listed.
        commits: at most 20, the newest first; those of the repository of the folder, not of repositories within it.
        more_commits: how many are not listed.
        head_moved: HEAD went somewhere else than on by commits of the run: another branch, a reset, a merge or pull of
            older commits, an amended commit.  ``files`` has what differs from before all the same.
        root: the top of the repository; the folder itself where there is none.
        unseen: what was not looked at, and why, for a person to read; text from outside.
    """

    files: tuple[FileChange, ...] = ()
    more: int = 0
    commits: tuple[Commit, ...] = ()
    more_commits: int = 0
    head_moved: bool = False
    root: str = ""
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorktreeReport:
    """What became of a worktree.

    Attributes:
        path: its top folder; None: it was removed, since nothing is in it.
        branch: on which it stands (`subagents/1f0c22aa`); None where it was removed or git could not be asked.
        base: the commit at which it began.
        head: the commit at which it stands; None where it could not be told.
        diff: from `base` to what stands in the folder, new files too, as `git diff` writes it; at most 1 MiB; of binary
            files it says only that they differ; text from outside.
        diff_cut: there is more of it.
        notes: what could not be done or told.
    """

    path: str | None
    branch: str | None
    base: str
    head: str | None = None
    diff: str = ""
    diff_cut: bool = False
    notes: tuple[str, ...] = ()
