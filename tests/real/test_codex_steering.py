"""What is said into a running turn of the real Codex reaches the model, or is told to be lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from codex_kit import against, shell

from subagent_codex._session import Session
from subagent_testing import ScriptedResponses, responses
from subagents import NoticeEvent, PermissionRequest, Run, RunEnded

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("codex_binary")]

Steer: TypeAlias = Callable[[Session, str, str, str], Awaitable[None]]


class Steered:
    """Tells when the engine has answered what was said, and lets a test say when, and to which turn, it is said."""

    def __init__(self) -> None:
        self.may = anyio.Event()
        self.turn: str | None = None
        self.changed = anyio.Event()
        self.answered = 0

    async def times(self, count: int) -> None:
        while self.answered < count:
            self.changed = anyio.Event()
            await self.changed.wait()

    def around(self, real: Steer) -> Steer:
        async def steer(session: Session, thread: str, turn: str, text: str) -> None:
            await self.may.wait()
            try:
                await real(session, thread, self.turn or turn, text)
            finally:
                self.answered += 1
                self.changed.set()

        return steer


@pytest.fixture
def steered(monkeypatch: pytest.MonkeyPatch) -> Steered:
    found = Steered()
    found.may.set()
    monkeypatch.setattr(Session, "steer", found.around(Session.steer))
    return found


def users(body: dict[str, Any]) -> list[str]:
    """What the model is told in the user's name, after the environment."""
    said = [part["text"] for item in body["input"] if item.get("role") == "user" for part in item["content"]]
    return [text for text in said if not text.startswith("<environment_context>")]


async def test_what_is_said_into_a_turn_reaches_the_model_in_order(work: Path, steered: Steered) -> None:
    """Each message with a request of its own, the first with the next one."""
    hold = responses.silence()
    script = [[responses.message("first", chunks=1), hold], "last"]
    said = ["also this", 'and\n"that"', "ünd 💡"]
    with ScriptedResponses(script) as api, anyio.fail_after(30):
        async with against(api).start("work", cwd=work) as run:
            await api.request()
            for text in said:
                await run.send(text)
            await steered.times(3)
            hold.release()
            result = await run.result()
        heard = [users(request.body) for request in api.requests]
    assert (heard[0], heard[1][:2], heard[-1]) == (["work"], ["work", "also this"], ["work", *said])
    assert (result.stop_reason, result.output) == ("completed", "last")


@pytest.mark.long
async def test_what_is_said_while_a_command_runs_comes_after_its_output(work: Path, steered: Steered) -> None:
    wait = shell("until [ -e go ]; do sleep 0.02; done; echo went")
    with ScriptedResponses([[wait], "done"]) as api, anyio.fail_after(30):
        async with against(api).start("work", cwd=work) as run:
            async for event in run.events():
                if event.type == "tool":
                    break
            await run.send("hurry")
            await steered.times(1)
            (work / "go").touch()
            await run.result()
        last = api.requests[1].body["input"][-2:]
    assert [item["type"] for item in last] == ["function_call_output", "message"]
    assert "went" in str(last[0])
    assert last[1]["content"][0]["text"] == "hurry"


async def test_what_is_said_before_the_task_is_accepted_waits_for_its_turn(work: Path, steered: Steered) -> None:
    hold = responses.silence()
    with ScriptedResponses([[responses.message("first"), hold], "done"]) as api, anyio.fail_after(30):
        run = against(api).start("work", cwd=work)
        await run.send("early")
        async with run:
            await steered.times(1)
            hold.release()
            found = [event async for event in run.events()]
        assert users(api.requests[1].body) == ["work", "early"]
    assert not [e for e in found if isinstance(e, NoticeEvent) and e.code == "send"]


@pytest.mark.long
async def test_who_is_asked_may_answer_with_words(work: Path, steered: Steered) -> None:
    """No to the command, and what to do instead."""
    runs: list[Run] = []

    async def person(request: PermissionRequest) -> str:
        await runs[0].send("move it away instead")
        await steered.times(1)
        return "reject"

    with ScriptedResponses([[shell("rm -rf kept")], "done"]) as api, anyio.fail_after(30):
        provider = against(api, sandbox="workspace-write", approval_policy="on-request")
        runs.append(provider.start("work", cwd=work, permission=person))  # pyright: ignore[reportArgumentType]
        async with runs[0] as run:
            assert (await run.result()).ok
        assert users(api.requests[1].body) == ["work", "move it away instead"]


async def test_what_is_said_when_the_turn_has_just_ended_is_noted(work: Path, steered: Steered) -> None:
    """It was sent in time, and came too late."""
    hold = responses.silence()
    steered.may = anyio.Event()
    with ScriptedResponses([[responses.message("done"), hold]]) as api, anyio.fail_after(30):
        async with against(api).start("work", cwd=work) as run:
            await run.send("one more thing")
            await run.send("and another")
            hold.release()
            assert (await run.result()).output == "done"
            steered.may.set()
            result = await run.closed()
    assert len(result.evidence.notes) == 2
    assert all("a message did not reach the turn: " in note for note in result.evidence.notes)
    assert "no active turn to steer" in result.evidence.notes[0]
    assert result.evidence.events_late == 0


@pytest.mark.long
async def test_what_the_engine_refuses_is_a_notice_and_the_run_goes_on(work: Path, steered: Steered) -> None:
    hold = responses.silence()
    steered.turn = "another-turn"
    with ScriptedResponses([[responses.message("done"), hold]]) as api, anyio.fail_after(30):
        async with against(api).start("work", cwd=work) as run:
            await run.send("lost")
            await steered.times(1)
            hold.release()
            found = [event async for event in run.events()]
            assert (await run.closed()).ok
    (notice,) = [e for e in found if isinstance(e, NoticeEvent) and e.code == "send"]
    assert notice.level == "warning"
    assert "a message did not reach the turn: " in notice.text


async def test_nothing_can_be_said_to_a_run_that_has_ended(work: Path) -> None:
    with ScriptedResponses() as api, anyio.fail_after(30):
        async with against(api).start("work", cwd=work) as run:
            await run.result()
            with pytest.raises(RunEnded, match="completed"):
                await run.send("more")
        assert len(api.requests) == 1
