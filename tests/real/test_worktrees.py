"""A run in a worktree of its own, with the real engines: its commits get a branch, and no other one moves."""

from __future__ import annotations

from pathlib import Path

import claude_kit
import codex_kit
import pytest
from tools_kit import COMMIT, fill, git, repository

from subagent_testing import ScriptedMessages, ScriptedResponses
from subagents import Result

pytestmark = pytest.mark.anyio

HARM = (
    "common=$(git rev-parse --path-format=absolute --git-common-dir); git config core.fsmonitor ./evil;"
    ' echo "#!/bin/sh" > "$common/hooks/pre-commit"; git update-ref refs/heads/main HEAD; git branch -f main HEAD; true'
)


@pytest.fixture
def repo(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(fill(tmp_path / "person")))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return repository(work)


def check(result: Result, repo: Path, first: str) -> None:
    assert result.ok
    report = result.worktree
    assert report is not None
    assert report.branch is not None
    assert git(repo, "log", "-1", "--format=%s", report.branch).strip() == "by the task"
    assert git(repo, "rev-parse", "main").strip() == first
    assert git(repo, "status", "--porcelain") == ""
    assert result.changes is not None
    assert [(file.path, file.committed) for file in result.changes.files] == [("more.txt", True)]
    assert [commit.subject for commit in result.changes.commits] == ["by the task"]


@pytest.mark.usefixtures("codex_binary")
async def test_codex_commits_there_and_can_move_no_branch_of_the_persons(repo: Path) -> None:
    first = git(repo, "rev-parse", "main").strip()
    before = (repo / ".git" / "config").read_bytes()
    with ScriptedResponses([[codex_kit.shell(COMMIT)], [codex_kit.shell(HARM)], "done"]) as api:
        provider = codex_kit.against(api, sandbox="workspace-write")
        found = await codex_kit.told(provider, "work", repo, isolation="worktree")
    check(found.result, repo, first)
    assert (repo / ".git" / "config").read_bytes() == before
    assert not (repo / ".git" / "hooks" / "pre-commit").exists()


async def test_claude_code_commits_there(repo: Path) -> None:
    first = git(repo, "rev-parse", "main").strip()
    with ScriptedMessages([[claude_kit.bash(COMMIT)], "done"]) as api:
        provider = claude_kit.against(api)
        found = await claude_kit.told(provider, "work", repo, permission="allow", isolation="worktree")
    check(found.result, repo, first)
