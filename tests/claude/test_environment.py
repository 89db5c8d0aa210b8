"""What the engine gets, and what the commands of a task get."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import anyio
import pytest

from subagent_claude_code import ClaudeCode, ClaudeCodeOptions
from subagent_claude_code._environment import engine_env, hand_on, write_env_file
from subagent_claude_code._home import Home
from subagent_process import child_env, throwaway_home
from subagents import StartError

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


def as_the_engine(engine: dict[str, str]) -> bytes:
    """What a command says that is started as 2.1.332 starts one."""
    setup = text(Path(engine["CLAUDE_ENV_FILE"])).strip()
    argv = [
        "/bin/bash",
        "-c",
        f"source /nowhere 2>/dev/null || true && {setup}\n: && eval 'echo ran' && pwd -P >| /dev/null",
    ]
    return subprocess.run(argv, env=engine, capture_output=True, timeout=20).stdout


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_commands_get_the_tools_environment_and_nothing_of_the_engines(tmp_path: Path) -> None:
    path = tmp_path / "tools.sh"
    engine = {"PATH": "/usr/bin:/bin", "HOME": "/engine", "ANTHROPIC_API_KEY": "sk", "WEIRD-NAME": "x"}
    tools = {"PATH": "/usr/bin:/bin", "HOME": "/tools", "ODD": "a'b $(id)\nc", "ALSO-WEIRD": "x"}
    write_env_file(path, engine, tools)
    assert path.stat().st_mode & 0o777 == 0o600
    seen = sourced(path, {**engine, "CLAUDE_CODE_MESSAGING_TOKEN": "t"})
    assert (seen["HOME"], seen["ODD"]) == ("/tools", "a'b $(id)\nc")
    assert not {"ANTHROPIC_API_KEY", "CLAUDE_CODE_MESSAGING_TOKEN", "ALSO-WEIRD"} & seen.keys()


async def test_commands_of_an_inherited_home_keep_the_persons_environment_without_what_is_the_engines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/theirs")
    monkeypatch.setenv("MY_VARIABLE", "passes")
    async with throwaway_home("claude", "own") as private:
        home = Home(None, private)
        engine = engine_env(ClaudeCodeOptions(home="inherit"), home, "sk", "1")
        hand_on(home, engine, {"HOME": "/tools"})
        # What their own settings gave the engine reaches commands through it.
        given = {**engine, "ANTHROPIC_AUTH_TOKEN": "t", "CLAUDE_CODE_OAUTH_TOKEN": "t"}
        seen = sourced(Path(engine["CLAUDE_ENV_FILE"]), given)
    theirs = child_env(passing=["CLAUDE_CONFIG_DIR"])
    assert theirs["MY_VARIABLE"] == "passes"
    assert {name: value for name, value in seen.items() if name not in ("_", "SHLVL", "PWD", "OLDPWD")} == {
        name: value for name, value in theirs.items() if name not in ("_", "SHLVL", "PWD", "OLDPWD")
    }


async def test_a_command_gets_what_tools_are_to_have_and_no_more() -> None:
    tools = {"PATH": "/usr/bin:/bin", "HOME": "/tools", "LANG": "C"}
    async with throwaway_home("claude", "own") as private:
        home = Home(private.path("claude"), private)
        engine = engine_env(ClaudeCodeOptions(base_url="http://127.0.0.1:1"), home, "sk", "1")
        hand_on(home, engine, tools)
        env_file = Path(engine["CLAUDE_ENV_FILE"])
        seen = sourced(env_file, {**engine, "CLAUDE_CODE_MESSAGING_SOCKET": "/s"})
        modes = {path.name: path.stat().st_mode & 0o777 for path in home.own.iterdir()}
        # The engine puts its text into arguments.
        assert text(env_file) == f". {home.own / 'tools.sh'} || exit\n"
    assert {name: value for name, value in seen.items() if name not in ("_", "SHLVL", "PWD")} == tools
    assert modes == {"env.sh": 0o600, "tools.sh": 0o600}


async def test_without_the_file_that_hides_the_key_no_command_runs() -> None:
    async with throwaway_home("claude", "own") as private:
        home = Home(private.path("claude"), private)
        engine = engine_env(ClaudeCodeOptions(base_url="http://127.0.0.1:1"), home, "sk", "1")
        hand_on(home, engine, {"PATH": "/usr/bin:/bin"})
        assert as_the_engine(engine) == b"ran\n"
        (home.own / "tools.sh").unlink()
        assert as_the_engine(engine) == b""


def test_a_value_of_any_bytes_and_length_arrives(tmp_path: Path) -> None:
    odd = 'a\'b "c" $(id) `id` \\\n\ttwo \udcff' + "x" * 500_000
    path = tmp_path / "tools.sh"
    write_env_file(path, {}, {"ODD": odd})
    argv = ["/bin/bash", "-c", 'source "$1"; printf %s "$ODD"', "x", str(path)]
    assert subprocess.run(argv, capture_output=True, check=True, timeout=20).stdout == os.fsencode(odd)


async def test_an_engine_that_takes_its_home_along_is_told_as_what_it_is(tmp_path: Path) -> None:
    """What commands get is still being found out then."""
    program = tmp_path / "claude"
    program.write_text(
        '#!/bin/sh\nif [ "$1" = --version ]; then echo "2.1.332 (Claude Code)"; else rm -rf "${HOME%/*}"; exit 3; fi\n'
    )
    program.chmod(0o755)
    provider = ClaudeCode(executable=program, base_url="http://127.0.0.1:1")
    with pytest.raises(StartError, match="exit code 3") as caught, anyio.fail_after(60):
        async with provider.start("x", cwd=tmp_path):
            pass
    assert (caught.value.failure.kind, caught.value.failure.stage) == ("launch", "start")
