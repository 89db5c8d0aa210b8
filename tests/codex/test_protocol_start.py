"""What an app-server can do wrong before it takes the task: each is one `StartError` that says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from protocol_kit import BOUND, Json, both_loops, codex, counted, refused, told, turn

from subagent_testing import FakeCodex

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


# -- sign-in -----------------------------------------------------------------------------------------------------------


async def test_nobody_signed_in_is_said_before_a_turn_with_the_way_to_sign_in(tmp_path: Path) -> None:
    account = {"result": {"account": None, "requiresOpenaiAuth": True}}
    with FakeCodex({"on": {"account/read": [[account]]}}) as fake:
        failure = await refused(fake, tmp_path, base_url=None, home=tmp_path / "home")
        assert (failure.kind, failure.stage) == ("auth", "start")
        assert "codex login" in failure.message
        assert "api_key" in failure.message
        assert not counted(fake, "thread/start", "turn/start")


@pytest.mark.parametrize(
    "account",
    [
        {"account": None, "requiresOpenaiAuth": False},
        {"account": {"type": "apiKey"}, "requiresOpenaiAuth": True},
        {"account": None},
        {},
    ],
    ids=["local provider", "signed in", "not said", "empty"],
)
async def test_an_account_that_is_there_or_not_needed_lets_the_run_go_on(tmp_path: Path, account: Json) -> None:
    with FakeCodex({"on": {"account/read": [[{"result": account}]]}}) as fake:
        found = await told(fake, tmp_path, base_url=None, home=tmp_path / "home")
        assert found.result.ok


async def test_without_any_way_to_sign_in_no_process_is_started(tmp_path: Path) -> None:
    with FakeCodex() as fake:
        failure = await refused(fake, tmp_path, base_url=None)
        assert failure.kind == "auth"
        assert fake.runs == []


async def test_a_key_is_handed_over_on_the_wire_and_stands_nowhere_else(tmp_path: Path) -> None:
    key = "sk-secret-0123456789abcdef"
    with FakeCodex() as fake:
        found = await told(fake, tmp_path, base_url=None, api_key=key)
        assert found.result.ok
        login = fake.wait_for("account/login/start").message
        assert login["params"] == {"type": "apiKey", "apiKey": key}
        assert key not in repr([message for message in fake.received if message is not login])
        assert key not in repr([(run.argv, dict(run.env)) for run in fake.runs])


async def test_a_key_that_is_not_taken_is_said_without_the_key(tmp_path: Path) -> None:
    key = "sk-secret-0123456789abcdef"
    refusal = {"error": {"code": -32600, "message": f"not taken: {key}"}}
    with FakeCodex({"on": {"account/login/start": [[refusal]]}}) as fake:
        failure = await refused(fake, tmp_path, base_url=None, api_key=key)
    assert "not taken" in failure.message
    assert key not in repr(failure)


@both_loops
async def test_a_refresh_that_fails_for_ever_is_named_once_and_cancel_works_at_once(tmp_path: Path) -> None:
    """The account looks fine, the turn is silent, and standard error repeats why."""
    line = "2026-12-01T04:00:00.000000Z ERROR codex_login::auth: Failed to refresh token: refresh token already used\n"
    on: Json = {"account/read": [[{"result": {"account": {"type": "chatgpt"}, "requiresOpenaiAuth": True}}]]}
    steps = [{"stderr": {"text": line, "times": 500}}, {"mark": "complained"}, "work"]
    with FakeCodex(turn(*steps, on=on)) as fake, anyio.fail_after(BOUND):
        async with codex(fake, base_url=None, home=tmp_path / "home").start("go", cwd=tmp_path) as run:
            await fake.happened("complained")
            async for event in run.events():
                if event.type == "notice" and event.code == "stderr":
                    break
            run.cancel()
            result = await run.result()
            assert result.stop_reason == "aborted"
            events = [event async for event in run.events()]
            result = await run.closed()
    assert [e.text for e in events if e.type == "notice" and e.code == "stderr"] == [
        "Failed to refresh token: refresh token already used"
    ]
    assert str(result.evidence.notes).count("already used") == 1


# -- the home and its configuration ------------------------------------------------------------------------------------


async def test_another_home_than_ours_is_refused_before_the_task_is_told(tmp_path: Path) -> None:
    with FakeCodex({"on": {"initialize": [[{"answer": {"codexHome": "/home/somebody/.codex"}}]]}}) as fake:
        failure = await refused(fake, tmp_path)
        assert (failure.kind, failure.stage) == ("protocol", "start")
        assert "/home/somebody/.codex" in failure.message
        assert not counted(fake, "initialized", "thread/start")


async def test_a_home_that_is_ours_under_another_name_is_ours(tmp_path: Path) -> None:
    """The engine resolves links, and a pinned home may be one."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with FakeCodex() as fake:
        found = await told(fake, tmp_path, home=tmp_path / "link")
        assert found.result.ok


@pytest.mark.parametrize("moment", ["start", "initialize", "thread/start"])
async def test_a_configuration_that_is_broken_fails_the_run(tmp_path: Path, moment: str) -> None:
    """The engine would go on with its defaults: another model, another sandbox."""
    params = {"summary": "Invalid configuration; using defaults.", "details": "config.toml:3: expected `=`"}
    warning = {"notify": {"method": "configWarning", "params": params}}
    steps: list[Any] = [warning] if moment == "start" else [warning, "answer"]
    with FakeCodex({"on": {moment: [steps]}}) as fake:
        failure = await refused(fake, tmp_path)
        assert (failure.kind, failure.stage) == ("launch", "start")
        assert "config.toml:3: expected `=`" in failure.message
        assert not counted(fake, "turn/start")


async def test_a_configuration_that_breaks_in_the_turn_fails_the_run(tmp_path: Path) -> None:
    params = {"summary": "Invalid configuration; using defaults.", "details": None}
    with FakeCodex(turn({"notify": {"method": "configWarning", "params": params}}, {"gate": "never"})) as fake:
        found = await told(fake, tmp_path)
    assert (found.result.stop_reason, found.failure.kind) == ("error", "launch")


async def test_another_warning_about_the_configuration_is_a_notice(tmp_path: Path) -> None:
    params = {"summary": "the key `modle` is not known", "details": None}
    with FakeCodex({"on": {"start": [[{"notify": {"method": "configWarning", "params": params}}]]}}) as fake:
        found = await told(fake, tmp_path)
    assert found.result.ok
    assert found.notices("configWarning") == ["the key `modle` is not known"]


async def test_the_profile_of_workspace_write_is_taken(tmp_path: Path) -> None:
    with FakeCodex() as fake:
        found = await told(fake, tmp_path, sandbox="workspace-write")
    assert found.result.ok


@pytest.mark.parametrize("profile", [None, {"id": ":workspace", "extends": None}])
async def test_another_sandbox_than_ours_is_refused(tmp_path: Path, profile: Json | None) -> None:
    """Under workspace-write the sandbox is a profile of ours, and an engine that does not say so has another one."""
    other = [{"answer": {"activePermissionProfile": profile}}]
    with FakeCodex({"on": {"thread/start": [other]}}) as fake:
        failure = await refused(fake, tmp_path, sandbox="workspace-write")
        assert (failure.kind, failure.stage) == ("protocol", "start")
        assert "sandbox" in failure.message
        assert not counted(fake, "turn/start")


# -- silence and exits -------------------------------------------------------------------------------------------------


@both_loops
@pytest.mark.parametrize("method", ["initialize", "thread/start"])
async def test_silence_is_a_timeout_that_names_what_was_not_answered(tmp_path: Path, method: str) -> None:
    with FakeCodex({"on": {method: [[{"wait": "never"}]]}}) as fake:
        failure = await refused(fake, tmp_path, ready_timeout=1)
    assert (failure.kind, failure.stage, failure.retryable) == ("timeout", "start", True)
    assert method in failure.message
    assert "ready_timeout" in failure.message


@pytest.mark.long
@pytest.mark.parametrize("reply", [{"result": None}, {"result": []}, {"result": "ok"}, {"result": {"codexHome": 7}}])
async def test_an_answer_without_what_we_look_for_is_no_crash(tmp_path: Path, reply: Json) -> None:
    with FakeCodex({"on": {"initialize": [[reply]]}}) as fake:
        assert await told_or_refused(fake, tmp_path) in ("completed", "protocol")


@pytest.mark.long
@pytest.mark.parametrize("method", ["initialize", "thread/start", "turn/start"])
@pytest.mark.parametrize("members", [{}, {"result": 1, "error": {"code": 1, "message": "m"}}, {"error": "no"}], ids=str)
async def test_an_answer_that_is_none_fails_the_start(tmp_path: Path, method: str, members: Json) -> None:
    with FakeCodex({"on": {method: [[{"send": {"id": "$request", **members}}]]}}) as fake:
        failure = await refused(fake, tmp_path, ready_timeout=5)
    assert (failure.kind, failure.stage) == ("protocol", "start") or not members
    assert failure.kind in ("protocol", "timeout")


@pytest.mark.long
@pytest.mark.parametrize("result", [None, {}, {"thread": None}, {"thread": {"id": 7}}, {"thread": {"id": ""}}], ids=str)
async def test_a_thread_without_an_id_is_a_failure_and_not_another_thread(tmp_path: Path, result: Any) -> None:
    with FakeCodex({"on": {"thread/start": [[{"result": result}]]}}) as fake:
        failure = await refused(fake, tmp_path, ready_timeout=5)
        assert (failure.kind, failure.stage) == ("protocol", "start")
        assert "did not say its id" in failure.message
        assert not counted(fake, "turn/start")


@pytest.mark.parametrize(
    ("steps", "code", "says"),
    [
        ([{"stderr": "unknown configuration field `modle`\n"}, {"exit": 1}], 1, "unknown configuration field `modle`"),
        ([{"raw": "Usage: codex [OPTIONS]\n"}, {"exit": 0}], 0, "Usage: codex [OPTIONS]"),
        ([{"stderr": {"text": "x" * 100 + "\n", "times": 50_000}}, {"exit": 2}], 2, "xxx"),
        ([{"signal": "SIGKILL"}], -9, "SIGKILL"),
    ],
    ids=["stderr", "stdout", "flood", "killed"],
)
async def test_an_exit_before_the_handshake_says_its_code_and_its_last_words_at_once(
    tmp_path: Path, steps: list[Any], code: int, says: str
) -> None:
    with FakeCodex({"on": {"start": [steps]}}) as fake:
        with anyio.fail_after(5):  # not the 30 s of ready_timeout
            failure = await refused(fake, tmp_path)
    assert (failure.kind, failure.stage, failure.exit_code) == ("launch", "start", code)
    assert says in failure.message


@pytest.mark.parametrize("method", ["initialize", "thread/start", "turn/start"])
async def test_an_exit_at_a_request_is_a_launch_that_failed(tmp_path: Path, method: str) -> None:
    with FakeCodex({"on": {method: [[{"stderr": "out of luck\n"}, {"exit": 7}]]}}) as fake:
        failure = await refused(fake, tmp_path)
    assert (failure.kind, failure.stage, failure.exit_code) == ("launch", "start", 7)
    assert "out of luck" in failure.message


async def told_or_refused(fake: FakeCodex, cwd: Path) -> str:
    """How a run ends that may go either way: its stop reason, or the kind of its failure."""
    with anyio.fail_after(BOUND):
        run = codex(fake, ready_timeout=5).start("go", cwd=cwd)
        try:
            async with run:
                return (await run.closed()).stop_reason
        except Exception:  # noqa: BLE001  # the result says which
            failure = (await run.result()).failure
            return failure.kind if failure else "none"
