"""What a ClaudeCode can be told, and what is refused before anything starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import subagents
from subagent_claude_code import ClaudeCode, ClaudeCodeFields, ClaudeCodeOptions
from subagent_claude_code._agents import Agent, AgentFields
from subagent_claude_code._servers import HttpFields, HttpServer, StdioFields, StdioServer
from subagents import StartError, TaskError, Unsupported

ID = "11111111-2222-4333-8444-555555555555"


@pytest.mark.parametrize(
    "given",
    [
        {"permission_mode": "auto"},
        {"effort": "extreme"},
        {"model": "--resume"},
        {"base_url": "ftp://x"},
        {"base_url": "http://user:word@x"},
        {"base_url": "http://x", "home": "inherit"},
        {"api_key": "a b"},
        {"api_key": "a", "api_key_env": "B"},
        {"api_key_env": "sk-ant-1"},
        {"allowed_tools": ("--tools",)},
        {"allowed_tools": ("Bash(a\nb)",)},
        {"agents": {"a b": {"description": "d", "prompt": "p"}}},
        {"agents": {"a": {"description": "d"}}},
        {"agents": {"a": {"description": "d", "prompt": " "}}},
        {"agents": {"a": {"description": "d", "prompt": "p", "permission_mode": "bypassPermissions"}}},
        {"agents": {"a": {"description": "d", "prompt": "p", "model": "--x"}}},
        {"agents": {"a": {"description": "d", "prompt": "p", "max_turns": 0}}},
        {"mcp_servers": {"a__b": {"command": "x"}}},
        {"mcp_servers": {"a": {}}},
        {"mcp_servers": {"a": {"command": " "}}},
        {"mcp_servers": {"a": {"command": "x", "args": ["a\0b"]}}},
        {"mcp_servers": {"a": {"command": "x", "env": {"A": "sk-ant-1\0"}}}},
        {"mcp_servers": {"a": {"command": "x", "env": {"A=B": "sk-ant-1"}}}},
        {"mcp_servers": {"a": {"command": "x", "url": "http://x"}}},
        {"mcp_servers": {"a": {"url": "ftp://x"}}},
        {"mcp_servers": {"a": {"url": "http://x/${sk-ant-1}"}}},
        {"mcp_servers": {"a": {"url": "http://user:sk-ant-1@x"}}},
        {"mcp_servers": {"a": {"url": "http://x", "headers": {"A b": "sk-ant-1"}}}},
        {"mcp_servers": {"a": {"url": "http://x", "headers": {"A": "sk-ant-1\r\nB: c"}}}},
        {"mcp_servers": {"a": {"url": "http://x", "headers": {"A": "${sk-ant-1}"}}}},
        {"home": " "},
        {"max_refusals": 0},
        {"eof_grace": -1},
        {"nonsense": 1},
    ],
    ids=str,
)
def test_what_is_wrong_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        ClaudeCode(**given)
    assert "sk-ant" not in str(caught.value)


def test_the_keywords_are_the_fields() -> None:
    assert set(ClaudeCodeFields.__annotations__) == set(ClaudeCodeOptions.model_fields)
    for fields, model in ((AgentFields, Agent), (StdioFields, StdioServer), (HttpFields, HttpServer)):
        assert set(fields.__annotations__) == set(model.model_fields)


AGENT = {"description": "d", "prompt": "p"}
SERVER = {"db": {"command": "x"}}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"allowed_tools": ("Bsh",)}, "near it: Bash"),
        ({"disallowed_tools": ("WebFetsh(domain:x)",)}, "near it: WebFetch"),
        ({"disallowed_tools": ("WebFetch(localhost)",)}, "it is WebFetch"),
        ({"mcp_servers": {"ide": {"command": "x"}}}, "a server of Claude Code's own"),
        ({"mcp_servers": {"db": {"command": "x", "args": ("\ud800",)}}}, "half of a surrogate pair"),
        ({"mcp_servers": {"db": {"command": "x", "env": {"A": "\ud800"}}}}, "half of a surrogate pair"),
        ({"disallowed_tools": ("Write(secret/**)",)}, "would match nothing"),
        ({"disallowed_tools": ("Monitor(touch *)",)}, "would match nothing"),
        ({"disallowed_tools": ("mcp__db__say(x)",), "mcp_servers": {"db": {"command": "db"}}}, "would match nothing"),
        ({"allowed_tools": ("Glob(sub/**)",)}, "would match nothing"),
        ({"agents": {"a": {**AGENT, "tools": ("Wrote",)}}}, "near it: Write"),
        ({"agents": {"a": {**AGENT, "disallowed_tools": ("nothing-like-it",)}}}, "is no tool of Claude Code"),
        ({"allowed_tools": ("mcp__dp__query",), "mcp_servers": SERVER}, "near it: mcp__db"),
        ({"allowed_tools": ("mcp__db",)}, "a server that mcp_servers names"),
    ],
)
def test_a_tool_that_there_is_not_is_refused_with_what_is_near(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(told)):
        ClaudeCodeOptions(**options)


def test_a_tool_of_a_newer_claude_code_or_of_the_persons_servers_is_taken() -> None:
    ClaudeCode(executable="/opt/claude", allowed_tools=("Brandnew(x)",))
    ClaudeCode(home="inherit", allowed_tools=("mcp__mail__send", "mcp__mail__*"))
    allowed = ("mcp__db", "mcp__db__*", "mcp__db__query", "Task")
    ClaudeCode(mcp_servers={"db": {"command": "x"}}, allowed_tools=allowed)
    with pytest.raises(ValidationError, match="mcp_servers"):
        ClaudeCode(executable="/opt/claude", allowed_tools=("mcp__mail__send",))


def test_a_table_of_a_configuration_file_is_an_agent_or_a_server() -> None:
    found = ClaudeCodeOptions.model_validate(
        {
            "agents": {"reviewer": {**AGENT, "tools": ["Read"], "max_turns": "3"}},
            "mcp_servers": {"db": {"command": "x", "args": ["-q"], "env": {"A": "b"}}, "web": {"url": "http://x"}},
        }
    )
    assert found.agents["reviewer"] == Agent(description="d", prompt="p", tools=("Read",), max_turns=3)
    assert [type(server) for server in found.mcp_servers.values()] == [StdioServer, HttpServer]


def test_nothing_secret_of_a_server_is_shown() -> None:
    servers = {
        "db": {"command": "x", "env": {"A": "canary-1"}},
        "web": {"url": "http://x?key=canary-2", "headers": {"B": "canary-3"}},
    }
    found = ClaudeCodeOptions.model_validate({"mcp_servers": servers})
    assert "canary" not in f"{found!r} {found} {found.model_dump(exclude={'mcp_servers'})}"


def test_a_trailing_slash_of_an_address_is_dropped() -> None:
    assert ClaudeCodeOptions(base_url="http://127.0.0.1:1/").base_url == "http://127.0.0.1:1"
    assert ClaudeCodeOptions(model=None, base_url=None).base_url is None


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "a b"},
        {"effort": "extreme"},
        {"tools": ("--x",)},
        {"tools": ("Nonsense",)},
        {"tools": ("mcp__mail",)},
        {"output_schema": {"type": "object", "description": "x" * 100_001}},
        {"output_schema": {"type": "nonsense"}},
        {"output_schema": {"type": "array"}},
        {"resume": "--x"},
        {"resume": "{" + ID + "}"},
        {"prompt": "a\0b"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_task_that_it_cannot_take_is_refused_before_anything_starts(fields: dict[str, Any]) -> None:
    prompt = fields.pop("prompt", "x")
    with pytest.raises(TaskError):
        ClaudeCode(home="/somewhere").start(prompt, **fields)


def test_a_task_that_is_right_is_taken() -> None:
    fields: dict[str, Any] = {"model": "opus[1m]", "effort": "max", "tools": ("Read",), "resume": ID}
    ClaudeCode(home="/somewhere").start("x", **fields)


def test_a_task_names_servers_and_not_single_tools_of_them() -> None:
    provider = ClaudeCode(mcp_servers={"db": {"command": "x"}})
    provider.start("x", tools=("Read", "mcp__db"))
    with pytest.raises(TaskError, match="name mcp__db instead of 'mcp__db__query'"):
        provider.start("x", tools=("Read", "mcp__db__query"))


def test_what_lasts_no_longer_than_the_run_cannot_be_resumed() -> None:
    with pytest.raises(Unsupported):
        ClaudeCode().start("x", resume=ID)


def test_root_is_told_that_nothing_may_be_bypassed(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = ClaudeCode(permission_mode="bypassPermissions")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(TaskError, match="root"):
        provider.start("x")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    provider.start("x")


def test_neither_the_package_nor_a_provider_imports_the_sdk() -> None:
    code = "import subagent_claude_code as s, sys; s.ClaudeCode(); sys.exit('claude_agent_sdk' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_registry_makes_it_by_its_name() -> None:
    assert isinstance(subagents.create("claude-code"), ClaudeCode)


@pytest.mark.anyio
async def test_without_a_sign_in_nothing_starts(tmp_path: Path) -> None:
    pytest.importorskip("claude_agent_sdk")
    with pytest.raises(StartError) as caught:
        async with ClaudeCode().start("x", cwd=tmp_path):
            pass  # pragma: no cover
    assert caught.value.failure.kind == "auth"


@pytest.mark.anyio
async def test_a_variable_that_is_not_set_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_CLAUDE_KEY", raising=False)
    with pytest.raises(StartError, match="MY_CLAUDE_KEY"):
        async with ClaudeCode(api_key_env="MY_CLAUDE_KEY").start("x", cwd=tmp_path):
            pass  # pragma: no cover


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    import subagent_claude_code

    assert dir(subagent_claude_code) == ["ClaudeCode", "ClaudeCodeFields", "ClaudeCodeOptions"]
    with pytest.raises(AttributeError, match="Nonsense"):
        subagent_claude_code.Nonsense  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"home": "isolate"}, "isolated, inherit, or a path (./isolate)"),
        ({"home": "~nobody-of-that-name/x"}, "home"),
        ({"ready_timeout": 1e306}, "less than or equal to"),
    ],
)
def test_what_all_engines_refuse_is_refused_here_too(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ClaudeCodeOptions(**options)
    assert told in str(caught.value)


def test_an_agent_that_gets_no_tool_of_the_task_is_refused() -> None:
    claude = ClaudeCode(agents={"a": {"description": "d", "prompt": "p", "tools": ("Bash",)}})
    with pytest.raises(TaskError, match="may use Bash, and the task none of it"):
        claude.start("x", tools=("Read", "Agent"))
    claude.start("x", tools=("Bash", "Agent"))
    claude.start("x", tools=("Read",))  # no agent can start there


def test_an_agent_that_names_a_tool_of_a_server_shares_the_server_with_the_task() -> None:
    agent: AgentFields = {"description": "d", "prompt": "p", "tools": ("mcp__db__query",)}
    claude = ClaudeCode(agents={"a": agent}, mcp_servers={"db": {"command": "db"}})
    claude.start("x", tools=("mcp__db", "Agent"))
    with pytest.raises(TaskError, match="the task none of it"):
        claude.start("x", tools=("Read", "Agent"))
