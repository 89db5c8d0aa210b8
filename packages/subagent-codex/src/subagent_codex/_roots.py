"""Which folders of git a task has to write in so that it can commit, and what in them stays closed.

Found by reading files, never by asking git, which would do what the repository's configuration says.  Nothing in the
working folder is believed: an earlier task may have written a ``.git`` file that points at another repository, or put
a link where a folder is expected.  A linked worktree counts only if its administrative folder points back.

The engine keeps ``.git`` read-only in every folder that it opens (observed, Codex 0.163.0).  What a commit needs:

=============== ================================== ===================================================
repository      opened                             stays closed in there
=============== ================================== ===================================================
linked worktree its own administrative folder,     ``commondir``, ``gitdir``, ``config.worktree``; with
                the shared objects, refs, logs     the shared folder's configuration, hooks, index
detached one    its own administrative folder,     the same, and every branch: none is to be moved
                the shared objects
plain           ``.git``, if that is asked for     ``config``, ``hooks``, ``commondir``, ``modules`` and
                                                   ``worktrees`` where they are, ``config.worktree``
=============== ================================== ===================================================

Closed are the files by which git on this host would be led to another configuration, that is to commands.  Only a
permission profile of the engine can close something inside a folder that it opens (``filesystem``); its
``writable_roots`` cannot, so that ``_guard`` puts back what was changed there.

Whoever can write the index can register a nested repository in it, whose configuration ``git status`` on this host then
reads: no root prevents that.  ``_guard`` says so when it happens.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

_MOST: Final = 65536  # bytes of a `.git` file or of what points somewhere; more is none
_SHARED: Final = ("objects", "refs", "logs", "reftable", "lfs")  # of the common folder, where they are
_SHARED_DETACHED: Final = ("objects", "lfs")  # where no branch is to be moved
_POINTERS: Final = ("commondir", "gitdir")
_WORKTREE_CONFIG: Final = re.compile(rb"worktreeconfig", re.IGNORECASE)
_INCLUDES: Final = re.compile(rb"^\s*\[\s*include", re.IGNORECASE | re.MULTILINE)


Access: TypeAlias = Literal["read", "write"]


@dataclass(frozen=True, slots=True)
class GitRoots:
    """What a sandbox has to open for commits.

    Attributes:
        kind: of the repository that the working folder is in.
        roots: folders to open for writing; empty where a commit will be refused.
        closed: what stays read-only in them, whether it is there or not (``_guard`` sees to it that it is).
        reason: why a commit will be refused, a sentence for people; None if it will work, or there is no repository.
    """

    kind: Literal["none", "plain", "worktree"]
    roots: tuple[Path, ...] = ()
    closed: tuple[Path, ...] = ()
    reason: str | None = None

    @property
    def filesystem(self) -> dict[str, Access]:
        """Entries of a permission profile: ``{"/repo/.git": "write", "/repo/.git/config": "read", …}``."""
        opened: dict[str, Access] = {str(path): "write" for path in self.roots}
        closed: dict[str, Access] = {str(path): "read" for path in self.closed}
        return opened | closed


def git_roots(cwd: str | os.PathLike[str], *, open_plain: bool = False) -> GitRoots:
    """What a task in `cwd` needs for commits.

    Args:
        cwd: the working folder.
        open_plain: open ``.git`` of a plain repository too.  Under a permission profile its configuration and hooks
            stay closed; with ``writable_roots`` alone they do not, and a task can make git on this host run what it
            likes.  Either way branches, the index and the history are the task's to change.
    """
    folder = Path(os.path.realpath(cwd))
    for top in (folder, *folder.parents):
        entry = top / ".git"
        try:
            mode = entry.lstat().st_mode
        except OSError:
            continue
        if stat.S_ISLNK(mode):
            return _refused("plain", f"{entry} is a link")
        if stat.S_ISREG(mode):
            return _worktree(entry)
        if _is_git_folder(entry):
            return _plain(entry, open_plain=open_plain)
    return GitRoots("none")


def _plain(git: Path, *, open_plain: bool) -> GitRoots:
    if not open_plain:
        reason = (
            f"a commit will be refused: the sandbox keeps {git} read-only. Open it with git_writable, or give the task"
            " a linked worktree (`git worktree add`), where it can commit"
        )
        return GitRoots("plain", reason=reason)
    config = content(git / "config")
    if config is None:
        return _refused("plain", f"{git / 'config'} is no file that can be read")
    if _INCLUDES.search(config):
        return _refused("plain", f"{git / 'config'} includes other files, which would not be closed")
    if (content(git / "commondir") or b".").strip() != b".":
        return _refused("plain", f"{git / 'commondir'} leads to another repository")
    closed = ["commondir", "config", "hooks", *(name for name in ("modules", "worktrees") if (git / name).exists())]
    if (git / "config.worktree").exists() or _WORKTREE_CONFIG.search(config):
        closed.append("config.worktree")
    return _checked("plain", (git,), tuple(git / name for name in closed))


def _worktree(entry: Path) -> GitRoots:
    """Of a `.git` file: a linked worktree, whose administrative folder names this very file; or something else."""
    admin = _pointed(entry, b"gitdir:")
    if admin is None:
        return _refused("plain", f"{entry} is no file that git could have written")
    common = _pointed(admin / "commondir")
    if common is None:
        return _refused("plain", f"its git folder is {admin}, as in a submodule")
    if admin.parent != common / "worktrees" or _pointed(admin / "gitdir") != entry or not _is_git_folder(common):
        return _refused("worktree", f"{admin}, which {entry} names, does not belong to it")
    closed = [admin / name for name in _POINTERS]
    if (admin / "config.worktree").exists() or _WORKTREE_CONFIG.search(content(common / "config") or b""):
        closed.append(admin / "config.worktree")
    on_branch = (content(admin / "HEAD") or b"ref:").startswith(b"ref:")
    shared = _SHARED if on_branch else _SHARED_DETACHED
    roots = (admin, *(common / name for name in shared if (common / name).exists()))
    return _checked("worktree", roots, tuple(closed))


def _checked(kind: Literal["plain", "worktree"], roots: tuple[Path, ...], closed: tuple[Path, ...]) -> GitRoots:
    """Nothing that is opened or closed may be a link: what lies behind it would be opened, or not closed."""
    for path in (*roots, *closed):
        if os.path.realpath(path) != str(path):
            return _refused(kind, f"{path} is a link")
    for root in roots:
        if not os.access(root, os.W_OK, effective_ids=True):
            return _refused(kind, f"{root} is not yours to write in")
    return GitRoots(kind, roots, closed)


def reads_worktree_config(folder: Path) -> bool:
    """Whether git reads ``config.worktree`` of this git folder now."""
    common = folder.parent.parent if folder.parent.name == "worktrees" else folder
    return _WORKTREE_CONFIG.search(content(common / "config") or b"") is not None


def _refused(kind: Literal["plain", "worktree"], why: str) -> GitRoots:
    return GitRoots(kind, reason=f"a commit will be refused: {why}, and so it is not opened for the task")


def _is_git_folder(path: Path) -> bool:
    return all((path / name).exists() for name in ("HEAD", "objects", "refs"))


def _pointed(path: Path, word: bytes = b"") -> Path | None:
    """Where a file of git leads, relative to its own folder; without links on the way."""
    text = content(path)
    if text is None or not text.startswith(word) or not (target := text[len(word) :].strip()):
        return None
    return Path(os.path.realpath(path.parent / os.fsdecode(target))) if b"\0" not in target else None


def content(path: Path, most: int = _MOST) -> bytes | None:
    """The bytes of a regular file of at most `most`; None for a link, a pipe, a folder, nothing, or more."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_size > most:
                return None
            with open(fd, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(fd)
    except OSError:
        return None
