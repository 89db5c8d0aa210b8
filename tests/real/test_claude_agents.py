"""Sub-agents on the real Claude Code: what they may, who answers them, and that their steps are marked."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from claude_kit import Told, against, bash, names, told, write

from subagent_testing import ScriptedMessages, messages
from subagents import Permission, PermissionRequest

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

PROMPT = "You are the helper of the canary."


def granted(_: PermissionRequest) -> Literal["allow"]:
    return "allow"


def _script(work: Path, *, background: bool) -> Any:
    """The model starts the helper, and the helper writes in the folder and outside of it."""
    given = {"description": "d", "prompt": "go", "subagent_type": "helper", "run_in_background": background}
    main = [[messages.tool_use("Agent", given)], "the main answer"]
    helper = [[write(work / "in.txt")], [write(work.parent / "out.txt")], [bash("touch sh.txt")], "the helper's answer"]

    def turn(body: dict[str, Any], _: int) -> messages.Turn:
        said = sum(message["role"] == "assistant" for message in body["messages"])
        steps = helper if PROMPT in str(body["system"]) else main
        return steps[min(said, len(steps) - 1)]

    return turn


async def _helped(work: Path, permission: Permission, *, background: bool = False) -> tuple[Told, list[dict[str, Any]]]:
    """The run, and the bodies of the helper's requests."""
    helper = {
        "description": "helps with the canary",
        "prompt": PROMPT,
        "tools": ("Write", "Bash", "Edit"),
        "disallowed_tools": ("Edit",),
        "model": "haiku",
    }
    with ScriptedMessages(_script(work, background=background)) as api:
        found = await told(against(api, agents={"helper": helper}, model="opus"), "go", work, permission=permission)
        return found, [request.body for request in api.requests if PROMPT in str(request.body["system"])]


@pytest.mark.parametrize(
    ("permission", "there", "outside"),
    [
        ("reject", [], False),
        ("allow", ["in.txt", "sh.txt"], False),
        (granted, ["in.txt", "sh.txt"], True),
    ],
)
async def test_what_a_sub_agent_asks_is_answered_by_the_rule_of_the_run_and_marked_with_its_parent(
    work: Path, permission: Permission, there: list[str], outside: bool
) -> None:
    found, bodies = await _helped(work, permission)
    assert {tool["name"] for tool in bodies[0]["tools"]} == {"Write", "Bash"}
    assert "haiku" in bodies[0]["model"]
    agent, *steps = found.tools
    assert (agent.kind, agent.status, agent.parent) == ("think", "completed", None)
    assert [step.parent for step in steps] == [agent.id] * 3
    assert [(request.data["tool"], request.beyond) for request in found.asked] == [
        ("Write", False),
        ("Write", True),
        ("Bash", False),
    ]
    assert names(work) == there
    assert (work.parent / "out.txt").exists() is outside
    assert found.result.output == "the main answer"


async def test_a_sub_agent_in_the_background_is_waited_for(work: Path) -> None:
    found, _ = await _helped(work, "allow", background=True)
    assert found.result.output == "the main answer"
    assert names(work) == ["in.txt", "sh.txt"]
    agent, *steps = found.tools
    assert {step.parent for step in steps} == {agent.id}
    assert [event.parent for event in found.events if event.type == "text" and "helper" in event.text] == [agent.id]
    assert found.result.evidence.notes == ("1 step refused",)


async def test_the_model_is_told_of_an_agent_and_when_to_start_it(work: Path) -> None:
    agents = {"helper": {"description": "helps with the canary", "prompt": PROMPT}}
    with ScriptedMessages("done") as api:
        await told(against(api, agents=agents), "go", work)
    assert "helps with the canary" in api.requests[0].raw.decode()
