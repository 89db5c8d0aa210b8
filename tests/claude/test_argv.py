"""The arguments that we build are those that the SDK would build for the same options."""

from __future__ import annotations

import json
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
    "own, with tools": ({"home": "inherit", "mcp_servers": {"db": {"command": "x"}}}, {"tools": ("mcp__db",)}, None),
    "bypass": ({"permission_mode": "bypassPermissions", "allowed_tools": ("CronCreate",)}, {}, None),
}


@pytest.mark.parametrize("row", ROWS)
def test_the_sdk_would_say_the_same(row: str) -> None:
    sdk = pytest.importorskip("claude_agent_sdk")
    from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

    options, task, instructions = ROWS[row]
    given = settings(ClaudeCodeOptions(**options), Task("x", **task), instructions, Path("/private/servers.json"))
    theirs = SubprocessCLITransport(
        prompt="x", options=sdk.ClaudeAgentOptions(**{k: v for k, v in given.items() if v is not None})
    )
    cast("Any", theirs)._cli_path = "claude"
    assert ["claude", *arguments(given)] == cast("Any", theirs)._build_command()


def test_the_defaults_read_nobodys_settings_and_ask_us() -> None:
    found = arguments(settings(ClaudeCodeOptions(), Task("x"), None, None))
    assert found == [
        *("--output-format", "stream-json", "--verbose"),
        *("--disallowedTools", "ScheduleWakeup"),
        *("--permission-prompt-tool", "stdio", "--permission-mode", "default"),
        *("--settings", found[found.index("--settings") + 1]),
        *("--include-partial-messages", "--strict-mcp-config", "--setting-sources="),
        *("--input-format", "stream-json"),
    ]


def test_what_a_task_says_comes_before_what_the_provider_was_told() -> None:
    options = ClaudeCodeOptions(model="sonnet", effort="low")
    found = arguments(settings(options, Task("x"), None, None))
    assert (found[found.index("--model") + 1], found[found.index("--effort") + 1]) == ("sonnet", "low")
    found = arguments(settings(options, Task("x", model="opus", effort="max"), None, None))
    assert (found[found.index("--model") + 1], found[found.index("--effort") + 1]) == ("opus", "max")


def test_an_inherited_home_reads_the_persons_settings_and_never_the_projects() -> None:
    found = arguments(settings(ClaudeCodeOptions(home="inherit"), Task("x"), None, None))
    assert "--setting-sources=user" in found
    assert "--strict-mcp-config" not in found


def rules(**options: Any) -> dict[str, Any]:
    """What `--settings` says."""
    found = arguments(settings(ClaudeCodeOptions(**options), Task("x"), None, None))
    return json.loads(found[found.index("--settings") + 1])


def test_what_the_engine_would_do_unasked_is_asked_about_but_for_what_is_allowed_by_name() -> None:
    asked = rules()["permissions"]["ask"]
    assert {"EnterWorktree", "CronCreate", "SendMessage", "Agent(isolation:worktree)"} <= set(asked)
    fewer = rules(allowed_tools=("CronCreate", "Agent(isolation:worktree)"))["permissions"]["ask"]
    assert set(asked) - set(fewer) == {"CronCreate", "Agent(isolation:worktree)"}


def test_no_judge_and_no_other_server_decides() -> None:
    assert rules() == {"useAutoModeDuringPlan": False, "permissions": rules()["permissions"]}
    assert rules(base_url="http://x")["skipWebFetchPreflight"] is True
    assert rules(permission_mode="bypassPermissions")["permissions"] == {"ask": []}


def test_a_task_that_says_its_tools_leaves_the_persons_servers_out() -> None:
    found = arguments(settings(ClaudeCodeOptions(home="inherit"), Task("x", tools=("Read", "mcp__db")), None, None))
    assert found[found.index("--tools") + 1] == "Read"
    assert "--strict-mcp-config" in found
