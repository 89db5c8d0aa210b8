"""`home="inherit"` on the real Claude Code: the person's sign-in and settings are used, and never the project's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from claude_kit import Told, bash, prompts, results, told
from isolation_claude import ClaudeBaits, asked
from isolation_kit import CANARIES, MARK, repository, words

from subagent_claude_code import ClaudeCode
from subagent_testing import ScriptedMessages

pytestmark = pytest.mark.anyio

THEIRS = "sk-ant-of-the-person-31415926"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # whose settings are used does not depend on the loop


@pytest.fixture
def api() -> Iterator[ScriptedMessages]:
    with ScriptedMessages([[bash("env; echo END")], "done"]) as api:
        yield api


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: ScriptedMessages) -> Path:
    """A person who has signed in with an API key, and has settings of their own."""
    home = tmp_path / "person"
    signed_in(home / ".claude", api)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return home


def signed_in(folder: Path, api: ScriptedMessages, key: str = THEIRS, **settings: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    env = {"ANTHROPIC_BASE_URL": api.base_url, "ANTHROPIC_API_KEY": key}
    (folder / "settings.json").write_text(json.dumps({"env": env, **settings}))
    (folder / "CLAUDE.md").write_text("bait-their-memory")


async def inherited(work: Path, **options: Any) -> Told:
    found = await told(ClaudeCode(home="inherit", **options), "work", work, permission="allow")
    assert found.result.ok, found.result
    return found


async def test_their_sign_in_and_settings_are_used_and_stay_as_they_are(
    work: Path, person: Path, api: ScriptedMessages, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)
    before = (person / ".claude/settings.json").read_bytes()
    await inherited(work)
    assert {r.headers["x-api-key"] for r in api.requests} == {THEIRS}
    assert words(prompts(api)) == {"bait-their-memory"}
    assert (person / ".claude/settings.json").read_bytes() == before
    (said,) = results(api)
    assert "END" in said
    assert MARK not in said  # their secrets in variables stay away also then
    assert THEIRS not in said


async def test_the_hooks_and_servers_of_their_settings_run_and_nothing_of_the_project(
    work: Path, person: Path, api: ScriptedMessages, tmp_path: Path
) -> None:
    repository(work)
    baits = ClaudeBaits(tmp_path / "ran")
    baits.project(work)
    (person / ".claude.json").write_text(baits.servers("their-mcp"))
    signed_in(person / ".claude", api, hooks={"SessionStart": [baits.hook("their-hook")]})
    await inherited(work)
    assert words("".join(asked(api))) == {"bait-their-memory"}
    assert baits.ran == ["their-hook", "their-mcp"]


@pytest.mark.long
async def test_the_instructions_of_the_project_may_be_read_beside_them(
    work: Path, person: Path, api: ScriptedMessages, tmp_path: Path
) -> None:
    repository(work)
    baits = ClaudeBaits(tmp_path / "ran")
    baits.project(work)
    await inherited(work, project_instructions=True)
    read = words("".join(asked(api)))
    assert read == {"bait-their-memory", "bait-project-claude", "bait-project-memory"}
    assert baits.ran == []


@pytest.mark.long
async def test_their_variable_that_names_the_home_counts(
    work: Path, person: Path, api: ScriptedMessages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_in(tmp_path / "elsewhere", api, "sk-ant-of-elsewhere-2718281828")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "elsewhere"))
    await inherited(work)
    assert {r.headers["x-api-key"] for r in api.requests} == {"sk-ant-of-elsewhere-2718281828"}
    assert f"CLAUDE_CONFIG_DIR={tmp_path}/elsewhere\n" in results(api)[0]
