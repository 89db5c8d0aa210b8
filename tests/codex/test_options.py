"""What is wrong with an option is said before anything starts, and a key is never shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from subagent_codex import Codex, CodexOptions
from subagents import TaskError, Unsupported


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"sandbox": "workspace"}, "'read-only', 'workspace-write' or 'danger-full-access'"),
        ({"approval_policy": "on-failure"}, "'never', 'on-request' or 'untrusted'"),
        ({"model": "gpt 5"}, "no plain name"),
        ({"model": "--help"}, "no plain name"),
        ({"model": "a" * 129}, "at most 128"),
        ({"model": ""}, "no plain name"),
        ({"effort": "high\n"}, "no plain name"),
        ({"home": ""}, "not empty"),
        ({"home": "./a\0b"}, "null character"),
        ({"home": "isolate"}, "isolated, inherit, or a path (./isolate)"),
        ({"home": "Inherit"}, "isolated, inherit, or a path (./Inherit)"),
        ({"base_url": "ftp://x"}, "http"),
        ({"base_url": "http://u:p@x/v1"}, "api_key"),
        ({"base_url": "http://x/v1?key=1"}, "api_key"),
        ({"api_key": "has blank"}, "without blanks"),
        ({"api_key": "a", "api_key_env": "B"}, "not both"),
        ({"api_key_env": "sk-1"}, "name of a variable"),
        ({"network_access": True}, "needs sandbox='workspace-write'"),
        ({"git_writable": True, "sandbox": "danger-full-access"}, "needs sandbox='workspace-write'"),
        ({"home": "inherit", "api_key": "sk-1"}, "is your own sign-in"),
        ({"home": "~nobody-of-that-name/x"}, "home"),
        ({"stream_idle_timeout": 1e306}, "less than or equal to"),
        ({"home": "inherit", "web_search": True}, "your own configuration decides about web_search"),
        ({"home": "inherit", "tool_home": "private"}, "your own configuration decides about tool_home"),
        ({"home": "inherit", "stream_max_retries": 0}, "your own configuration decides about stream_max_retries"),
        ({"max_refusals": 0}, "greater than or equal to 1"),
        ({"eof_grace": float("inf")}, "finite"),
        ({"ready_timeout": 0}, "greater than 0"),
        ({"nonsense": 1}, "Extra inputs"),
    ],
)
def test_a_wrong_option_says_what_is_allowed(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Codex(**options)
    assert told in str(caught.value)


def test_a_wrong_key_is_not_shown_in_the_error_and_a_right_one_in_no_repr() -> None:
    with pytest.raises(ValidationError) as caught:
        CodexOptions.model_validate({"api_key": "sk-canary canary"})
    assert "canary" not in str(caught.value)
    provider = Codex(api_key="sk-canary-2")
    assert "canary" not in f"{provider.options!r} {provider.options} {vars(provider)}"


def test_a_pinned_home_is_absolute_whatever_the_child_takes_as_its_folder(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert CodexOptions(home=Path("ch")).home == tmp_path / "ch"
    assert CodexOptions.model_validate({"home": "~/ch"}).home == Path.home() / "ch"


def test_retries_are_ours_to_set_where_the_model_server_is_ours() -> None:
    options = CodexOptions(home="inherit", base_url="http://127.0.0.1:1/v1", stream_max_retries=0)
    assert options.stream_max_retries == 0


def test_only_a_home_that_lasts_can_resume() -> None:
    assert "resume" not in Codex().capabilities
    assert "resume" in Codex(home="inherit").capabilities
    with pytest.raises(Unsupported, match="resume"):
        Codex().start("x", resume="thread")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"prompt": "x" * 1_048_577}, "1,048,576"),
        ({"prompt": "a\0b"}, "null character"),
        ({"model": "a b"}, "no plain name"),
        ({"effort": "{}"}, "no plain name"),
        ({"cwd": "/does/not/exist"}, "/does/not/exist"),
        ({"tools": ("bash",)}, "tools"),
        ({"max_turns": 3}, "max_turns"),
    ],
)
def test_a_wrong_task_is_refused_by_start_and_nothing_was_started(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(TaskError, match=re.escape(told)):
        Codex().start(fields.pop("prompt", "x"), **fields)


def test_a_prompt_of_the_longest_length_is_taken() -> None:
    Codex().start("é" * 1_048_576)
