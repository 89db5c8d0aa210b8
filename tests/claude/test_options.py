"""What a ClaudeCode can be told, and what is refused before anything starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import subagents
from subagent_claude_code import ClaudeCode, ClaudeCodeFields, ClaudeCodeOptions
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


def test_a_trailing_slash_of_an_address_is_dropped() -> None:
    assert ClaudeCodeOptions(base_url="http://127.0.0.1:1/").base_url == "http://127.0.0.1:1"
    assert ClaudeCodeOptions(model=None, base_url=None).base_url is None


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "a b"},
        {"effort": "extreme"},
        {"tools": ("--x",)},
        {"output_schema": {"type": "object", "description": "x" * 100_001}},
        {"output_schema": {"type": "nonsense"}},
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
