"""Turns on the real Claude Code: what is done is on disk, what is refused is in the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from claude_kit import KEY, against, bash, kinds, names, prompts, results, told, write

from subagent_claude_code import ClaudeCode
from subagent_testing import ScriptedMessages, messages
from subagents import StartError

pytestmark = pytest.mark.anyio


async def test_a_text_turn_is_told_piece_by_piece_and_answered(work: Path) -> None:
    script = [[messages.thinking("let me see"), messages.text("Hello there", chunks=3)]]
    with ScriptedMessages(script) as api:
        found = await told(against(api), "say hello", work)
    result = found.result
    assert (result.stop_reason, result.output) == ("completed", "Hello there")
    assert result.session is not None
    assert result.model is not None
    assert (result.usage.input_tokens, result.usage.output_tokens) == (100, 20)
    assert result.cost_usd is not None
    assert "".join(e.text for e in found.events if e.type == "text") == "Hello there"
    assert "".join(e.text for e in found.events if e.type == "thought") == "let me see"
    assert [e.type for e in found.events if e.type == "notice"] == []
    process = result.evidence.process
    assert process is not None
    assert (process.clean, process.home_removed, process.steps) == (True, True, ("eof",))
    assert len(api.requests) == 1
    assert api.requests[0].headers["x-api-key"] == KEY


async def test_each_step_is_told_and_done(work: Path) -> None:
    script = [[write(work / "a.txt")], [bash("echo by shell > b.txt")], [bash("exit 3")], "done"]
    with ScriptedMessages(script) as api:
        found = await told(against(api), "work", work, permission="allow")
    assert names(work) == ["a.txt", "b.txt"]
    assert kinds(found.tools) == [("edit", "completed"), ("execute", "completed"), ("execute", "failed")]
    assert found.tools[2].exit_code == 3
    assert found.result.ok
    assert found.result.evidence.edits == 1


async def test_commands_have_the_persons_tools_and_not_the_key(work: Path) -> None:
    who = "-c user.name=n -c user.email=e@x"
    git = f"git init -q . && git {who} commit -q --allow-empty -m m && git log --oneline | wc -l"
    script = [[bash("env > env.txt")], [bash(git)], "done"]
    with ScriptedMessages(script) as api:
        await told(against(api), "work", work, permission="allow")
    seen = (work / "env.txt").read_text()
    assert KEY not in seen
    assert "ANTHROPIC_" not in seen
    assert "CLAUDE_CODE_MESSAGING" not in seen
    assert "/tools/home\n" in seen  # HOME of the tools, and not the engine's
    assert results(api)[1].strip() == "1"


async def test_nothing_in_a_prompt_is_an_order(work: Path) -> None:
    (work / "secret.txt").write_text("canary-in-a-file")
    with ScriptedMessages() as api:
        found = await told(against(api), f"/clear @{work}/secret.txt", work)
    assert found.result.output == "Hello from the script."
    assert f"/clear @{work}/secret.txt" in prompts(api)
    assert "canary-in-a-file" not in prompts(api)


async def test_instructions_of_any_length_go_beside_the_prompt(work: Path) -> None:
    with ScriptedMessages() as api:
        await told(against(api), "hi", work, instructions="speak like a canary " * 20_000)
    system = str(api.requests[0].body["system"])
    assert system.count("speak like a canary") == 20_000
    assert "Claude Code" in system


async def test_a_value_that_meets_the_schema_is_handed_over(work: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    with ScriptedMessages([[messages.tool_use("StructuredOutput", {"a": 5})], "done"]) as api:
        found = await told(against(api), "five", work, output_schema=schema)
    assert found.result.ok
    assert found.result.structured == {"a": 5}


async def test_a_schema_that_is_never_met_is_a_failure(work: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    with ScriptedMessages("just words") as api:
        found = await told(against(api), "five", work, output_schema=schema)
    assert found.result.failure is not None
    assert found.result.failure.kind == "output"


async def test_the_tools_of_a_task_are_those_that_the_model_gets(work: Path) -> None:
    with ScriptedMessages() as api:
        found = await told(against(api), "hi", work, tools=("Read", "TodoWrite"))
    offered = {tool["name"] for tool in api.requests[0].body["tools"]}
    assert offered - {"DeferredToolPlaceholder"} == {"Read"}  # the placeholder can do nothing
    assert found.notices("tools") == ["Claude Code does not offer to this model: TodoWrite"]


@pytest.mark.parametrize(
    ("fields", "kind"), [({"max_turns": 1}, "budget"), ({"budget": 0.0001}, "budget")], ids=["turns", "dollars"]
)
async def test_a_bound_that_is_reached_is_a_failure(work: Path, fields: dict[str, Any], kind: str) -> None:
    with ScriptedMessages([[bash("echo x")], [bash("echo y")], "done"]) as api:
        found = await told(against(api), "work", work, permission="allow", **fields)
    assert found.result.failure is not None
    assert (found.result.stop_reason, found.result.failure.kind) == ("error", kind)


async def test_a_lasting_home_goes_on_with_an_earlier_conversation(work: Path, tmp_path: Path) -> None:
    with ScriptedMessages(["blue it is", "you said blue"]) as api:
        provider = against(api, home=tmp_path / "home")
        first = await told(provider, "my colour is blue", work)
        again = await told(provider, "which?", work, resume=first.result.session)
    assert again.result.output == "you said blue"
    assert again.result.session == first.result.session
    assert "my colour is blue" in str(api.requests[1].body["messages"])


async def test_a_conversation_that_is_not_there_is_a_start_that_failed(work: Path, tmp_path: Path) -> None:
    with ScriptedMessages() as api:
        provider = against(api, home=tmp_path / "home")
        with anyio.fail_after(30), pytest.raises(StartError, match="No conversation found"):
            async with provider.start("hi", cwd=work, resume="11111111-2222-4333-8444-555555555555"):
                pass  # pragma: no cover
    assert api.requests == []


async def test_who_is_not_signed_in_is_told_before_anything_starts(work: Path) -> None:
    with anyio.fail_after(30), pytest.raises(StartError) as caught:
        async with ClaudeCode().start("hi", cwd=work):
            pass  # pragma: no cover
    assert caught.value.failure.kind == "auth"
