"""The page about Claude Code says what is true: its examples run, in a home of a person with a scripted server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from claude_kit import KEY, bash, write

import subagents
from subagent_claude_code import ClaudeCodeOptions
from subagent_testing import ScriptedMessages

PAGE = (Path(__file__).parents[2] / "docs" / "claude-code.md").read_text(encoding="utf-8")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """The names of the page's examples, in a HOME of somebody."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    (tmp_path / "home" / ".claude").mkdir(parents=True)
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S):
        exec(block, names)
    return names


def speak_to(api: ScriptedMessages, tmp_path: Path) -> None:
    settings = {"env": {"ANTHROPIC_BASE_URL": api.base_url, "ANTHROPIC_API_KEY": KEY}}
    (tmp_path / "home" / ".claude" / "settings.json").write_text(json.dumps(settings))


def test_the_first_example_answers(page: dict[str, Any], tmp_path: Path, work: Path) -> None:
    with ScriptedMessages("It is empty.") as api:
        speak_to(api, tmp_path)
        assert page["explain"](str(work)) == "It is empty."


def test_the_callback_of_the_page_keeps_a_task_in_its_folder(
    page: dict[str, Any], tmp_path: Path, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside"
    script = [[write(work / "mended.txt")], [write(outside)], [bash(f"touch {work}/run")], "done"]
    with ScriptedMessages(script) as api:
        speak_to(api, tmp_path)
        result: subagents.Result = page["tidy"](str(work))
    assert result.ok
    assert [path.name for path in work.iterdir()] == ["mended.txt"]
    assert not outside.exists()
    assert capsys.readouterr().out.count("beyond the folder") == 1


def test_the_agent_and_the_server_of_the_page_are_taken(page: dict[str, Any], tmp_path: Path, work: Path) -> None:
    with ScriptedMessages("Mended.") as api:
        speak_to(api, tmp_path)
        result: subagents.Result = page["review"](str(work), "canary-of-a-token")
        assert result.output == "Mended."
        assert "Reviews a change" in api.requests[0].raw.decode()


def test_every_option_that_the_page_names_is_one() -> None:
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)[`=]", PAGE))
    fields = set(ClaudeCodeOptions.model_fields) | set(subagents.Task.__dataclass_fields__)
    assert named - fields - {"stop_reason", "retry_at"} == set()
    assert {"permission_mode", "home", "tool_home", "allowed_tools", "max_refusals"} <= fields
