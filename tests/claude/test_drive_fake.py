"""The whole provider on a fake `claude`, which does what the real one cannot be made to do."""

from __future__ import annotations

import contextvars
import json
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from subagent_claude_code import ClaudeCode
from subagent_testing import FakeClaude
from subagents import Event, Failure, Permission, PermissionRequest, Result, StartError, TextEvent

pytest.importorskip("claude_agent_sdk")
pytestmark = pytest.mark.anyio
asyncio_alone = pytest.mark.parametrize("anyio_backend", ["asyncio"])

BOUND = 30.0
NOWHERE = "http://127.0.0.1:9"
"""The fake asks no model; with an address of its own a run needs no sign-in."""


def claude(fake: FakeClaude, **options: Any) -> ClaudeCode:
    given: dict[str, Any] = {"executable": fake.executable, "base_url": NOWHERE, **options}
    return ClaudeCode(**given)


async def told(
    script: dict[str, Any], cwd: Path, *, permission: Permission = "reject", **options: Any
) -> tuple[Result, list[Event]]:
    """A run of this script."""
    with FakeClaude(script) as fake, anyio.fail_after(BOUND):
        async with claude(fake, **options).start("go", cwd=cwd, permission=permission) as run:
            events = [event async for event in run.events()]
        result = await run.closed()
        assert not [verdict for verdict in fake.verdicts if verdict.wrong]
        return result, events


async def refused(script: dict[str, Any], cwd: Path, **options: Any) -> Failure:
    """Why a run of this script could not start."""
    with FakeClaude(script) as fake, anyio.fail_after(BOUND), pytest.raises(StartError) as caught:
        async with claude(fake, **options).start("go", cwd=cwd):
            pass  # pragma: no cover
    return caught.value.failure


async def test_a_turn_is_told_and_answered(tmp_path: Path) -> None:
    result, events = await told({"turn": [{"thinking": "hm"}, {"text": "Hello"}]}, tmp_path)
    assert (result.stop_reason, result.output) == ("completed", "Hello")
    assert "".join(e.text for e in events if isinstance(e, TextEvent)) == "Hello"
    assert result.evidence.process is not None
    assert result.evidence.process.clean


@asyncio_alone
async def test_the_engine_gets_exactly_what_it_is_given(tmp_path: Path) -> None:
    with FakeClaude() as fake, anyio.fail_after(BOUND):
        provider = claude(fake, api_key="sk-ant-api03-only-here")
        async with provider.start("the prompt", cwd=tmp_path, instructions="the rules") as run:
            await run.closed()
        (engine,) = fake.runs
        message = fake.wait_for("user").message
    assert engine.cwd == tmp_path
    assert engine.env["ANTHROPIC_API_KEY"] == "sk-ant-api03-only-here"
    assert not [word for word in engine.argv if "sk-ant" in word or "the rules" in word or "the prompt" in word]
    assert message["client_composed"] is True
    assert message["message"]["content"] == "the prompt"


place: contextvars.ContextVar[str] = contextvars.ContextVar("place")


async def test_a_callback_is_asked_in_the_context_of_the_caller(tmp_path: Path) -> None:
    seen: list[str] = []

    def decide(request: PermissionRequest) -> Literal["allow"]:
        seen.append(place.get())
        return "allow"

    place.set("here")
    tool = {"name": "Write", "input": {"file_path": "a.txt", "content": "x"}, "ask": True}
    result, _ = await told({"turn": [{"tool": tool}, {"text": "done"}]}, tmp_path, permission=decide)
    assert seen == ["here"]
    assert (tmp_path / "a.txt").read_text() == "x"
    assert result.evidence.edits == 1


@asyncio_alone
async def test_whatever_else_the_engine_asks_is_answered(tmp_path: Path) -> None:
    asks = [{"ask": subtype} for subtype in ("can_use_tool", "hook_callback", "mcp_message")]
    result, _ = await told({"turn": [*asks, {"text": "done"}]}, tmp_path)
    assert result.ok


async def test_what_the_engine_withdraws_is_asked_no_more(tmp_path: Path) -> None:
    asked = anyio.Event()

    async def decide(request: PermissionRequest) -> Literal["allow"]:
        asked.set()
        await anyio.sleep_forever()
        return "allow"  # pragma: no cover

    ask = {"ask": {"subtype": "can_use_tool", "wait": False}}
    script = {"turn": [ask, {"gate": "asked"}, {"withdraw": None}, {"text": "done"}]}
    with FakeClaude(script) as fake, anyio.fail_after(BOUND):
        async with claude(fake).start("go", cwd=tmp_path, permission=decide) as run:
            await asked.wait()
            fake.open("asked")
            assert (await run.closed()).output == "done"


@asyncio_alone
@pytest.mark.parametrize(
    ("script", "kind", "says"),
    [
        ({"on": {"initialize": [[{"stderr": "no such flag"}, {"exit": 1}]]}}, "launch", "no such flag"),
        ({"on": {"initialize": [[{"raw": "hello?\n"}, {"exit": 3}]]}}, "launch", "hello\\?"),
        ({"on": {"initialize": [[{"mute": None}]]}}, "timeout", "handshake"),
        ({"on": {"initialize": [[{"error": "not today"}]]}}, "protocol", "not today"),
        ({"on": {"user": [[{"mute": None}]]}}, "timeout", "the task"),
        ({"on": {"user": [[{"exit": 7}]]}}, "launch", "exit code 7"),
    ],
)
async def test_a_start_that_fails_says_why(tmp_path: Path, script: dict[str, Any], kind: str, says: str) -> None:
    failure = await refused(script, tmp_path, ready_timeout=3)
    assert failure.kind == kind
    assert says.replace("\\", "") in failure.message


@asyncio_alone
async def test_an_error_before_the_task_is_accepted_is_the_reason(tmp_path: Path) -> None:
    sent = {"type": "result", "is_error": True, "errors": ["No conversation found with session ID: x"]}
    failure = await refused({"on": {"user": [[{"send": sent}, {"exit": 1}]]}}, tmp_path)
    assert "No conversation found" in failure.message
    assert failure.stage == "start"


@asyncio_alone
@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        ([{"stderr": "boom\n"}, {"exit": 7}], "exit"),
        ([{"fail": {"status": 529, "error": "overloaded"}}], "overload"),
        ([{"raw": {"text": "{" + "x" * 1024, "times": 70_000}}, {"raw": "\n"}, {"work": None}], "protocol"),
    ],
    ids=["exit", "fails", "a line beyond the limit"],
)
async def test_a_run_that_fails_says_why(tmp_path: Path, steps: list[Any], kind: str) -> None:
    result, _ = await told({"turn": steps}, tmp_path)
    assert result.failure is not None
    assert result.failure.kind == kind


@asyncio_alone
async def test_nothing_that_it_writes_breaks_the_run(tmp_path: Path) -> None:
    lines = [
        *("not json", '{"type":"control_request"}', '{"type":"control_response","response":[]}', "[]", "{}"),
        *('{"type":"control_request","request_id":"x","request":{"subtype":"invented"}}', '{"type":7}', "{bad"),
        *('{"type":"assistant","message":7}', '{"type":"user"}', '{"type":"stream_event","event":[]}'),
        '{"type":"control_request","request_id":"y","request":{"subtype":"can_use_tool"}}',
    ]
    result, _ = await told({"turn": [*({"raw": line + "\n"} for line in lines), {"text": "done"}]}, tmp_path)
    assert result.output == "done"


async def test_a_cancelled_turn_is_interrupted_first(tmp_path: Path) -> None:
    with FakeClaude({"turn": [{"mark": "at work"}, {"work": None}]}) as fake, anyio.fail_after(BOUND):
        async with claude(fake).start("go", cwd=tmp_path) as run:
            await fake.happened("at work")
            run.cancel()
            result = await run.closed()
        assert [heard.what for heard in fake.heard][-2:] == ["interrupt", "EOF"]
    assert result.stop_reason == "aborted"
    assert result.evidence.process is not None
    assert result.evidence.process.steps == ("eof",)


async def test_a_queued_message_gets_its_turn_and_the_last_answer_counts(tmp_path: Path) -> None:
    first = [{"turn": [{"gate": "first"}, {"text": "one"}]}]
    script = {"on": {"user": [first, [{"turn": [{"text": "two"}]}]]}}
    with FakeClaude(script) as fake, anyio.fail_after(BOUND):
        async with claude(fake).start("go", cwd=tmp_path) as run:
            await fake.happened("first")
            await run.send("and more")
            fake.open("first")
            result = await run.closed()
        contents = [m["message"]["content"] for m in fake.received if m.get("type") == "user"]
    assert result.output == "two"
    assert contents == ["go", "and more"]


@asyncio_alone
async def test_a_message_that_the_engine_swallows_does_not_keep_the_run_open(tmp_path: Path) -> None:
    result = {"type": "result", "subtype": "success", "is_error": False, "result": "one"}
    idle = {"subtype": "session_state_changed", "state": "idle"}
    script = {"on": {"user": [[{"begin": None}, {"gate": "first"}, {"message": result}, {"system": idle}]]}}
    with FakeClaude(script) as fake, anyio.fail_after(BOUND):
        async with claude(fake).start("go", cwd=tmp_path) as run:
            await run.send("and more")
            await fake.happened("user", 2)
            fake.open("first")
            found = await run.closed()
    assert found.output == "one"
    assert found.evidence.notes == ("1 message got no answer",)


@asyncio_alone
async def test_a_probe_says_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_CLAUDE_KEY", raising=False)
    with FakeClaude({"version": "9.9.9", "signed_in": False}) as fake:
        pinned = await claude(fake, base_url=None, home=tmp_path).probe()
        inherited = await claude(fake, base_url=None, home="inherit").probe()
        isolated = await claude(fake, base_url=None).probe()
        own = await claude(fake).probe()
        keyed = await claude(fake, base_url=None, api_key="sk-ant-x").probe()
        named = await claude(fake, base_url=None, api_key_env="MY_CLAUDE_KEY").probe()
        monkeypatch.setenv("MY_CLAUDE_KEY", "sk-ant-x")
        there = await claude(fake, base_url=None, api_key_env="MY_CLAUDE_KEY").probe()
    assert pinned.version == "9.9.9"
    assert "tested with" in pinned.detail
    assert [p.signed_in for p in (pinned, inherited, isolated, own, keyed, named, there)] == [
        *(False, False, False, None, True, False, True)
    ]
    assert json.dumps([p.fix for p in (pinned, named)]).count("sign") >= 1
    with FakeClaude({"signed_in": True}) as fake:
        assert (await claude(fake, base_url=None, home="inherit").probe()).signed_in is True


@asyncio_alone
async def test_an_answer_before_the_task_is_accepted_is_none(tmp_path: Path) -> None:
    sent = {"type": "result", "is_error": False, "result": "too early"}
    failure = await refused({"on": {"user": [[{"send": sent}, {"exit": 3}]]}}, tmp_path)
    assert (failure.kind, failure.stage) == ("launch", "start")


@asyncio_alone
async def test_a_run_that_is_refused_too_often_is_given_up_and_interrupted(tmp_path: Path) -> None:
    script = {"turn": [{"tool": {"ask": True}}, {"work": None}]}
    with FakeClaude(script) as fake, anyio.fail_after(BOUND):
        async with claude(fake, max_refusals=1).start("go", cwd=tmp_path) as run:
            result = await run.closed()
        assert "interrupt" in [heard.what for heard in fake.heard]
    assert result.failure is not None
    assert result.failure.kind == "policy"


@asyncio_alone
async def test_a_key_comes_out_of_the_named_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_CLAUDE_KEY", "sk-ant-api03-named")
    with FakeClaude() as fake, anyio.fail_after(BOUND):
        async with claude(fake, api_key_env="MY_CLAUDE_KEY").start("go", cwd=tmp_path) as run:
            await run.closed()
        assert fake.runs[0].env["ANTHROPIC_API_KEY"] == "sk-ant-api03-named"
        assert "MY_CLAUDE_KEY" not in fake.runs[0].env


@asyncio_alone
async def test_an_inherited_home_is_started_as_the_person_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with FakeClaude() as fake, anyio.fail_after(BOUND):
        async with claude(fake, base_url=None, home="inherit").start("go", cwd=tmp_path) as run:
            assert (await run.closed()).ok
        assert fake.runs[0].env["HOME"] == str(tmp_path)


async def test_runs_with_one_pinned_home_wait_for_each_other(tmp_path: Path) -> None:
    script = {"on": {"user": [[{"turn": [{"mark": "at work"}, {"work": None}]}]]}}
    with FakeClaude(script) as fake, anyio.fail_after(BOUND):
        provider = claude(fake, home=tmp_path / "pinned")
        async with provider.start("first", cwd=tmp_path) as first:
            await fake.happened("at work")
            second = provider.start("second", cwd=tmp_path)

            async def follow() -> None:
                async with second:
                    second.cancel()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow)
                async for event in second.events():
                    if event.type == "notice" and event.code == "waiting":
                        first.cancel()
                        break
            assert (await second.closed()).stop_reason == "aborted"
