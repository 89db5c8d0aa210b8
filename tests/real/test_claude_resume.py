"""Going on with an earlier conversation of the real Claude Code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import pytest
from claude_kit import KEY, against, bash, told, write

from subagent_testing import ScriptedMessages, messages
from subagents import StartError, TaskError, Unsupported

pytestmark = pytest.mark.anyio

UNKNOWN: Final = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def heard(body: dict[str, Any], role: str) -> str:
    return "\n".join(str(message["content"]) for message in body["messages"] if message["role"] == role)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_a_second_run_knows_the_first_and_counts_its_own_tokens(work: Path, home: Path) -> None:
    script: list[messages.Turn] = [
        [messages.usage(input_tokens=1000, output_tokens=500), messages.text("I shall remember.")],
        [messages.usage(input_tokens=30, output_tokens=7), messages.text("It was 42.")],
    ]
    with ScriptedMessages(script) as api:
        first = (await told(against(api, home=home), "remember 42", work)).result
        second = (await told(against(api, home=home), "what was it?", work, resume=first.session)).result
        body = api.requests[1].body
    assert (second.output, second.session) == ("It was 42.", first.session)
    assert "remember 42" in heard(body, "user")
    assert "what was it?" in heard(body, "user")
    assert "I shall remember." in heard(body, "assistant")
    assert (second.usage.input_tokens, second.usage.output_tokens) == (30, 7)
    assert first.cost_usd is not None
    assert second.cost_usd is not None
    assert second.cost_usd < first.cost_usd


async def test_a_home_that_lasts_holds_no_key_and_stays(work: Path, home: Path) -> None:
    with ScriptedMessages() as api:
        await told(against(api, home=home), "work", work)
    assert os.stat(home).st_mode & 0o777 == 0o700
    kept = files(home)
    assert [name for name in kept if name.endswith(".jsonl")]
    assert not [name for name, content in kept.items() if KEY.encode() in content]


async def test_a_session_that_does_not_exist_is_named_before_anything_is_asked(work: Path, home: Path) -> None:
    with ScriptedMessages() as api:
        with pytest.raises(StartError) as refused:
            await told(against(api, home=home), "work", work, resume=UNKNOWN)
        assert api.requests == []
    failure = refused.value.failure
    assert (failure.kind, failure.stage, failure.retryable) == ("unknown", "start", False)
    assert UNKNOWN in failure.message
    assert "check the name of the session, and that it was made in this home" in failure.message


async def test_a_name_that_is_none_is_refused_before_anything_starts(work: Path, home: Path) -> None:
    with ScriptedMessages() as api, pytest.raises(TaskError, match="UUID"):
        against(api, home=home).start("work", cwd=work, resume="my-session")
    assert files(home) == {}


async def test_a_home_that_does_not_last_cannot_resume(work: Path) -> None:
    with ScriptedMessages() as api, pytest.raises(Unsupported, match="resume"):
        against(api).start("work", cwd=work, resume=UNKNOWN)


@pytest.mark.long
async def test_a_session_of_another_home_is_none_of_this_one(work: Path, home: Path) -> None:
    with ScriptedMessages() as api:
        first = (await told(against(api, home=home), "remember", work)).result
        with pytest.raises(StartError, match="No conversation found"):
            await told(against(api, home=work.parent / "other"), "go on", work, resume=first.session)


async def test_folder_and_permission_of_a_resumed_run_are_its_own(work: Path, home: Path) -> None:
    """Also where the first one let everything in its folder be written."""
    other = work.parent / "other"
    other.mkdir()
    with ScriptedMessages(["noted", [write(other / "a.txt")], [bash("touch b.txt")], "done"]) as api:
        provider = against(api, home=home, permission_mode="acceptEdits")
        first = (await told(provider, "remember", work, permission="allow")).result
        second = (await told(against(api, home=home), "write", other, resume=first.session)).result
    assert second.evidence.notes == ("2 steps refused",)
    assert (os.listdir(work), os.listdir(other)) == ([], [])


async def test_a_conversation_that_failed_can_be_gone_on_with(work: Path, home: Path) -> None:
    with ScriptedMessages([messages.status(529), "there you are"]) as api:
        first = (await told(against(api, home=home), "my colour is blue", work)).result
        assert first.failure is not None
        second = (await told(against(api, home=home), "which?", work, resume=first.session)).result
        body = api.requests[1].body
    assert second.output == "there you are"
    assert "my colour is blue" in heard(body, "user")
