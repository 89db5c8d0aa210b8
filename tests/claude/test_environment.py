"""What the engine gets, and what the commands of a task get."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from subagent_claude_code import ClaudeCodeOptions
from subagent_claude_code._environment import engine_env, write_env_file
from subagent_claude_code._home import Home
from subagent_process import throwaway_home

pytestmark = pytest.mark.anyio


async def test_a_home_of_ours_shows_the_engine_nothing_of_the_persons(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDECODE", "MY_VARIABLE", "CLAUDE_CONFIG_DIR"):
        monkeypatch.setenv(name, "canary")
    async with throwaway_home("claude", "own") as private:
        home = Home(private.path("claude"), private)
        found = engine_env(ClaudeCodeOptions(base_url="http://127.0.0.1:1", max_retries=7), home, "sk-x", "1")
        alone = engine_env(ClaudeCodeOptions(base_url="http://127.0.0.1:1"), home, None, "1")
        none = engine_env(ClaudeCodeOptions(home=Path("/x")), home, None, "1")
    assert "canary" not in found.values()
    assert found["HOME"] == str(private.root / "home")
    assert found["CLAUDE_CONFIG_DIR"] == str(private.root / "claude")
    assert (found["ANTHROPIC_API_KEY"], found["ANTHROPIC_BASE_URL"]) == ("sk-x", "http://127.0.0.1:1")
    assert found["CLAUDE_CODE_MAX_RETRIES"] == "7"
    assert alone["ANTHROPIC_API_KEY"] == "none"
    assert "ANTHROPIC_API_KEY" not in none


async def test_an_inherited_home_is_the_persons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/theirs")
    monkeypatch.setenv("MY_VARIABLE", "passes")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "does-not")
    async with throwaway_home("claude", "own") as private:
        found = engine_env(ClaudeCodeOptions(home="inherit"), Home(None, private), None, "1")
    assert (found["CLAUDE_CONFIG_DIR"], found["MY_VARIABLE"]) == ("/theirs", "passes")
    assert "ANTHROPIC_API_KEY" not in found


def sourced(path: Path, env: dict[str, str]) -> dict[str, str]:
    done = subprocess.run(
        ["/bin/bash", "-c", 'source "$1"; env -0', "x", str(path)], env=env, capture_output=True, check=True, timeout=20
    )
    return dict(entry.split("=", 1) for entry in done.stdout.decode().split("\0") if entry)


def test_commands_get_the_tools_environment_and_nothing_of_the_engines(tmp_path: Path) -> None:
    path = tmp_path / "tools.sh"
    engine = {"PATH": "/usr/bin:/bin", "HOME": "/engine", "ANTHROPIC_API_KEY": "sk", "WEIRD-NAME": "x"}
    tools = {"PATH": "/usr/bin:/bin", "HOME": "/tools", "ODD": "a'b $(id)\nc", "ALSO-WEIRD": "x"}
    write_env_file(path, engine, tools)
    assert path.stat().st_mode & 0o777 == 0o600
    seen = sourced(path, {**engine, "CLAUDE_CODE_MESSAGING_TOKEN": "t"})
    assert (seen["HOME"], seen["ODD"]) == ("/tools", "a'b $(id)\nc")
    assert not {"ANTHROPIC_API_KEY", "CLAUDE_CODE_MESSAGING_TOKEN", "ALSO-WEIRD"} & seen.keys()


def test_commands_of_an_inherited_home_keep_the_persons_environment_without_the_key(tmp_path: Path) -> None:
    path = tmp_path / "tools.sh"
    engine = {"PATH": "/usr/bin:/bin", "HOME": "/person", "ANTHROPIC_API_KEY": "sk", "MINE": "x"}
    write_env_file(path, engine, None)
    seen = sourced(path, engine)
    assert (seen["HOME"], seen["MINE"]) == ("/person", "x")
    assert "ANTHROPIC_API_KEY" not in seen
