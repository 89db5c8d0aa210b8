"""A repository and those within it, looked at.

A clean file is known by its id in git's trees, so nothing of it is read; what git shows as changed or new is.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from ._fingerprint import Budget, State, fingerprints
from ._git import Clock, GitError, Repository, open_repository
from ._status import Status, read_status

__all__ = [
    "Look",
    "ask_either",
    "ask_status",
    "in_thread",
    "is_there",
    "look_at",
    "nested_in",
    "read",
    "read_in_thread",
]

_NESTED: Final = 20
_STATUS: Final = (
    "status", "--porcelain=v2", "-z", "--branch", "--no-ahead-behind", "--untracked-files=all", "--ignored=no",
    "--ignore-submodules=dirty",
)  # fmt: skip

T = TypeVar("T")


async def in_thread(call: Callable[[], T], clock: Clock) -> T:
    """Run what reads files, and leave it behind when the time is over: a file system can hang.

    Raises:
        GitError: it is over.
    """
    with anyio.move_on_after(clock.left):
        return await anyio.to_thread.run_sync(call, abandon_on_cancel=True)
    raise GitError(f"the files had not been read when the {clock.limit:g} s for it were over")


async def read_in_thread(
    root: str, paths: Iterable[str], clock: Clock, notes: list[str], algorithm: str | None
) -> dict[str, State]:
    """``fingerprints`` of these, with half of the time that is left; what was not read is said in ``notes``."""
    budget = Budget(clock.left / 2)
    wanted = sorted(set(paths))
    states = await in_thread(partial(fingerprints, root, wanted, budget, algorithm), clock) if wanted else {}
    notes += budget.notes()
    return states


@dataclass(slots=True)
class Look:
    """A repository at one moment.

    Attributes:
        top: its working tree.
        began: the time of the look, in whole seconds since 1970: commits have no finer one.
        status: what git showed.
        states: the files that git showed, where they are there.
        nested: the repositories within; None: one that could not be looked at.
        notes: what was not looked at.
    """

    top: str
    began: int
    status: Status
    states: dict[str, State]
    nested: dict[str, Look | None] = field(default_factory=dict[str, "Look | None"])
    notes: list[str] = field(default_factory=list[str])


async def look_at(folder: str, clock: Clock) -> Look | None:
    """The repository around a folder and those within it, before a run; None where there is none.

    Raises:
        GitError: there is one that cannot be looked at.
    """
    return await _look(folder, clock, [_NESTED])


async def _look(folder: str, clock: Clock, room: list[int], *, nested: bool = False) -> Look | None:
    if (repository := await open_repository(folder, clock)) is None:
        return None
    if nested and repository.top != folder:
        raise GitError("its .git is none that git can read")
    began, notes = int(time.time()), list[str]()
    status = await ask_status(repository, clock)
    states = await read_in_thread(repository.top, status.entries, clock, notes, repository.algorithm)
    look = Look(repository.top, began, status, states, notes=notes)
    for path in await nested_in(repository, status, clock, notes):
        look.nested[path] = None
        if not room[0]:
            notes.append(f"{path}/: a repository of its own, one more than the {_NESTED} that are looked at")
            continue
        room[0] -= 1
        try:
            inner = await _look(os.path.join(repository.top, path), clock, room, nested=True)
        except GitError as error:
            notes.append(f"{path}/: {error}")
        else:
            look.nested[path] = inner
            notes += [f"{path}/{note}" for note in inner.notes] if inner else []
    return look


async def ask_status(repository: Repository, clock: Clock, *ways: str) -> Status:
    """What git shows as changed or new.

    Args:
        repository: which is asked.
        clock: the time for it.
        ways: how renames are looked for, the best first; without any, not at all.

    Raises:
        GitError: it cannot be told.
    """
    return read(read_status, await ask_either(repository, clock, _STATUS, *ways, "--no-renames"))


async def ask_either(
    repository: Repository, clock: Clock, question: tuple[str, ...], *ways: str, rest: tuple[str, ...] = ()
) -> bytes:
    """The first of several ways that git can go: a partial clone may lack what it has to compare for a rename.

    Raises:
        GitError: none goes.
    """
    for way in ways[:-1]:
        with suppress(GitError):
            return await repository.ask(clock, *question, way, *rest)
    return await repository.ask(clock, *question, ways[-1], *rest)


def read(reader: Callable[[bytes], T], answer: bytes) -> T:
    """An answer of git, read.

    Raises:
        GitError: it is none that ``reader`` knows.
    """
    try:
        return reader(answer)
    except (ValueError, StopIteration) as error:
        raise GitError(f"an answer of git was not understood: {error!r}") from error


async def nested_in(
    repository: Repository, status: Status, clock: Clock, notes: list[str], also: Iterable[str] = ()
) -> list[str]:
    """The repositories within that are checked out, by path: new ones, submodules, and those of ``also``."""
    paths, modules = status.nested.union(also), os.path.join(repository.top, ".gitmodules")
    if _is_file(modules):
        try:
            answer = await repository.ask(clock, "config", "--file", ".gitmodules", "--no-includes", "-z", "--list")
        except GitError as error:
            notes.append(f".gitmodules: {error}")
        else:
            settings = (os.fsdecode(item).partition("\n") for item in answer.split(b"\0"))
            paths |= {path for name, _, path in settings if name.startswith("submodule.") and name.endswith(".path")}
    return sorted(path for path in paths if _is_within(repository.top, path))


def is_there(top: str, path: str) -> bool:
    """Whether anything has this name."""
    return os.path.lexists(os.path.join(top, path))


def _is_file(path: str) -> bool:
    return os.path.lexists(path) and stat.S_ISREG(os.lstat(path).st_mode)


def _is_within(top: str, path: str) -> bool:
    """Whether a repository is there, in this place and not behind a link."""
    whole = os.path.join(top, path)
    clean = (
        bool(path) and "\0" not in path and os.path.normpath(whole) == whole and whole.startswith(os.path.join(top, ""))
    )
    return clean and os.path.lexists(os.path.join(whole, ".git")) and os.path.realpath(whole) == whole
