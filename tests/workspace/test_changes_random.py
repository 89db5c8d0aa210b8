"""Whatever a person and a run do, what is told is what differs: held against reading every file before and after."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest
from changes_kit import after, before, git, repository, write

from subagent_workspace.changes import FileChange

NAMES = ["a", "b", "c", "d/e", "d/f", "g h", "é"]
TEXTS = ["one\n", "two\n1\n2\n3\n4\n", "three\n1\n2\n3\n4\n", "\0four", ""]


def contents(repo: Path) -> dict[str, tuple[str, bytes]]:
    """Every file: its kind and what is in it."""
    found: dict[str, tuple[str, bytes]] = {}
    for path in repo.rglob("*"):
        name = str(path.relative_to(repo))
        if path.is_symlink():
            found[name] = ("link", os.fsencode(path.readlink()))
        elif path.is_file() and not name.startswith(".git/"):
            found[name] = ("program" if path.stat().st_mode & 0o100 else "file", path.read_bytes())
    return found


def act(repo: Path, chance: random.Random) -> None:
    """One thing that somebody does; what git refuses is not done."""
    name, other = chance.sample(NAMES, 2)
    path = repo / name
    there = path.is_symlink() or path.exists()
    match chance.randrange(12):
        case 0 | 1 | 2:
            path.unlink(missing_ok=True)
            write(repo, {name: chance.choice(TEXTS)})
        case 3:
            path.unlink(missing_ok=True)
        case 4 if there:
            (repo / other).parent.mkdir(exist_ok=True)
            path.rename(repo / other)
        case 5 if there and not path.is_symlink():
            path.chmod(chance.choice([0o644, 0o755]))
        case 6:
            path.unlink(missing_ok=True)
            path.parent.mkdir(exist_ok=True)
            path.symlink_to(chance.choice(["a", "nowhere"]))
        case kind:
            argv = {
                7: ["add", "--", name],
                8: ["add", "-A"],
                9: ["rm", "-q", "--cached", "--", name],
                10: ["commit", "-qm", "some"],
                11: ["checkout", "-q", "--", name],
            }.get(kind, ["mv", "--", name, other])
            try:
                git(repo, *argv)
            except subprocess.CalledProcessError:
                return


def _paths(change: FileChange) -> set[str]:
    return {change.path, change.old_path or change.path}


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(8, 100))])
async def test_what_is_told_is_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    chance = random.Random(seed)
    repo = repository(tmp_path / "repo", {name: chance.choice(TEXTS) for name in NAMES[: chance.randrange(7)]})
    for _ in range(chance.randrange(8)):
        act(repo, chance)
    old, head, seen = contents(repo), git(repo, "rev-parse", "--quiet", "--branches"), await before(repo)
    for _ in range(chance.randrange(1, 12)):
        act(repo, chance)
    new, changes = contents(repo), await after(seen)

    differs = {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}
    told = {path for change in changes.files for path in _paths(change)}
    committed = {path for change in changes.files if change.committed for path in _paths(change)}
    assert (told - committed, differs - told) == (differs - committed, set())
    assert changes.unseen == ()
    assert bool(changes.commits) == (git(repo, "rev-parse", "--quiet", "--branches") != head)
    for change in changes.files:
        status = {(False, True): "added", (True, False): "deleted", (True, True): "modified"}
        if change.old_path:
            assert (change.status, change.path in new) == ("renamed", True)
        elif change.path in differs:
            assert change.status == status[change.path in old, change.path in new]
