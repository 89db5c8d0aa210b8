"""Several turns of one run, on a fake `claude`: which result is the verdict."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from subagent_claude_code import ClaudeCode
from subagent_testing import FakeClaude
from subagents import Result, RunEnded, StartError

pytest.importorskip("claude_agent_sdk")
pytestmark = pytest.mark.anyio

BOUND = 30.0
INIT: dict[str, Any] = {"type": "system", "subtype": "init", "session_id": "s", "tools": [], "model": "m"}
ONE: dict[str, Any] = {"type": "result", "subtype": "success", "is_error": False, "result": "one"}
TWO: dict[str, Any] = {**ONE, "result": "two"}
IDLE = {"subtype": "session_state_changed", "state": "idle"}
RUNNING = {**IDLE, "state": "running"}


def claude(fake: FakeClaude) -> ClaudeCode:
    return ClaudeCode(executable=fake.executable, base_url="http://127.0.0.1:9")


async def closed(first: list[dict[str, Any]], then: list[dict[str, Any]] | None, cwd: Path) -> Result:
    """A run of these steps; where there are steps for a second message, it is sent at the gate `here`."""
    with FakeClaude({"on": {"user": [first, then or []]}}) as fake, anyio.fail_after(BOUND):
        async with claude(fake).start("go", cwd=cwd) as run:
            if then is not None:
                await fake.happened("here")
                await run.send("and more")
                await fake.happened("user", 2)
                fake.open("here")
            return await run.closed()


async def test_the_answer_of_an_earlier_turn_is_not_that_of_one_that_died(tmp_path: Path) -> None:
    died = [{"begin": None}, {"stderr": "boom"}, {"exit": 7}]
    result = await closed([{"turn": [{"gate": "here"}, {"text": "one"}]}], died, tmp_path)
    assert result.stop_reason == "error"
    assert result.failure is not None
    assert (result.failure.kind, result.failure.exit_code) == ("exit", 7)
    assert "boom" in result.failure.message
    assert result.output == "one"


async def test_a_turn_of_the_background_that_dies_is_no_success(tmp_path: Path) -> None:
    result = await closed([{"begin": None}, {"message": ONE}, {"begin": None}, {"exit": 7}], None, tmp_path)
    assert result.failure is not None
    assert result.failure.kind == "exit"


async def test_an_engine_that_dies_behind_its_last_result_has_answered(tmp_path: Path) -> None:
    result = await closed([{"begin": None}, {"message": ONE}, {"exit": 7}], None, tmp_path)
    assert (result.stop_reason, result.output) == ("completed", "one")


async def test_a_result_of_the_background_is_not_the_answer_to_a_message(tmp_path: Path) -> None:
    background = {**ONE, "result": "bg", "origin": {"kind": "task-notification"}}
    rest = [{"system": IDLE}, {"system": RUNNING}, {"text": "two"}, {"message": TWO}, {"system": IDLE}]
    first: list[dict[str, Any]] = [{"begin": None}, {"message": ONE}, {"gate": "here"}, {"message": background}]
    assert (await closed([*first, *rest], [], tmp_path)).output == "two"


async def test_an_engine_without_states_answers_every_message(tmp_path: Path) -> None:
    first = [{"send": INIT}, {"gate": "here"}, {"send": ONE}, {"send": INIT}, {"send": TWO}]
    assert (await closed(first, [], tmp_path)).output == "two"


async def test_a_prompt_that_no_result_answers_is_not_waited_for(tmp_path: Path) -> None:
    other = {**ONE, "origin": {"kind": "human"}}
    result = await closed([{"begin": None}, {"message": other}, {"system": IDLE}, {"gate": "never"}], None, tmp_path)
    assert (result.stop_reason, result.output) == ("completed", "one")
    assert result.evidence.notes == ("1 message got no answer",)


async def test_an_error_stands_whatever_the_engine_says_next(tmp_path: Path) -> None:
    failed = {**ONE, "is_error": True, "result": "API Error: 500", "api_error_status": 500}
    first = [{"begin": None}, {"gate": "here"}, {"message": failed}, {"begin": None}, {"message": TWO}]
    result = await closed(first, [], tmp_path)
    assert result.stop_reason == "error"
    assert result.evidence.notes == ("1 message got no answer",)


async def test_a_message_that_is_sent_at_the_last_moment_gets_its_turn_or_a_note(tmp_path: Path) -> None:
    with FakeClaude({"on": {"user": [[{"turn": [{"text": "one"}]}], [{"turn": [{"text": "two"}]}]]}}) as fake:
        for _ in range(5):
            with anyio.fail_after(BOUND):
                async with claude(fake).start("go", cwd=tmp_path) as run:
                    sent = False
                    async for event in run.events():
                        if event.type == "usage" and not sent:  # of the first result
                            sent = True
                            with suppress(RunEnded):
                                await run.send("and more")
                    result = await run.closed()
            assert result.output == "two" or result.evidence.notes


async def test_a_message_whose_reading_fails_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from subagent_claude_code._turn import Turn

    whole = Turn.told

    def broken(self: Turn, message: dict[str, object]) -> None:
        if message["type"] == "rate_limit_event":
            raise OverflowError("too large")
        whole(self, message)

    monkeypatch.setattr(Turn, "told", broken)
    result = await closed([{"begin": None}, {"rate_limit": {}}, {"gate": "never"}], None, tmp_path)
    assert result.failure is not None
    assert result.failure.kind == "protocol"
    assert "too large" in result.failure.message


@pytest.mark.parametrize("version", ["2.0.1", "2.1.247", "", "new"])
async def test_a_claude_that_reads_prompts_as_orders_is_refused(version: str, tmp_path: Path) -> None:
    with FakeClaude({"version": version}) as fake, anyio.fail_after(BOUND), pytest.raises(StartError) as caught:
        async with claude(fake).start("see @/etc/hostname", cwd=tmp_path):
            pass  # pragma: no cover
    assert caught.value.failure.kind == "launch"
    assert "2.1.248" in caught.value.failure.message
    assert "user" not in [heard.what for heard in fake.heard]


async def test_another_version_than_the_tested_one_is_told(tmp_path: Path) -> None:
    with FakeClaude({"version": "2.2.0"}) as fake, anyio.fail_after(BOUND):
        async with claude(fake).start("go", cwd=tmp_path) as run:
            events = [event async for event in run.events()]
    assert [e.text for e in events if e.type == "notice" and e.code == "version"] == [
        "claude 2.2.0, tested with 2.1.332"
    ]
