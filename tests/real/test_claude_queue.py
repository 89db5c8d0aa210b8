"""Messages that are sent into a run, and turns that nobody of us asked for, on the real CLI."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from claude_kit import against, bash, prompts, told

from subagent_testing import ScriptedMessages, messages

pytestmark = pytest.mark.anyio
asyncio_alone = pytest.mark.parametrize("anyio_backend", ["asyncio"])


async def test_a_message_goes_into_the_turn_that_runs_at_its_next_step(work: Path) -> None:
    (work / "gate").mkdir()
    command = "while [ ! -e gate/open ]; do sleep 0.02; done; echo one"
    with ScriptedMessages([[bash(command)], "both"]) as api, anyio.fail_after(60):
        async with against(api).start("first", cwd=work, permission="allow") as run:
            await api.request(1)
            await run.send("second")
            (work / "gate" / "open").touch()
            result = await run.closed()
    assert result.output == "both"
    assert len(api.requests) == 2
    assert "second" in prompts(api)
    assert result.evidence.notes == ()


@asyncio_alone
async def test_a_message_during_an_answer_gets_a_turn_of_its_own(work: Path) -> None:
    with ScriptedMessages(["one", "two"]) as api, anyio.fail_after(60):
        async with against(api).start("first", cwd=work) as run:
            await run.send("second")
            result = await run.closed()
    assert result.output == "two"
    assert result.usage.input_tokens == 200
    assert result.evidence.notes == ()


@asyncio_alone
async def test_a_sub_agent_in_the_background_is_waited_for(work: Path) -> None:
    about = {"description": "a", "prompt": "SUB", "subagent_type": "general-purpose", "run_in_background": True}
    main = iter([[messages.tool_use("Agent", about)], "started it", "it is done"])

    def turn(body: dict[str, Any], n: int) -> messages.Turn:
        return "of the sub-agent" if "MAIN" not in json.dumps(body["messages"]) else next(main)

    with ScriptedMessages(turn) as api:
        found = await told(against(api), "MAIN", work, permission=lambda request: "allow")
    assert found.result.output == "it is done"


@asyncio_alone
async def test_a_schedule_that_lies_in_the_folder_is_not_carried_out(work: Path) -> None:
    (work / ".claude").mkdir()
    due: dict[str, Any] = {"id": "042575b1", "cron": "* * * * *", "prompt": "canary-cron", "recurring": True}
    due["createdAt"] = int(time.time() * 1000) - 600_000
    (work / ".claude" / "scheduled_tasks.json").write_text(json.dumps({"tasks": [due]}))
    with ScriptedMessages(["the answer"]) as api:
        found = await told(against(api), "the task", work)
    assert found.result.output == "the answer"
    assert "canary-cron" not in prompts(api)


@asyncio_alone
async def test_the_model_writes_no_memory_unasked(work: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    folder = home / "projects" / str(work).replace("/", "-") / "memory"
    step = messages.tool_use("Write", {"file_path": str(folder / "MEMORY.md"), "content": "remember\n"})
    with ScriptedMessages([[step], "done"]) as api:
        found = await told(against(api, home=home), "go", work)
    assert [request.beyond for request in found.asked] == [True]
    assert not (folder / "MEMORY.md").exists()
