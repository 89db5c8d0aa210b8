"""The folder of one run: a worktree of its own where the task asks for one, and what the run changed in it.

Looked at before `drive` and after it has ended, so that nothing of the run can change it any more. Neither look decides
about the run: what could not be told stands in `Changes.unseen` or in the notes.
"""

from __future__ import annotations

import weakref
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, cast

from subagent_workspace import Changes, WorktreeReport
from subagents._result import Failure
from subagents._task import Task
from subagents.errors import StartError

if TYPE_CHECKING:
    from subagent_workspace import Snapshot, Worktree

LOOK: Final = 10.0
"""Seconds for each look."""
_MARGIN: Final = 5.0  # s in which a look that is late can still end git, and say so
_WORKTREE: Final = 60.0  # s to make one, and to find out what became of it
_SHARED: Final = "another run worked in this folder at the same time: its changes may be among these"

_at_work: dict[int, weakref.ref[Folder]] = {}
"""The folders in which runs of this process work now; weakly, since a run whose loop was closed over it says no end."""


class Folder:
    """The folder of one run.

    Attributes:
        changes: what the run did to it; None until `close`, and where nobody asked.
        worktree: what became of the worktree; None without one.
        notes: what a reader of the verdict should know.
    """

    def __init__(self, task: Task, name: str) -> None:
        self._task, self._name, self._path = task, name, PurePath(cast("str", task.cwd))
        self._snapshot: Snapshot | None = None
        self._worktree: Worktree | None = None
        self._shared = False
        self.changes: Changes | None = None
        self.worktree: WorktreeReport | None = None
        self.notes: tuple[str, ...] = ()

    @property
    def bound(self) -> float:
        """Seconds that `close` may take."""
        looks = LOOK * (self._snapshot is not None) + _WORKTREE * (self._worktree is not None)
        return looks + _MARGIN if looks else 0.0

    def untold(self, why: str) -> str:
        """What to say when `close` did not come to its end."""
        where = f"; it worked in {self._worktree.path}" if self._worktree is not None else ""
        return f"what the run changed in its folder could not be told: {why}{where}"

    async def open(self) -> Task:
        """Before the run: the task as `drive` is to see it.

        Raises:
            StartError: there can be no worktree.
        """
        task = self._task
        if task.isolation is not None:
            task = await self._separate()
        if task.changes is not False:
            from subagent_workspace import snapshot

            self._snapshot = await snapshot(cast("str", task.cwd), content=task.changes is True, timeout=LOOK)
            self._enter()
        return task

    async def _separate(self) -> Task:
        from subagent_workspace import WorkspaceError, add_worktree

        try:
            self._worktree = await add_worktree(self._path, name=self._name, timeout=_WORKTREE)
        except WorkspaceError as error:
            raise StartError(Failure("launch", "start", str(error))) from error
        self.notes += self._worktree.notes
        self._path = PurePath(self._worktree.folder)
        return replace(self._task, cwd=str(self._worktree.folder))

    def _enter(self) -> None:
        if self._snapshot is not None:
            self._path = PurePath(self._snapshot.root)
        for reference in list(_at_work.values()):  # in one step: other threads have runs too
            if (other := reference()) is None:
                continue
            if self._path.is_relative_to(other._path) or other._path.is_relative_to(self._path):
                self._shared = other._shared = True
        key = id(self)
        _at_work[key] = weakref.ref(self, lambda _: _at_work.pop(key, None))

    async def close(self, *, worked: bool) -> None:
        """After the run: see what it did.  It raises for nothing but cancellation, and ends within `bound`.

        Args:
            worked: the child had taken the work; otherwise there is nothing to look for.
        """
        _at_work.pop(id(self), None)
        if self._snapshot is not None and worked:
            self.changes = await self._snapshot.changes()
            if self._shared and (self.changes.files or self.changes.commits):
                self.notes += (_SHARED,)
        if self._worktree is not None:
            from subagent_workspace import finish_worktree

            self.worktree = await finish_worktree(self._worktree, timeout=_WORKTREE)
