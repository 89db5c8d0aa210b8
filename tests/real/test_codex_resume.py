"""Going on with an earlier thread of the real Codex, and what the model is told of instructions, effort and model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest
from codex_kit import KEY, against, shell, shell_outputs, told

from subagent_codex import _session
from subagent_testing import ScriptedResponses, responses
from subagents import PermissionEvent, StartError, Unsupported

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("codex_binary")]

UNKNOWN: Final = "01a22e7c-4331-7000-8000-000000000000"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def heard(body: dict[str, Any], role: str) -> list[str]:
    """What the model is told in that role, each part of a message by itself."""
    found = [item for item in body["input"] if item.get("role") == role]
    return [str(part["text"]) for item in found for part in item["content"]]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_a_second_run_knows_the_first_and_counts_its_own_tokens(work: Path, home: Path) -> None:
    script = [
        [responses.message("I shall remember."), responses.usage(input_tokens=1000, output_tokens=500)],
        [responses.message("It was 42."), responses.usage(input_tokens=30, output_tokens=7)],
    ]
    with ScriptedResponses(script) as api:
        first = (await told(against(api, home=home), "remember 42", work)).result
        assert first.session is not None
        second = (await told(against(api, home=home), "what was it?", work, resume=first.session)).result
        body = api.requests[1].body
    assert (second.output, second.session) == ("It was 42.", first.session)
    assert heard(body, "user")[-2:] == ["remember 42", "what was it?"]
    assert heard(body, "assistant") == ["I shall remember."]
    assert (second.usage.input_tokens, second.usage.output_tokens) == (30, 7)
    process = second.evidence.process
    assert process is not None
    assert process.clean


async def test_a_home_that_lasts_holds_no_key_and_stays(work: Path, home: Path) -> None:
    with ScriptedResponses() as api:
        await told(against(api, home=home), "work", work)
    assert os.stat(home).st_mode & 0o777 == 0o700
    kept = files(home)
    assert [name for name in kept if name.startswith("rollout-")]
    assert not [name for name, content in kept.items() if KEY.encode() in content]


@pytest.mark.parametrize("session", [UNKNOWN, "my-session"])
async def test_a_session_that_does_not_exist_is_named_before_anything_starts(
    work: Path, home: Path, session: str
) -> None:
    with ScriptedResponses() as api:
        with pytest.raises(StartError) as refused:
            await told(against(api, home=home), "work", work, resume=session)
        assert api.requests == []
    failure = refused.value.failure
    assert (failure.kind, failure.stage, failure.retryable) == ("unknown", "start", False)
    assert "check the name of the session, and that it was made in this home" in failure.message
    assert ("no rollout found" in failure.message and UNKNOWN in failure.message) == (session == UNKNOWN)


async def test_a_home_that_does_not_last_cannot_resume(work: Path) -> None:
    with ScriptedResponses() as api, pytest.raises(Unsupported, match="resume"):
        against(api).start("work", cwd=work, resume=UNKNOWN)


@pytest.mark.long
async def test_folder_sandbox_and_model_of_a_resumed_run_are_its_own(work: Path, home: Path) -> None:
    other = work.parent / "other"
    other.mkdir()
    with ScriptedResponses(["noted", [shell("touch here")], "done"]) as api:
        first = (await told(against(api, home=home, model="gpt-5.4"), "remember", work)).result
        provider = against(api, home=home, sandbox="workspace-write")
        second = (await told(provider, "touch", other, resume=first.session)).result
        body = api.requests[1].body
    assert second.ok
    assert (os.listdir(work), os.listdir(other)) == ([], ["here"])
    assert body["model"] == second.model == "gpt-5.5"
    assert f"<cwd>{other}</cwd>" in heard(body, "user")[-2]
    assert "`sandbox_mode` is `workspace-write`" in "".join(heard(body, "developer"))


@pytest.mark.long
async def test_a_resumed_run_is_as_closed_as_another(work: Path, home: Path) -> None:
    """Also where the first one was open."""
    with ScriptedResponses(["noted", [shell("touch here; echo rc=$?")], "done"]) as api:
        open_one = against(api, home=home, sandbox="danger-full-access")
        first = (await told(open_one, "remember", work)).result
        await told(against(api, home=home), "touch", work, resume=first.session)
        assert "rc=1" in shell_outputs(api)[0]
    assert os.listdir(work) == []


@pytest.mark.long
async def test_what_allow_grants_in_a_resumed_run_is_nothing(work: Path, home: Path) -> None:
    """The engine shows no raw calls there, and only those tell a plain command from one that leaves the sandbox."""
    (work / "kept").mkdir()
    with ScriptedResponses(["noted", [shell("rm -rf kept")], "done", [shell("rm -rf kept")], "done"]) as api:
        provider = against(api, home=home, sandbox="workspace-write", approval_policy="on-request")
        first = (await told(provider, "remember", work)).result
        found = await told(provider, "remove", work, resume=first.session, permission="allow")
        (request,) = [e.request for e in found.events if isinstance(e, PermissionEvent) and e.choice is None]
        assert (request.beyond, (work / "kept").exists()) == (True, True)
        await told(provider, "remove", work, resume=first.session, permission=lambda request: "allow")
    assert not (work / "kept").exists()


# -- what the model is told --------------------------------------------------------------------------------------------


async def test_instructions_effort_and_model_reach_the_model(work: Path) -> None:
    with ScriptedResponses() as api:
        provider = against(api, model="gpt-5.4", effort="low")
        await told(provider, "work", work, instructions="Answer in rhymes.", effort="high", model="gpt-5.5")
        task = api.requests[0].body
        await told(provider, "work", work)
        options = api.requests[1].body
    assert (task["model"], task["reasoning"]["effort"]) == ("gpt-5.5", "high")
    assert (options["model"], options["reasoning"]["effort"]) == ("gpt-5.4", "low")
    assert [text for text in heard(task, "developer") if "Answer in rhymes." in text]
    assert "Answer in rhymes." not in json.dumps(options)
    assert heard(task, "user")[-1] == "work"


async def told_again(work: Path, home: Path) -> tuple[list[str], list[str]]:
    """The developer messages of a run and of one that resumes it, with instructions of their own each."""
    with ScriptedResponses() as api:
        provider = against(api, home=home)
        first = (await told(provider, "work", work, instructions="Answer in rhymes.")).result
        await told(provider, "go on", work, resume=first.session, instructions="Answer in prose.")
        return heard(api.requests[0].body, "developer"), heard(api.requests[1].body, "developer")


async def test_instructions_of_a_resumed_run_come_after_the_earlier_ones(work: Path, home: Path) -> None:
    before, after = await told_again(work, home)
    assert (before.count("Answer in rhymes."), after.count("Answer in rhymes.")) == (1, 1)
    assert "Answer in prose." not in before
    assert after[-1] == "Answer in prose."


@pytest.mark.long
async def test_the_instructions_of_a_resumed_run_can_be_lost(
    work: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant: they are given as the engine's schema says, and it passes over them."""

    async def open_thread(session: _session.Session, params: dict[str, object], resume: str | None) -> object:
        if resume is None:
            return await session._ask("thread/start", params)  # pyright: ignore[reportPrivateUsage]
        return await session._ask("thread/resume", {**params, "threadId": resume})  # pyright: ignore[reportPrivateUsage]

    monkeypatch.setattr(_session.Session, "open_thread", open_thread)
    _, after = await told_again(work, home)
    assert "Answer in prose." not in after


@pytest.mark.long
async def test_a_model_that_the_engine_does_not_know_is_told(work: Path) -> None:
    with ScriptedResponses() as api:
        found = await told(against(api), "work", work, model="mine-7b:latest")
        assert api.requests[0].body["model"] == "mine-7b:latest"
    assert found.result.model == "mine-7b:latest"
    assert "Model metadata for `mine-7b:latest` not found" in found.notices("warning")[0]
