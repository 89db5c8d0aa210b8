"""What is done in the folders of git before a task may write in them, and afterwards.

Before: what has to stay closed has to be there.  The engine closes what is missing by an empty file of its own, and an
empty ``commondir`` is the end of a repository, also on the host if the engine is killed meanwhile.  So a plain
repository gets a ``commondir`` that says ``.``, which changes nothing for git (2.39) but how it spells the way there,
an empty ``hooks`` folder and, where git would read it, an empty ``config.worktree``, which stays.

Whoever else uses the same repository, in another process too, holds a lock on that ``commondir``; the last one removes
it.  A harness that is killed leaves it behind, harmless, and the next run that opens the repository removes it.

Afterwards: under ``writable_roots`` nothing is closed, so the files that lead git to a configuration are put back as
they were; not ``config`` and ``hooks`` of a plain repository, which are open then.  And nested repositories that the
task has registered are named.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from subagent_codex._gitlinks import gitlinks
from subagent_codex._roots import GitRoots, content, reads_worktree_config

if TYPE_CHECKING:
    from collections.abc import Callable

_HERE: Final = b".\n"
_ATTEMPTS: Final = 100
_FILES: Final = ("commondir", "gitdir", "config.worktree")
_MOST: Final = 1 << 28  # bytes of an index that are looked at


class Guard:
    """The time in which a task may write in folders of git."""

    def __init__(self, roots: GitRoots, tell: Callable[[str], None], *, closed: bool) -> None:
        """For the time of a run.

        Args:
            roots: what is opened.
            tell: gets a sentence for people for each thing that the task should not have done.
            closed: the sandbox keeps closed what `roots` says: whatever changes there is the person's doing.
        """
        self._plain, self._tell, self._sealed = roots.kind == "plain", tell, closed
        self._folder = roots.roots[0] if roots.roots else None
        self._closed = {path.name: path for path in roots.closed}

    def __enter__(self) -> None:
        """Lay what is missing, remember the rest.

        Raises:
            OSError: nothing can be written in there.
        """
        if self._folder is None:
            return
        with ExitStack() as undo:
            if self._plain:
                commondir = self._closed["commondir"]
                self._lock = _lay_commondir(commondir)
                undo.callback(_take_commondir, commondir, self._lock)
                with suppress(FileExistsError):
                    self._closed["hooks"].mkdir()
            if config := self._closed.get("config.worktree"):
                with suppress(FileExistsError):
                    config.touch(exist_ok=False)  # it stays: another run may have found it there meanwhile
            undo.pop_all()
        watched = tuple(name for name in _FILES if name not in self._closed) if self._sealed else _FILES
        self._before = {path: content(path) for path in (self._folder / name for name in watched)}
        self._links = self._gitlinks(self._folder)

    def __exit__(self, *_: object) -> None:
        """Put back, remove what was laid, tell; never raises."""
        if self._folder is None:
            return
        for path, before in self._before.items():
            if content(path) == before if before is not None else not os.path.lexists(path):
                continue
            if self._sealed and reads_worktree_config(self._folder):  # the person has turned that on meanwhile
                self._tell(f"{path} has come during the run: look at it before you run git there")
            else:
                self._put_back(path, before)
        links = self._gitlinks(self._folder)
        if links is None and self._links is not None:
            self._tell(
                f"the index in {self._folder} cannot be looked at any more: see whether nested repositories are"
                " registered in it before you run git there, which would do what their configuration says"
            )
        if new := (links or frozenset()) - (self._links or frozenset()):
            self._tell(
                f"the task has registered nested repositories in the index ({', '.join(sorted(new))}): look at their"
                " configuration before you run git there, which would do what it says"
            )
        if self._plain and _take_commondir(self._closed["commondir"], self._lock):
            with suppress(OSError):
                self._closed["hooks"].rmdir()  # fails where there are hooks

    def _gitlinks(self, folder: Path) -> frozenset[str] | None:
        """In the index, and in what a split index shares; None where one of them cannot be read."""
        found: set[str] = set()
        try:
            for name in os.listdir(folder):
                if name == "index" or name.startswith("sharedindex."):
                    named = gitlinks(content(folder / name, _MOST))
                    if named is None:
                        return None
                    found |= named
        except OSError:
            return None
        return frozenset(found)

    def _put_back(self, path: Path, before: bytes | None) -> None:
        try:
            if before is None:
                path.unlink()
            else:
                _replace(path, before)
        except OSError as error:
            how = f"could not be put back: {error.strerror}. Do that before you run git there"
        else:
            how = "has been put back"
        self._tell(
            f"the task has changed {path}, by which it could lead git on this host to run its commands; it {how}"
        )


def _replace(path: Path, text: bytes) -> None:
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        with open(fd, "wb") as file:
            file.write(text)
        os.replace(draft, path)
    except OSError:
        draft.unlink()
        raise


def _lay_commondir(path: Path) -> int:
    """Have a ``commondir`` that says ``.``; the descriptor by which it is held.  Git never sees it half-written."""
    for attempt in range(_ATTEMPTS):  # the last one to leave may be removing it
        draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        try:
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            with open(fd, "wb") as file:
                file.write(_HERE)
            with suppress(FileExistsError):
                os.link(draft, path)
        finally:
            with suppress(OSError):
                draft.unlink()
        with suppress(FileNotFoundError):
            held = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            # A task that holds it against us costs no more than that it stays when nobody needs it any more.
            if (_locked(held, fcntl.LOCK_SH) or attempt + 1 == _ATTEMPTS) and _is(path, held):
                return held
            os.close(held)
    raise OSError(errno.EAGAIN, "it goes as often as it is made", str(path))


def _locked(held: int, how: int) -> bool:
    try:
        fcntl.flock(held, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _take_commondir(path: Path, held: int) -> bool:
    """Remove it, if nobody else holds it; whether it is gone."""
    try:
        if _locked(held, fcntl.LOCK_EX) and _is(path, held):
            path.unlink()
            return True
    except OSError:
        pass
    finally:
        os.close(held)
    return False


def _is(path: Path, held: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(held))
    except OSError:
        return False
