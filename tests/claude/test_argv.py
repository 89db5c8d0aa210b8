"""The arguments that we build are those that the SDK would build for the same options."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from subagent_claude_code import ClaudeCodeOptions
from subagent_claude_code._argv import arguments, settings
from subagents import Task

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}

ROWS: dict[str, tuple[dict[str, Any], dict[str, Any], Path | None]] = {
    "bare": ({}, {}, None),
    "own": ({"home": "inherit", "model": "opus", "effort": "high"}, {}, None),
    "plan": ({"permission_mode": "plan"}, {}, None),
    "all": (
        {
            "model": "sonnet",
            "effort": "low",
            "permission_mode": "acceptEdits",
            "allowed_tools": ("Read", "Bash(git *)"),
            "disallowed_tools": ("WebFetch",),
            "home": "/somewhere",
        },
        {
            "model": "claude-sonnet-4-5",
            "effort": "max",
            "output_schema": SCHEMA,
            "tools": ("Read", "Bash"),
            "max_turns": 3,
            "budget": 0.5,
            "resume": "11111111-2222-4333-8444-555555555555",
        },
        Path("/private/instructions.md"),
    ),
    "no tools": ({}, {"tools": ()}, None),
}


@pytest.mark.parametrize("row", ROWS)
def test_the_sdk_would_say_the_same(row: str) -> None:
    sdk = pytest.importorskip("claude_agent_sdk")
    from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

    options, task, instructions = ROWS[row]
    given = settings(ClaudeCodeOptions(**options), Task("x", **task), instructions)
    theirs = SubprocessCLITransport(
        prompt="x", options=sdk.ClaudeAgentOptions(**{k: v for k, v in given.items() if v is not None})
    )
    cast("Any", theirs)._cli_path = "claude"
    assert ["claude", *arguments(given)] == cast("Any", theirs)._build_command()


def test_the_defaults_read_nobodys_settings_and_ask_us() -> None:
    found = arguments(settings(ClaudeCodeOptions(), Task("x"), None))
    assert found == [
        *("--output-format", "stream-json", "--verbose"),
        *("--permission-prompt-tool", "stdio", "--permission-mode", "default"),
        *("--include-partial-messages", "--strict-mcp-config", "--setting-sources="),
        *("--input-format", "stream-json"),
    ]


def test_an_inherited_home_reads_the_persons_settings_and_never_the_projects() -> None:
    found = arguments(settings(ClaudeCodeOptions(home="inherit"), Task("x"), None))
    assert "--setting-sources=user" in found
    assert "--strict-mcp-config" not in found
