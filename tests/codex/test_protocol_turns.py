"""The order of a turn, its strange messages, and what is not its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from protocol_kit import BOUND, Json, both_loops, codex, counted, follow, refused, said, told, turn, wrong

from subagent_testing import FakeCodex
from subagents import TextEvent

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


CHANGE = "item/fileChange/requestApproval"


def over(turn_id: Any = "$turn", thread: Any = "$thread", status: str = "completed", **more: Any) -> Json:
    """An end of a turn as the script likes it."""
    told: Json = {"id": turn_id, "status": status, "items": [], "error": None, **more}
    return {"notify": {"method": "turn/completed", "params": {"threadId": thread, "turn": told}}}


def text(words: str, turn_id: str = "$turn", thread: str = "$thread", item: str = "msg_foreign") -> Json:
    """A message of the model."""
    params = {"threadId": thread, "turnId": turn_id, "item": {"type": "agentMessage", "id": item, "text": words}}
    return {"notify": {"method": "item/completed", "params": params}}


# -- order -------------------------------------------------------------------------------------------------------------


async def test_the_end_of_the_turn_may_come_before_the_answer_to_its_start(tmp_path: Path) -> None:
    early = ["begin", {"ask": CHANGE}, {"message": "early"}, "complete", "answer"]
    with FakeCodex({"on": {"turn/start": [early]}}) as fake:
        found = await told(fake, tmp_path)
        assert (found.result.stop_reason, found.result.output) == ("completed", "early")
        assert found.text == "early"
        assert [verdict.answer["result"] for verdict in fake.verdicts] == [{"decision": "decline"}]


async def test_everything_before_the_answer_and_without_a_beginning_counts(tmp_path: Path) -> None:
    """Neither the answer nor `turn/started` has told the turn's id when its end comes."""
    early = [{"ask": {"method": CHANGE, "wait": False}}, {"message": "early"}, "complete", "answer"]
    with FakeCodex({"on": {"turn/start": [early]}}) as fake:
        found = await told(fake, tmp_path)
        assert (found.result.stop_reason, found.result.output) == ("completed", "early")
        assert wrong(fake) == []


@both_loops
async def test_an_answer_to_the_start_that_never_comes_holds_up_nothing(tmp_path: Path) -> None:
    with FakeCodex({"turn": [{"message": "done"}], "on": {"turn/start": [["turn"]]}}) as fake:
        found = await told(fake, tmp_path)
        assert (found.result.stop_reason, found.result.output) == ("completed", "done")


@pytest.mark.long
async def test_an_answer_to_the_start_that_is_late_fails_no_turn_that_runs(tmp_path: Path) -> None:
    """Its limit is over while the turn goes on, and the verdict is still the turn's."""
    steps = ["begin", {"pause": 2.5}, {"message": "done"}, "complete"]
    with FakeCodex({"on": {"turn/start": [steps]}}) as fake:
        found = await told(fake, tmp_path, ready_timeout=2)
    assert (found.result.stop_reason, found.result.output) == ("completed", "done")


async def test_a_start_that_nobody_answers_is_a_timeout_that_names_it(tmp_path: Path) -> None:
    with FakeCodex({"on": {"turn/start": [[{"wait": "never"}]]}}) as fake:
        failure = await refused(fake, tmp_path, ready_timeout=1)
    assert (failure.kind, failure.retryable) == ("timeout", True)
    assert "turn/start" in failure.message


async def test_a_start_that_is_refused_is_told_in_the_words_of_the_engine(tmp_path: Path) -> None:
    refusal = {"error": {"code": -32600, "message": "the moon is in the wrong quarter"}}
    with FakeCodex({"on": {"turn/start": [[refusal]]}}) as fake:
        failure = await refused(fake, tmp_path)
    assert (failure.kind, failure.stage) == ("protocol", "start")
    assert "the moon is in the wrong quarter" in failure.message


# -- what is not the end -----------------------------------------------------------------------------------------------


async def test_neither_a_retry_nor_an_idle_thread_nor_a_message_is_the_end(tmp_path: Path) -> None:
    status = {"threadId": "$thread", "status": {"type": "idle"}}
    idle = {"notify": {"method": "thread/status/changed", "params": status}}
    steps = [{"retry": "Reconnecting 1/5"}, idle, {"message": "first"}, {"gate": "later"}, {"message": "second"}]
    with FakeCodex(turn(*steps)) as fake, anyio.fail_after(BOUND):
        async with codex(fake).start("go", cwd=tmp_path) as run:
            await said(run, "first")
            await fake.happened("later")
            fake.open("later")
            found = await follow(run)
    assert (found.result.stop_reason, found.result.output) == ("completed", "second")
    assert found.notices("retry") == ["Reconnecting 1/5"]
    assert found.text == "firstsecond"
    assert found.result.evidence.notes == ()


async def test_a_final_answer_is_the_answer_whatever_is_said_after_it(tmp_path: Path) -> None:
    steps = [{"message": {"text": "the answer", "phase": "final_answer"}}, {"message": "and a remark"}]
    with FakeCodex(turn(*steps)) as fake:
        assert (await told(fake, tmp_path)).result.output == "the answer"


async def test_an_error_that_is_not_retried_is_not_the_end_either(tmp_path: Path) -> None:
    """Only `turn/completed` is: one that completes after all has completed."""
    error = {"error": {"message": "odd", "codexErrorInfo": "other"}, "willRetry": False, "threadId": "$thread"}
    with FakeCodex(turn({"notify": {"method": "error", "params": error}}, {"message": "done"})) as fake:
        found = await told(fake, tmp_path)
    assert (found.result.stop_reason, found.result.output) == ("completed", "done")


@pytest.mark.long
@pytest.mark.parametrize(
    "foreign",
    [
        over("01a00000-0000-7000-8000-000000000000"),
        over(thread="01a00000-0000-7000-8000-000000000001"),
        over(turn_id="$turn", thread="01a00000-0000-7000-8000-000000000001", status="failed"),
        over(turn_id=7),
        {"notify": {"method": "turn/completed", "params": {}}},
        {"notify": {"method": "turn/completed", "params": {"threadId": "$thread"}}},
        {"notify": {"method": "turn/completed", "params": {"threadId": "$thread", "turn": "over"}}},
        {"send": {"method": "turn/completed", "params": []}},
        {"send": {"method": "turn/completed"}},
    ],
    ids=["turn", "thread", "same turn", "number", "empty", "no turn", "text", "array", "no params"],
)
async def test_the_end_of_another_turn_is_not_the_end_of_this_one(tmp_path: Path, foreign: Json) -> None:
    with FakeCodex(turn(foreign, {"message": "mine"})) as fake:
        found = await told(fake, tmp_path)
    assert (found.result.stop_reason, found.result.output) == ("completed", "mine")


async def test_what_other_threads_say_is_never_the_answer(tmp_path: Path) -> None:
    other = "01a00000-0000-7000-8000-000000000001"
    with FakeCodex(turn({"message": "mine"}, text("theirs", thread=other, turn_id=other))) as fake:
        found = await told(fake, tmp_path)
    assert found.result.output == "mine"
    assert {event.text: event.parent for event in found.of(TextEvent)}["theirs"] == other


async def test_messages_ends_and_answers_that_come_twice_count_once(tmp_path: Path) -> None:
    twice = [{"message": "done"}, {"send": {"id": "$request", "result": {"turn": {"id": "another"}}}}]
    steps = ["answer", "answer", "begin", "begin", *twice, over(), over(status="failed"), over(status="interrupted")]
    with FakeCodex({"on": {"turn/start": [steps], "initialize": [["answer", "answer"]]}}) as fake:
        found = await told(fake, tmp_path)
    assert (found.result.stop_reason, found.result.output) == ("completed", "done")
    assert found.text == "done"


async def test_answers_under_ids_that_we_never_gave_are_taken_for_nothing(tmp_path: Path) -> None:
    ids: list[Any] = [99, -1, 10**30, "0", "1", None, True, 1.0, [1], {}]
    strangers = [{"send": {"id": number, "result": {"thread": {"id": "stolen"}, "codexHome": "/x"}}} for number in ids]
    errors = [{"send": {"id": number, "error": {"code": -1, "message": "no"}}} for number in ids]
    on: Json = {
        "initialize": [[*strangers, "answer", *errors]],
        "thread/start": [[*errors, "answer", *strangers]],
        "turn/start": [[*strangers, *errors, "answer", "turn"]],
    }
    with FakeCodex(turn({"message": "done"}, on=on)) as fake:
        found = await told(fake, tmp_path)
    assert found.result.output == "done"
    assert found.result.session not in (None, "stolen")


async def test_notifications_that_nobody_knows_or_that_are_broken_harm_nothing(tmp_path: Path) -> None:
    values: list[Any] = [None, 7, "text", [], {}, {"item": 5}, {"item": {"type": 5, "id": []}}, {"turn": []}]
    methods = ["item/started", "item/completed", "item/agentMessage/delta", "error", "thread/tokenUsage/updated"]
    methods += ["turn/plan/updated", "account/rateLimits/updated", "configWarning", "brandNew/told", "turn/started"]
    noise = [{"send": {"method": method, "params": value}} for method in methods for value in values]
    with FakeCodex(turn(*noise, {"message": "done"})) as fake:
        found = await told(fake, tmp_path)
    assert (found.result.stop_reason, found.result.output) == ("completed", "done")


# -- overload ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["initialize", "thread/start", "turn/start"])
async def test_an_overloaded_server_is_asked_again(tmp_path: Path, method: str) -> None:
    third = ["answer", "turn"] if method == "turn/start" else ["answer"]
    with FakeCodex(turn({"message": "done"}, on={method: [["overloaded"], ["overloaded"], third]})) as fake:
        found = await told(fake, tmp_path)
        assert (found.result.stop_reason, found.result.output) == ("completed", "done")
        assert counted(fake, method)[method] == 3


@pytest.mark.long
@pytest.mark.parametrize("method", ["thread/start", "turn/start"])
async def test_a_server_that_stays_overloaded_is_an_overload_and_no_limit(tmp_path: Path, method: str) -> None:
    with FakeCodex({"on": {method: [["overloaded"]]}}) as fake:
        failure = await refused(fake, tmp_path)
        assert (failure.kind, failure.retryable) == ("overload", True)
        assert "Server overloaded" in failure.message
        assert 2 < counted(fake, method)[method] < 20


@both_loops
@pytest.mark.parametrize("method", ["thread/start", "turn/start"])
async def test_a_cancel_interrupts_the_wait_for_an_overloaded_server(tmp_path: Path, method: str) -> None:
    with FakeCodex({"on": {method: [["overloaded"]]}}) as fake, anyio.fail_after(BOUND):
        run = codex(fake).start("go", cwd=tmp_path)

        async def cancel() -> None:
            await fake.happened(method, 2)
            run.cancel("enough")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel)
            async with run:
                await run.closed()
        assert (await run.result()).stop_reason == "aborted"
        assert counted(fake, method)[method] < 5


async def test_another_error_is_not_tried_again(tmp_path: Path) -> None:
    with FakeCodex({"on": {"thread/start": [[{"error": {"code": -32603, "message": "broken"}}]]}}) as fake:
        failure = await refused(fake, tmp_path)
        assert "broken" in failure.message
        assert counted(fake, "thread/start")["thread/start"] == 1


# -- how it failed -----------------------------------------------------------------------------------------------------

ABSENT = object()
FAILED: list[tuple[Any, str, str, bool]] = [  # all of them, without a process: test_failures
    ("contextWindowExceeded", "max-tokens", "model", False),
    ("ContextWindowExceeded", "max-tokens", "model", False),
    ("context_window_exceeded", "max-tokens", "model", False),
    ("usageLimitExceeded", "error", "limit", True),
    ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "error", "overload", True),
    ({"httpConnectionFailed": {"httpStatusCode": None}}, "error", "network", True),
    ({"HttpConnectionFailed": {"httpStatusCode": 503}}, "error", "overload", True),
    ("serverOverloaded", "error", "overload", True),
    ("unauthorized", "error", "auth", False),
    ("cyberPolicy", "refusal", "policy", False),
    ("somethingNew", "error", "unknown", False),
    (None, "error", "unknown", False),
    (ABSENT, "error", "unknown", False),
    (7, "error", "unknown", False),
    ([], "error", "unknown", False),
    ({}, "error", "unknown", False),
    ({"responseTooManyFailedAttempts": 7}, "error", "network", True),
]


@pytest.mark.long
@pytest.mark.parametrize(("info", "stop", "kind", "retryable"), FAILED, ids=[str(row[0])[:40] for row in FAILED])
async def test_each_form_of_an_error_has_its_stop_reason_and_kind(
    tmp_path: Path, info: Any, stop: str, kind: str, retryable: bool
) -> None:
    error: Json = {"message": "it went wrong"} | ({} if info is ABSENT else {"codexErrorInfo": info})
    steps = ["answer", "begin", {"message": "so far"}, over(status="failed", error=error)]
    with FakeCodex({"on": {"turn/start": [steps]}}) as fake:
        found = await told(fake, tmp_path)
    assert (found.result.stop_reason, found.failure.kind, found.failure.retryable) == (stop, kind, retryable)
    assert "it went wrong" in found.failure.message
    assert found.result.output == "so far"


@pytest.mark.long
@pytest.mark.parametrize("error", [None, "text", [], 7, {}, {"message": None}, {"message": ["a"]}], ids=str)
async def test_a_failure_without_a_readable_reason_is_an_error_all_the_same(tmp_path: Path, error: Any) -> None:
    with FakeCodex({"on": {"turn/start": [["answer", "begin", over(status="failed", error=error)]]}}) as fake:
        found = await told(fake, tmp_path)
    assert (found.result.stop_reason, found.failure.kind) == ("error", "unknown")
    assert found.failure.message


@pytest.mark.long
@pytest.mark.parametrize("status", ["", "paused", "inProgress", 7, None])
async def test_a_status_that_is_not_known_is_no_success(tmp_path: Path, status: Any) -> None:
    with FakeCodex({"on": {"turn/start": [["answer", "begin", {"message": "m"}, over(status=status)]]}}) as fake:
        found = await told(fake, tmp_path)
    assert (found.result.stop_reason, found.failure.kind) == ("error", "protocol")


async def test_a_turn_that_completes_without_an_answer_is_no_success(tmp_path: Path) -> None:
    with FakeCodex({"turn": []}) as fake:
        found = await told(fake, tmp_path)
    assert found.result.stop_reason == "error"


async def test_a_turn_that_the_engine_interrupted_is_aborted(tmp_path: Path) -> None:
    steps = ["answer", "begin", {"message": "so far"}, over(status="interrupted")]
    with FakeCodex({"on": {"turn/start": [steps]}}) as fake:
        found = await told(fake, tmp_path)
    assert (found.result.stop_reason, found.result.output) == ("aborted", "so far")
