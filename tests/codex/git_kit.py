"""Repositories for the tests of what is opened in them."""

from __future__ import annotations

import subprocess
from pathlib import Path

ALONE = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "T",
    "GIT_AUTHOR_EMAIL": "t@x",
    "GIT_COMMITTER_NAME": "T",
    "GIT_COMMITTER_EMAIL": "t@x",
}


def git(folder: Path, *arguments: str) -> str:
    argv = ["git", "-c", "protocol.file.allow=always", *arguments]
    done = subprocess.run(argv, cwd=folder, env=ALONE, check=True, capture_output=True, timeout=30, text=True)
    return done.stdout


def repository(path: Path, *options: str) -> Path:
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main", *options)
    git(path, "commit", "-q", "--allow-empty", "-m", "first")
    return path


def worktree(of: Path, path: Path) -> Path:
    git(of, "worktree", "add", "-q", "-b", "side", str(path))
    return path


def listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}
