"""MCP servers: what the engine is told of them, and what a server is started with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from subagent_claude_code import ClaudeCodeOptions
from subagent_claude_code._environment import write_env_file
from subagent_claude_code._servers import secrets_of, servers_of, write_servers

HOSTILE = "a'b\"c $(id) ${HOME} `id`\nnext\\"


def written(folder: Path, servers: dict[str, Any], **tools: str) -> dict[str, Any]:
    """What `--mcp-config` holds."""
    sourced = folder / "tools.sh"
    write_env_file(sourced, {"ANTHROPIC_API_KEY": "canary-key", "PATH": "x"}, {"HOME": "/tools", **tools})
    found = write_servers(folder, ClaudeCodeOptions.model_validate({"mcp_servers": servers}).mcp_servers, sourced)
    return json.loads(found.read_text())["mcpServers"]


def test_a_program_gets_its_own_variables_on_top_of_those_of_commands_and_not_the_key(tmp_path: Path) -> None:
    show = "import json, os, sys; print(json.dumps([dict(os.environ), sys.argv[1:]]))"
    server = {"command": sys.executable, "args": ["-c", show, HOSTILE, ""], "env": {"TOKEN": HOSTILE, "HOME": "/mine"}}
    told = written(tmp_path, {"db": server}, SHARED="yes")["db"]
    engine = {"ANTHROPIC_API_KEY": "canary-key", "CLAUDE_CODE_MESSAGING_TOKEN": "canary-token", "PATH": "/bin"}
    done = subprocess.run(
        [told["command"], *told["args"]], env=engine, capture_output=True, text=True, timeout=30, check=True
    )
    environment, arguments = json.loads(done.stdout)
    assert (environment["TOKEN"], environment["HOME"], environment["SHARED"]) == (HOSTILE, "/mine", "yes")
    assert arguments == [HOSTILE, ""]
    assert "canary" not in done.stdout


def test_the_engine_is_told_nothing_of_a_program_but_its_script(tmp_path: Path) -> None:
    told = written(tmp_path, {"db": {"command": "/opt/${HOME}", "args": ["--x"], "env": {"A": "canary"}}})
    assert told == {"db": {"type": "stdio", "command": "/bin/sh", "args": [str(tmp_path / "server-db.sh")]}}


def test_a_server_elsewhere_is_told_as_it_is(tmp_path: Path) -> None:
    told = written(tmp_path, {"w": {"type": "sse", "url": "https://x/y?k=1", "headers": {"Authorization": "Bearer z"}}})
    assert told == {"w": {"type": "sse", "url": "https://x/y?k=1", "headers": {"Authorization": "Bearer z"}}}


def test_nobody_else_can_read_what_is_written(tmp_path: Path) -> None:
    written(tmp_path, {"db": {"command": "x", "env": {"A": "canary"}}, "w": {"url": "http://x"}})
    names = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()}
    assert names == dict.fromkeys(("tools.sh", "server-db.sh", "servers.json"), "0o600")


def test_a_task_that_says_its_tools_gets_the_servers_that_it_names() -> None:
    given = {"a": {"command": "x", "env": {"A": "one"}}, "b": {"url": "http://x", "headers": {"B": "two"}}}
    servers = ClaudeCodeOptions.model_validate({"mcp_servers": given}).mcp_servers
    assert list(servers_of(servers, None)) == ["a", "b"]
    assert list(servers_of(servers, ("Read", "mcp__b"))) == ["b"]
    assert secrets_of(servers) == ["one", "two"]
