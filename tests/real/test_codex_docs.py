"""The page about Codex says what is true: its examples run, with a person's home that speaks to a scripted server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from codex_kit import shell

import subagents
from subagent_codex import CodexOptions
from subagent_testing import ScriptedResponses

PAGE = (Path(__file__).parents[2] / "docs" / "codex.md").read_text(encoding="utf-8")

CONFIG = """
model = "gpt-5.5"
model_provider = "mine"
[model_providers.mine]
name = "mine"
base_url = "{url}"
wire_api = "responses"
supports_websockets = false
"""


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """The names of the page's examples, in a HOME of somebody."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    (tmp_path / "home" / ".codex").mkdir(parents=True)
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S):
        exec(block, names)
    return names


def speak_to(api: ScriptedResponses, tmp_path: Path) -> None:
    (tmp_path / "home" / ".codex" / "config.toml").write_text(CONFIG.format(url=api.base_url))


@pytest.mark.usefixtures("codex_binary")
def test_the_first_example_answers(page: dict[str, Any], tmp_path: Path, work: Path) -> None:
    with ScriptedResponses("It is empty.") as api:
        speak_to(api, tmp_path)
        assert page["explain"](str(work)) == "It is empty."


@pytest.mark.usefixtures("codex_binary")
def test_the_callback_of_the_page_keeps_a_task_in_its_sandbox(
    page: dict[str, Any], tmp_path: Path, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside"
    inside = shell("touch tested; rm -f nothing")
    leaving = shell(f"touch {outside}", sandbox_permissions="require_escalated")
    with ScriptedResponses([[inside], [leaving], "done"]) as api:
        speak_to(api, tmp_path)
        result: subagents.Result = page["tidy"](str(work))
    assert result.ok
    assert (work / "tested").exists()
    assert not outside.exists()
    assert capsys.readouterr().out.count("beyond the sandbox") == 1


def test_every_option_that_the_page_names_is_one() -> None:
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)[`=]", PAGE))
    fields = set(CodexOptions.model_fields) | set(subagents.Task.__dataclass_fields__)
    others = {"stop_reason", "retry_at", "request_user_input", "env_key"}
    assert named - fields - others == set()
    assert {"sandbox", "home", "tool_home", "git_writable", "max_refusals"} <= fields
