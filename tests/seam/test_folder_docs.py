"""The code in docs/working-folder.md."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from subagent_testing import Scripted, scripted

PAGE = Path(__file__).parents[2] / "docs" / "working-folder.md"


@pytest.fixture
def names() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for block in re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8")):
        exec(compile(block, str(PAGE), "exec"), found)
    return found


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    top = tmp_path / "repo"
    top.mkdir()
    (top / "a.txt").write_text("one\n")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@example.org", *arguments], cwd=top, check=True)
    return top


def test_what_changed_is_printed(names: dict[str, Any], repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names["tidy"](Scripted(scripted.writes({"a.txt": "two\n"})), str(repository))
    assert capsys.readouterr().out == "modified a.txt +1 -1\n"


def test_a_worktree_is_told_and_cleared(
    names: dict[str, Any], repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert names["apart"](Scripted(scripted.completes()), str(repository)) is None
    branch = names["apart"](Scripted(scripted.writes({"a.txt": "two\n"})), str(repository))
    assert branch.startswith("subagents/")
    assert "+two" in capsys.readouterr().out
    names["clear_all"](str(repository))
    assert "holds 1 change that is not committed" in capsys.readouterr().out
    folder = repository.parent / "state" / "subagents" / "worktrees"
    (path,) = folder.iterdir()
    (path / "a.txt").write_text("one\n")
    names["clear_all"](str(repository))
    assert not [*folder.iterdir()]
