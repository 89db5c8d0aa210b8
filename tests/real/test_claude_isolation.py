"""Whose settings the real Claude Code reads: with a home of ours nobody's, with the person's never the project's."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Literal

import anyio
import pytest
from claude_kit import KEY, against, bash, names, prompts, results, told

from subagent_claude_code import ClaudeCode
from subagent_testing import ScriptedMessages, messages
from subagents import PermissionRequest

pytestmark = pytest.mark.anyio
asyncio_alone = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@pytest.fixture
def baited(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the engine could read, each with a canary; the folder holds a file for each program that was started."""
    home, ran = tmp_path / "person", tmp_path / "ran"
    ran.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    for name in ("ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, "canary-variable")

    def settings(who: str) -> str:
        hook = {"hooks": [{"type": "command", "command": f"touch {ran}/hook-{who}"}]}
        return json.dumps({"hooks": {"SessionStart": [hook], "UserPromptSubmit": [hook]}, "env": {"X": "canary-env"}})

    def server(who: str) -> str:
        program = f"open({str(ran / f'server-{who}')!r}, 'w')"
        return json.dumps({"mcpServers": {who: {"command": sys.executable, "args": ["-c", program]}}})

    files = {
        home / ".claude" / "CLAUDE.md": "canary-person-memory",
        home / ".claude" / "settings.json": settings("person"),
        home / ".claude" / "skills" / "s" / "SKILL.md": "---\nname: s\ndescription: canary-skill\n---\n",
        home / ".claude" / "agents" / "a.md": "---\nname: a\ndescription: canary-agent\n---\n",
        home / ".claude.json": server("person"),
        work / "CLAUDE.md": "canary-project-memory",
        work.parent / "CLAUDE.md": "canary-above",
        work / ".claude" / "settings.json": settings("project"),
        work / ".claude" / "settings.local.json": settings("local"),
        work / ".claude" / "commands" / "c.md": "---\ndescription: canary-command\n---\nx",
        work / ".mcp.json": server("project"),
        work / ".env": "CANARY=canary-dotenv",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return ran


@asyncio_alone
async def test_a_home_of_ours_reads_nothing_of_anybodys(baited: Path, work: Path) -> None:
    with ScriptedMessages([[bash("env")], "done"]) as api:
        found = await told(against(api), "hi", work, permission="allow")
    assert found.result.ok
    assert "canary" not in prompts(api)
    assert names(baited) == []
    assert "canary" not in results(api)[0]
    assert {request.path.partition("?")[0] for request in api.requests} == {"/v1/messages"}


@asyncio_alone
async def test_the_instructions_of_the_project_are_read_where_they_are_asked_for(baited: Path, work: Path) -> None:
    (work / ".git").mkdir()
    with ScriptedMessages() as api:
        await told(against(api, project_instructions=True), "hi", work, instructions="also this")
    system = str(api.requests[0].body["system"])
    assert "canary-project-memory" in system
    assert "also this" in system
    assert set(re.findall(r"canary-[a-z-]+", prompts(api))) == {"canary-project-memory"}
    assert names(baited) == []


@asyncio_alone
async def test_a_pinned_home_reads_nothing_of_anybodys(baited: Path, work: Path, tmp_path: Path) -> None:
    with ScriptedMessages() as api:
        assert (await told(against(api, home=tmp_path / "pinned"), "hi", work)).result.ok
    assert "canary" not in prompts(api)
    assert names(baited) == []
    stored = [path.read_bytes() for path in (tmp_path / "pinned").rglob("*") if path.is_file()]
    assert not [text for text in stored if KEY.encode() in text]


@asyncio_alone
async def test_an_inherited_home_is_the_persons_and_never_the_projects(
    baited: Path, work: Path, tmp_path: Path
) -> None:
    helper = tmp_path / "person" / ".claude" / "settings.json"
    with ScriptedMessages([[bash("env")], "done"]) as api:
        given = json.loads(helper.read_text())
        given["env"] = {"ANTHROPIC_BASE_URL": api.base_url, "ANTHROPIC_API_KEY": KEY}
        helper.write_text(json.dumps(given))
        found = await told(ClaudeCode(home="inherit"), "hi", work, permission="allow")
    assert found.result.ok, found.result
    sent = prompts(api)
    assert "canary-person-memory" in sent
    assert "hook-person" in names(baited)
    for word in ("canary-project-memory", "canary-above", "canary-command"):
        assert word not in sent
    assert {name for name in names(baited) if "project" in name or "local" in name} == set()


@asyncio_alone
async def test_neither_key_nor_prompt_is_an_argument_of_anything(work: Path) -> None:
    seen: list[str] = []

    def look(_: PermissionRequest) -> Literal["reject"]:
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    line = Path("/proc", entry, "cmdline").read_bytes().decode(errors="replace")
                except OSError:
                    continue
                if "--permission-prompt-tool" in line:
                    seen.append(line)
        return "reject"

    with ScriptedMessages([[bash("touch x")], "done"]) as api:
        await told(against(api), "canary-prompt", work, permission=look, instructions="canary-instructions")
    assert seen
    assert not [line for line in seen if KEY in line or "canary" in line]


async def test_runs_with_one_pinned_home_wait_for_each_other(work: Path, tmp_path: Path) -> None:
    with ScriptedMessages([[messages.started(), messages.silence()], "done"]) as api, anyio.fail_after(60):
        provider = against(api, home=tmp_path / "pinned")
        async with provider.start("first", cwd=work) as first:
            await api.request(1)
            second = provider.start("second", cwd=work)
            async with anyio.create_task_group() as tasks:

                async def follow() -> None:
                    async with second:
                        assert (await second.closed()).output == "done"

                tasks.start_soon(follow)
                async for event in second.events():
                    if event.type == "notice" and event.code == "waiting":
                        break
                first.cancel()
