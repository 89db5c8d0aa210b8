"""What a look before and a look after cost, beside one `git status` on the same tree of 100,000 files.

Goal: the pair at most 3 times `git status`, in a clean tree and with 20 changed files.  That a clean tree costs no
hashing is held by a test.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import anyio

from benchmarks._measure import side_by_side
from subagent_process import child_env
from subagent_workspace.snapshots import snapshot

FOLDERS, FILES = 1000, 100
IDENTITY = {f"GIT_{who}_{what}": "t@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
ENV = child_env(set={"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **IDENTITY})


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, env=ENV, check=True, stdout=subprocess.DEVNULL)


def tree(root: Path) -> None:
    long_ago = time.time() - 1000  # git reads again what is no older than its index
    for number in range(FOLDERS):
        folder = root / f"folder{number:04}"
        folder.mkdir()
        for name in range(FILES):
            (folder / f"file{name:03}.txt").write_text(f"{number} {name}\n" * 5)
            os.utime(folder / f"file{name:03}.txt", (long_ago, long_ago))
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "all")
    git(root, "status")


def timed(call: Callable[[], object]) -> Callable[[], float]:
    def measure() -> float:
        began = time.perf_counter()
        call()
        return (time.perf_counter() - began) * 1e3

    return measure


def looks(root: Path, expected: int) -> Callable[[], float]:
    """Both looks in a loop that runs already and whose supervisors are up."""

    async def pair() -> float:
        first = await snapshot(root / "folder0000", timeout=60)
        assert first
        began = time.perf_counter()
        before = await snapshot(root, timeout=60)
        assert before
        if expected:
            (root / "folder0000" / "file000.txt").write_text("the run wrote this\n")
        changes = await before.changes()
        taken = time.perf_counter() - began
        assert len(changes.files) == expected, changes
        assert not changes.unseen, changes
        if expected:
            git(root, "checkout", "-q", "folder0000/file000.txt")
        return taken * 1e3

    return lambda: anyio.run(pair)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(os.path.realpath(folder))
        tree(root)
        status = timed(lambda: git(root, "status"))
        side_by_side(
            "a clean tree of 100,000 files", "ms", {"git status": status, "both looks": looks(root, 0)}, rounds=7
        )
        for number in range(10):
            (root / f"folder{number + 100:04}" / "file000.txt").write_text("the person's own\n" * 100)
            (root / f"folder{number + 100:04}" / "new.txt").write_text("the person's own\n" * 100)
        side_by_side(
            "20 changed files, one more by the run",
            "ms",
            {"git status": status, "both looks": looks(root, 1)},
            rounds=7,
        )


if __name__ == "__main__":
    main()
