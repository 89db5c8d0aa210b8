"""Repositories for the tests of what changed, and a marker that tells who ran a program."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import anyio

from subagent_workspace.changes import Changes, FileChange
from subagent_workspace.snapshots import Snapshot, snapshot

BOUND = 60  # s, for whatever is waited for
IDENTITY = {f"GIT_{who}_{what}": "t@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(folder: Path, *arguments: str | bytes, home: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Plain git, with nobody's configuration but that of ``home``."""
    person = str(home or "/nonexistent")
    whole = {"PATH": os.defpath, "HOME": person, "GIT_CONFIG_NOSYSTEM": "1", **IDENTITY, **(env or {})}
    argv = ["git", "-c", "protocol.file.allow=always", *arguments]
    done = subprocess.run(argv, cwd=folder, env=whole, check=True, capture_output=True, timeout=BOUND, text=True)
    return done.stdout.strip()


def repository(path: Path, files: dict[str, str] | None = None, *options: str) -> Path:
    """A new one with a first commit of these files; without any it has no commit yet."""
    path.mkdir(parents=True, exist_ok=True)
    git(path, "init", "-q", "-b", "main", *options)
    if files:
        write(path, files)
        git(path, "add", ".")
        git(path, "commit", "-q", "-m", "first")
    return path


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


async def before(folder: Path, *, content: bool = False, timeout: float = BOUND / 2) -> Snapshot:
    with anyio.fail_after(BOUND):
        seen = await snapshot(folder, content=content, timeout=timeout)
    assert seen is not None
    return seen


async def after(seen: Snapshot) -> Changes:
    with anyio.fail_after(BOUND):
        return await seen.changes()


async def changed(folder: Path, run: Callable[[], object], *, content: bool = False) -> Changes:
    """What a run did."""
    seen = await before(folder, content=content)
    run()
    return await after(seen)


def rows(changes: Changes) -> dict[str, str]:
    """Each file as one short text: status, lines, old name, `*` when committed."""
    return {change.path: _row(change) for change in changes.files}


def _row(change: FileChange) -> str:
    lines = "" if change.added is None else f" +{change.added} -{change.removed}"
    old = "" if change.old_path is None else f" from {change.old_path}"
    return change.status + lines + old + (" *" if change.committed else "")


class Marker:
    """A program that tells that it was run, and by which of its names."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "marker"
        self._folder = folder

    def program(self, name: str, then: str = "cat") -> str:
        """The path of one more such program; ``then`` is what it does after it has told."""
        path = self._folder / f"evil-{name}"
        path.write_text(f'#!/bin/sh\necho {name} >> "{self._file}"\n{then}\n')
        path.chmod(0o755)
        return str(path)

    def taken(self) -> set[str]:
        """Which ran since the last time."""
        names = set(self._file.read_text().split()) if self._file.exists() else set[str]()
        self._file.unlink(missing_ok=True)
        return names
