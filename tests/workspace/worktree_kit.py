"""Repositories and worktrees of tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import anyio

from subagent_workspace import Worktree, add_worktree

BOUND = 60.0


def git(folder: Path | str, *arguments: str) -> str:
    whole = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e@example.org", *arguments]
    return subprocess.run(whole, check=True, capture_output=True, text=True).stdout.strip()


def repository_in(folder: Path) -> Path:
    """One with a commit, a file at its top and one below."""
    top = folder / "repo"
    (top / "pkg").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main", str(top))
    (top / "a.txt").write_text("one\n")
    (top / "pkg" / "b.txt").write_text("b\n")
    git(top, "add", ".")
    git(top, "commit", "-qm", "first")
    return top


async def made(folder: Path, where: Path | None, name: str = "x") -> Worktree:
    with anyio.fail_after(BOUND):
        return await add_worktree(folder, name=name, parent=where)
