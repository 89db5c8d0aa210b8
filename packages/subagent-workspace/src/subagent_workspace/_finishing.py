"""What became of a worktree: kept on a branch of its own, or removed because nothing is in it.

The run could write in the worktree and in what belongs to it, so nothing there is believed that would lead to another
repository: its ``.git`` must be the file that was there at the beginning, and git must find the same folders. Before
anything is removed, what git was told not to show is looked for: files that the index is to overlook, other rules of
what is ignored, commits that no branch has.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from ._git import Clock, GitError, Repository, open_repository
from ._look import ask_status, is_there
from ._status import Status
from .changes import WorktreeReport
from .worktrees import BRANCHES, Worktree, folders_of, pointer_of, remove, rules_of

__all__ = ["finish_worktree"]

_DIFF: Final = 1024 * 1024  # bytes of a diff that are kept
_READ: Final = 64 * 1024 * 1024  # bytes of a diff that are read
_RECALLED: Final = 1000  # entries of the reflog
_DIFFERENCE: Final = (
    "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--submodule=short",
    "--ignore-submodules=dirty", "--src-prefix=a/", "--dst-prefix=b/", "--unified=3",
)  # fmt: skip
_AMID: Final = ("rebase-merge", "rebase-apply", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG")
_ARGUMENTS: Final = 524_288  # characters of paths in one call
_ID: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


async def finish_worktree(worktree: Worktree, *, timeout: float = 60.0) -> WorktreeReport:
    """After the run: put it on its branch, or remove it where nothing is in it.

    Raises for nothing but cancellation; where git cannot be asked, the folder stays and the notes say why.
    """
    ending = _Ending(worktree, Clock(timeout))
    try:
        return await ending.report()
    except (GitError, OSError) as error:
        return ending.kept(str(error))


class _Ending:
    """The steps of one ending."""

    def __init__(self, worktree: Worktree, clock: Clock) -> None:
        self._worktree, self._clock = worktree, clock
        self._notes: list[str] = []

    def kept(self, *notes: str) -> WorktreeReport:
        """The folder stays as it is."""
        return WorktreeReport(self._worktree.path, None, self._worktree.base, notes=(*self._notes, *notes))

    async def report(self) -> WorktreeReport:
        worktree = self._worktree
        if not is_there(worktree.path, ""):
            return await self._gone()
        if pointer_of(worktree.path) != worktree.pointer:
            return self.kept(f"{worktree.path}/.git was replaced during the run: it is left alone")
        repository = await open_repository(worktree.path, self._clock)
        if repository is None or repository.top != worktree.path:
            return self.kept(f"{worktree.path} is no worktree any more: it is left alone")
        if await folders_of(repository, self._clock) != (worktree.git_dir, worktree.common_dir):
            return self.kept(f"{worktree.path} leads to another repository since the run: it is left alone")
        status = await ask_status(repository, self._clock)
        overlooked = await self._overlooked(repository)
        if status.head == worktree.base and not status.entries and not status.nested:
            if not overlooked and rules_of(worktree.git_dir, worktree.common_dir) == worktree.rules:
                return await self._remove(repository)
            self._notes.append(
                f"the run told git to overlook {overlooked[0]}"
                if overlooked
                else "the rules of what is ignored were changed during the run, so that the folder is kept"
            )
        # The diff first: on another branch other configuration may count.
        diff, cut = await self._diff(repository, status, overlooked)
        branch = await self._branch(repository, status.head)
        await self._ask(repository, "worktree", "unlock", worktree.path)
        return WorktreeReport(worktree.path, branch, worktree.base, status.head, diff, cut, tuple(self._notes))

    async def _overlooked(self, repository: Repository) -> list[str]:
        """Files of which git was told that they do not change, and that are there."""
        answer = os.fsdecode(await self._ask(repository, "ls-files", "-v", "-z"))
        flagged = (entry[2:] for entry in answer.split("\0") if entry[:1].islower() or entry[:1] == "S")
        return [path for path in flagged if is_there(repository.top, path)]

    async def _remove(self, repository: Repository) -> WorktreeReport:
        """Nothing is in the folder; commits that the run left again get the branch."""
        worktree = self._worktree
        recalled = set((await self._text(repository, "rev-list", "-g", f"--max-count={_RECALLED}", "HEAD")).split())
        lost = sorted(recalled - {worktree.base})
        tip = await self._text(repository, "rev-list", "-1", *lost, "--not", "--all", worktree.base) if lost else ""
        source = await open_repository(worktree.repository, self._clock) or repository
        report = WorktreeReport(None, None, worktree.base, worktree.base)
        if tip:
            report = await self._rescued(source, tip, "the run left its commits again: they are on the branch")
        await remove(source, worktree.path, self._clock)
        return report

    async def _gone(self) -> WorktreeReport:
        """The run removed the folder; what it committed is still there for a while."""
        worktree = self._worktree
        note = f"{worktree.path} was removed during the run"
        source = await open_repository(worktree.repository, self._clock)
        head = _head_of(worktree)
        if source is None or head == worktree.base or not _ID.fullmatch(head):
            return WorktreeReport(None, None, worktree.base, notes=(note,))
        return await self._rescued(source, head, f"{note}; its commits are on the branch")

    async def _rescued(self, source: Repository, tip: str, note: str) -> WorktreeReport:
        worktree, branch = self._worktree, f"{BRANCHES}{self._worktree.name}"
        await self._ask(source, "update-ref", f"refs/heads/{branch}", tip, "")
        answer = await source.ask(self._clock, *_DIFFERENCE, worktree.base, tip, limit=_READ)
        return WorktreeReport(None, branch, worktree.base, tip, *_cut(answer), (note,))

    async def _branch(self, repository: Repository, head: str | None) -> str | None:
        """The branch on which it stands: that of the run, else a new one at its commit."""
        try:
            symbolic = await self._text(repository, "symbolic-ref", "-q", "HEAD")
        except GitError:  # it is detached
            symbolic = ""
        if symbolic.startswith("refs/heads/"):  # the run made one, or took one
            return symbolic.removeprefix("refs/heads/")
        if head is None:
            return None
        branch = f"{BRANCHES}{self._worktree.name}"
        try:
            await self._ask(repository, "update-ref", f"refs/heads/{branch}", head, "")
            if amid := [name for name in _AMID if is_there(self._worktree.git_dir, name)]:
                self._notes.append(f"the run left something unfinished there ({', '.join(amid)}): HEAD stays detached")
            else:
                await self._ask(repository, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
        except GitError as error:
            self._notes.append(f"the branch {branch} could not be made: {error}")
            return None
        return branch

    async def _diff(self, repository: Repository, status: Status, overlooked: list[str]) -> tuple[str, bool]:
        """From the base to what stands there, through an index and a store of objects of our own: nothing is written.

        Not by `git add`, which starts git in each submodule.
        """
        try:
            objects = await self._text(repository, "rev-parse", "--path-format=absolute", "--git-path", "objects")
            index = await self._text(repository, "rev-parse", "--path-format=absolute", "--git-path", "index")
            with tempfile.TemporaryDirectory(prefix="subagents-") as own:
                apart = repository.with_env(_apart(own, index, objects))
                for flag in ("--no-assume-unchanged", "--no-skip-worktree"):  # git takes one at a time
                    for paths in _in_parts(overlooked):
                        await self._ask(apart, "update-index", flag, "--", *paths)
                changed = sorted({*status.entries, *overlooked} - status.nested)
                there = {path for path in changed if is_there(repository.top, path)}
                # What is gone first: its folder may be a file now.
                await self._update(apart, ("--force-remove",), [path for path in changed if path not in there])
                await self._update(apart, ("--add", "--replace"), [path for path in changed if path in there])
                await self._update(apart, ("--add", "--replace"), sorted(status.nested), at_once=False)
                answer = await apart.ask(self._clock, *_DIFFERENCE, "--cached", self._worktree.base, limit=_READ)
        except (GitError, OSError) as error:
            self._notes.append(f"no diff could be made: {error}")
            return "", False
        return _cut(answer)

    async def _update(self, apart: Repository, how: tuple[str, ...], paths: list[str], *, at_once: bool = True) -> None:
        """Take these into the index; one that git does not take (a FIFO, a repository without a commit) is told."""
        for part in _in_parts(paths) if at_once else ([path] for path in paths):
            try:
                await self._ask(apart, "update-index", *how, "--", *part)
            except GitError as error:
                if len(part) > 1:
                    await self._update(apart, how, part, at_once=False)
                else:
                    self._notes.append(f"{part[0]} is not in the diff: {error}")

    async def _ask(self, repository: Repository, *arguments: str) -> bytes:
        return await repository.ask(self._clock, *arguments)

    async def _text(self, repository: Repository, *arguments: str) -> str:
        return os.fsdecode(await self._ask(repository, *arguments)).removesuffix("\n")


def _head_of(worktree: Worktree) -> str:
    """What git remembers of a worktree whose folder is gone."""
    try:
        return Path(worktree.git_dir, "HEAD").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return worktree.base


def _cut(diff: bytes) -> tuple[str, bool]:
    return diff[:_DIFF].decode("utf-8", "replace"), len(diff) > _DIFF


def _in_parts(paths: Iterable[str]) -> Iterator[list[str]]:
    """As many at once as fit into the arguments of a program."""
    part: list[str] = []
    for path in paths:
        if part and sum(map(len, part)) + len(path) > _ARGUMENTS:
            yield part
            part = []
        part.append(path)
    if part:
        yield part


def _apart(own: str, index: str, objects: str) -> Mapping[str, str]:
    """The variables with which git writes to a folder of our own, which begins with a copy of the index."""
    if os.path.exists(index):
        shutil.copy2(index, os.path.join(own, "index"))  # with its time: git tells by it which entries to doubt
    os.mkdir(os.path.join(own, "objects"))
    return {
        "GIT_INDEX_FILE": os.path.join(own, "index"),
        "GIT_OBJECT_DIRECTORY": os.path.join(own, "objects"),
        # In quotes, as git reads a list: a folder may have a colon in its name.
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": '"' + objects.replace("\\", "\\\\").replace('"', '\\"') + '"',
    }
