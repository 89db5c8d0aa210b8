"""What a follower of the real Claude Code sees beside text and steps: the plan, repeated requests, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from claude_kit import against, told, write

from subagent_testing import ScriptedMessages, messages
from subagents import PlanEntry, PlanEvent

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


async def test_the_things_to_do_are_a_plan(work: Path) -> None:
    script = [
        [messages.tool_use("TaskCreate", {"subject": "read", "description": "d"})],
        [messages.tool_use("TaskCreate", {"subject": "write", "description": "d"})],
        [messages.tool_use("TaskUpdate", {"taskId": "1", "status": "completed"})],
        [messages.tool_use("TaskUpdate", {"taskId": "2", "status": "in_progress", "subject": "write it"})],
        [messages.tool_use("TaskUpdate", {"taskId": "9", "status": "completed"})],
        [messages.tool_use("TaskUpdate", {"taskId": "1", "status": "deleted"})],
        "done",
    ]
    with ScriptedMessages(script) as api:
        found = await told(against(api, model="claude-sonnet-4-5"), "work", work)  # one that gets these tools
    assert [event.entries for event in found.events if isinstance(event, PlanEvent)] == [
        (PlanEntry("read"),),
        (PlanEntry("read"), PlanEntry("write")),
        (PlanEntry("read", "completed"), PlanEntry("write")),
        (PlanEntry("read", "completed"), PlanEntry("write it", "in_progress")),
        (PlanEntry("write it", "in_progress"),),
    ]


async def test_a_request_that_is_repeated_is_told(work: Path) -> None:
    with ScriptedMessages([messages.status(529), "done"]) as api:
        found = await told(against(api, max_retries=1), "work", work)
    assert found.result.output == "done"
    assert found.notices("retry") == ["attempt 1 of 1 failed: overloaded"]


async def test_a_step_that_claude_code_refuses_by_itself_is_told_and_counted(work: Path) -> None:
    with ScriptedMessages([[write(work / "a.txt")], "done"]) as api:
        found = await told(against(api, permission_mode="dontAsk"), "work", work)
    (notice,) = found.notices("refused")
    assert notice.startswith("Write was refused: ")
    assert found.result.evidence.notes == ("1 step refused",)


async def test_nothing_that_claude_code_says_in_a_plain_run_is_unknown(work: Path) -> None:
    with ScriptedMessages([[write(work / "a.txt")], "done"]) as api:
        found = await told(against(api), "work", work, permission="allow")
    assert [event for event in found.events if event.type == "notice"] == []
