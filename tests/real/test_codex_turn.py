"""Turns on the real Codex: what is done is on disk, what is refused is in the result."""

from __future__ import annotations

from pathlib import Path

import pytest
from codex_kit import Told, against, names, patch, shell, shell_outputs, told

from subagent_testing import ScriptedResponses, responses

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("codex_binary")]


async def test_a_text_turn_is_told_piece_by_piece_and_answered(work: Path) -> None:
    script = [responses.reasoning("let me see"), responses.message("Hello there", chunks=3)]
    with ScriptedResponses([script]) as api:
        found = await told(against(api), "say hello", work)
    result = found.result
    assert (result.stop_reason, result.output) == ("completed", "Hello there")
    assert result.session is not None
    assert result.model == "gpt-5.5"
    assert (result.usage.input_tokens, result.usage.output_tokens) == (100, 20)
    assert (result.usage.cache_read_input_tokens, result.usage.reasoning_output_tokens) == (40, 5)
    assert "".join(e.text for e in found.events if e.type == "text") == "Hello there"
    assert "".join(e.text for e in found.events if e.type == "thought") == "let me see"
    assert found.events[0].type in ("notice", "started")
    process = result.evidence.process
    assert process is not None
    assert (process.clean, process.home_removed, process.steps) == (True, True, ("eof",))
    assert api.requests[0].headers["authorization"] == "Bearer sk-test-0123456789abcdef"


async def written(work: Path, sandbox: str) -> tuple[Told, ScriptedResponses]:
    script = [[shell("echo by shell > shell.txt")], [patch("patch.txt", "by patch")], "done"]
    with ScriptedResponses(script) as api:
        return await told(against(api, sandbox=sandbox), "write two files", work), api


@pytest.mark.parametrize("sandbox", ["workspace-write", "danger-full-access"])
async def test_what_the_model_writes_is_on_disk_and_told(work: Path, sandbox: str) -> None:
    found, _ = await written(work, sandbox)
    assert (work / "shell.txt").read_text() == "by shell\n"
    assert (work / "patch.txt").read_text() == "by patch\n"
    assert found.result.ok
    assert [(t.kind, t.status) for t in found.tools] == [("execute", "completed"), ("edit", "completed")]
    assert found.result.evidence.edits == 1
    assert found.result.evidence.notes == ()
    assert names(work) == ["patch.txt", "shell.txt"]


async def test_what_read_only_refuses_is_not_on_disk_and_is_visible_in_the_result(work: Path) -> None:
    found, api = await written(work, "read-only")
    assert names(work) == []
    assert "Read-only file system" in shell_outputs(api)[0]
    assert [(t.kind, t.status) for t in found.tools] == [("execute", "failed"), ("edit", "failed")]
    assert found.result.evidence.edits == 0
    (note,) = found.result.evidence.notes
    assert "2 steps were refused" in note
