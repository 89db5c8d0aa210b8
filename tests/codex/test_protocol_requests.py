"""What the app-server asks: one answer each, under its own id, in the shape of its own kind, whenever it asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from protocol_kit import BOUND, Json, answered, answers, both_loops, codex, follow, said, told, turn, wrong

from subagent_testing import FakeCodex
from subagents import Permission, PermissionEvent, PermissionRequest

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


COMMAND, CHANGE = "item/commandExecution/requestApproval", "item/fileChange/requestApproval"
PERMISSIONS = "item/permissions/requestApproval"
TEN = [
    COMMAND,
    CHANGE,
    PERMISSIONS,
    "item/tool/requestUserInput",
    "mcpServer/elicitation/request",
    "item/tool/call",
    "account/chatgptAuthTokens/refresh",
    "attestation/generate",
    "applyPatchApproval",
    "execCommandApproval",
]
TIME, NEW = "currentTime/read", "brandNew/thing"

REFUSALS: dict[str, Json] = {
    COMMAND: {"result": {"decision": "decline"}},
    CHANGE: {"result": {"decision": "decline"}},
    PERMISSIONS: {"result": {"permissions": {}, "scope": "turn"}},
    "mcpServer/elicitation/request": {"result": {"action": "decline", "content": None}},
    "applyPatchApproval": {"result": {"decision": {"denied": {"rejection": "the client refused"}}}},
    "execCommandApproval": {"result": {"decision": {"denied": {"rejection": "the client refused"}}}},
}


def grant(request: PermissionRequest) -> Literal["allow_once"]:
    """Somebody who grants whatever can be granted."""
    return "allow_once"


def raises(request: PermissionRequest) -> Literal["allow_once"]:
    raise RuntimeError("nobody is at home")


@pytest.mark.parametrize(
    "permission", ["reject", "allow", grant, raises], ids=["reject", "allow", "callback", "raises"]
)
async def test_each_kind_of_request_is_answered_once_in_its_own_shape(tmp_path: Path, permission: Permission) -> None:
    script = turn(*[{"ask": method} for method in (*TEN, NEW)], {"message": "done"})
    with FakeCodex(script) as fake:
        found = await told(fake, tmp_path, permission=permission, max_refusals=50)
        assert found.result.output == "done"
        assert wrong(fake) == []
        assert [verdict.method for verdict in fake.verdicts] == [*TEN, NEW]
        assert [number for number, _ in answers(fake)] == list(range(11))
        got = dict(zip((*TEN, NEW), (body for _, body in answers(fake)), strict=True))
        assert got[NEW]["error"]["code"] == -32601
        if permission in ("reject", raises):
            assert {method: got[method] for method in REFUSALS} == REFUSALS


async def test_allow_grants_nothing_that_a_read_only_sandbox_does_not(tmp_path: Path) -> None:
    script = turn(*[{"ask": method} for method in TEN], {"message": "done"})
    with FakeCodex(script) as fake:
        await told(fake, tmp_path, permission="allow", max_refusals=50)
        got = dict(zip(TEN, (body for _, body in answers(fake)), strict=True))
        assert {method: got[method] for method in REFUSALS} == REFUSALS


async def test_a_callback_grants_by_name_what_goes_beyond(tmp_path: Path) -> None:
    seen: list[PermissionRequest] = []

    async def callback(request: PermissionRequest) -> Literal["allow_once"]:
        seen.append(request)
        return grant(request)

    with FakeCodex(turn({"ask": COMMAND}, {"ask": CHANGE}, {"ask": PERMISSIONS}, {"message": "done"})) as fake:
        found = await told(fake, tmp_path, permission=callback)
        command, change, permissions = (body["result"] for _, body in answers(fake))
    assert (command, change) == ({"decision": "accept"}, {"decision": "accept"})
    assert permissions["scope"] == "turn"
    assert [request.beyond for request in seen] == [True, True, True]
    assert len(found.of(PermissionEvent)) >= 3


async def test_the_time_is_told_under_any_permission_and_counts_as_no_refusal(tmp_path: Path) -> None:
    with FakeCodex(turn(*[{"ask": TIME}] * 5, {"message": "done"})) as fake:
        found = await told(fake, tmp_path, max_refusals=1)
        assert found.result.ok
        assert len(answers(fake)) == 5
        assert all(isinstance(body["result"]["currentTimeAt"], int) for _, body in answers(fake))


HOSTILE: list[Any] = [0, "0", 10**30, None, -1, "", True, 1.5, [0], {"id": 0}, "x" * 5000]


async def test_an_id_comes_back_as_it_came(tmp_path: Path) -> None:
    """Zero, a text, null and the rest are ids of requests, and none of them is taken for an answer to one of ours."""
    asks = [{"ask": {"method": CHANGE, "id": number}} for number in HOSTILE]
    with FakeCodex(turn(*asks, {"message": "done"})) as fake:
        found = await told(fake, tmp_path, max_refusals=50)
    assert found.result.output == "done"
    assert [repr(number) for number, _ in answers(fake)] == [repr(number) for number in HOSTILE]
    assert wrong(fake) == []


async def test_asked_twice_under_one_id_both_are_answered(tmp_path: Path) -> None:
    twice = [{"ask": {"method": method, "id": 7, "wait": False}} for method in (COMMAND, CHANGE, COMMAND)]
    with FakeCodex(turn(*twice, {"gate": "answered"}, {"message": "done"})) as fake:
        found = await answered(fake, tmp_path, 3)
        assert found.result.output == "done"
        assert answers(fake) == [(7, {"result": {"decision": "decline"}})] * 3


async def test_a_callback_that_is_too_slow_is_a_rejection(tmp_path: Path) -> None:
    async def callback(request: PermissionRequest) -> Literal["allow_once"]:
        await anyio.sleep_forever()
        raise AssertionError("unreachable")

    with FakeCodex(turn({"ask": COMMAND}, {"message": "done"})) as fake, anyio.fail_after(BOUND):
        provider = codex(fake)
        provider.ask_timeout = 0.1
        async with provider.start("go", cwd=tmp_path, permission=callback) as run:
            found = await follow(run)
        assert found.result.output == "done"
        assert answers(fake) == [(0, {"result": {"decision": "decline"}})]


@both_loops
async def test_several_at_once_are_answered_each_while_the_turn_goes_on(tmp_path: Path) -> None:
    """A slow answer to the first holds up neither the others nor the events."""
    slow = anyio.Event()

    async def callback(request: PermissionRequest) -> Literal["allow_once"]:
        if request.kind == "execute":
            await slow.wait()
        return grant(request)

    asks = [{"ask": {"method": method, "wait": False}} for method in (COMMAND, CHANGE, PERMISSIONS)]
    script = turn(*asks, {"message": "meanwhile"}, {"gate": "go"}, {"ask": CHANGE}, {"message": "done"})
    with FakeCodex(script) as fake, anyio.fail_after(BOUND):
        async with codex(fake).start("go", cwd=tmp_path, permission=callback) as run:
            await said(run, "meanwhile")
            await fake.happened("answer", 2)
            assert sorted(number for number, _ in answers(fake)) == [1, 2]
            slow.set()
            await fake.happened("answer", 3)
            fake.open("go")
            found = await follow(run)
    assert found.result.output == "done"
    assert sorted(number for number, _ in answers(fake)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "method",
    [COMMAND, *(pytest.param(method, marks=pytest.mark.long) for method in (CHANGE, PERMISSIONS, TEN[4], TEN[5]))],
)
async def test_asked_again_and_again_a_run_ends_at_its_bound(tmp_path: Path, method: str) -> None:
    with FakeCodex(turn(*[{"ask": method}] * 20, {"message": "never"})) as fake:
        found = await told(fake, tmp_path, max_refusals=3)
        assert found.failure.kind == "policy"
        assert "3 requests were refused" in found.failure.message
        assert [number for number, _ in answers(fake)][:3] == [0, 1, 2]
        assert len(answers(fake)) < 20
        assert wrong(fake) == []


EARLY = [
    ("initialize", [{"ask": COMMAND}, {"ask": TEN[7]}, {"ask": NEW}, "answer"]),
    ("thread/start", [{"ask": COMMAND}, {"ask": PERMISSIONS}, {"ask": NEW}, "answer"]),
    ("turn/start", [{"ask": COMMAND}, {"ask": CHANGE}, {"ask": NEW}, "answer", "turn"]),
]


@pytest.mark.parametrize(("moment", "steps"), EARLY, ids=[moment for moment, _ in EARLY])
async def test_what_is_asked_before_our_own_request_is_answered_is_answered(
    tmp_path: Path, moment: str, steps: list[Any]
) -> None:
    """Each waits for the other: neither an approval nor the start may wait for something later."""
    with FakeCodex({"turn": [{"message": "done"}], "on": {moment: [steps]}}) as fake:
        found = await told(fake, tmp_path)
        assert found.result.output == "done"
        assert len(fake.verdicts) == 3
        assert wrong(fake) == []


async def test_what_is_asked_after_the_end_of_the_turn_is_answered_cancel(tmp_path: Path) -> None:
    """Nobody is asked any more, and the verdict stays what it was."""
    late = ["answer", {"turn": [{"message": "done"}]}, {"ask": COMMAND}, {"ask": PERMISSIONS}, {"ask": NEW}]
    on: Json = {"turn/start": [late], "EOF": [[{"wait": "never"}]]}
    asked: list[PermissionRequest] = []

    async def callback(request: PermissionRequest) -> Literal["allow_once"]:
        asked.append(request)
        return grant(request)

    with FakeCodex({"on": on}) as fake, anyio.fail_after(BOUND):
        async with codex(fake, eof_grace=0.5).start("go", cwd=tmp_path, permission=callback) as run:
            found = await follow(run)
        assert found.result.output == "done"
        assert asked == []
        assert wrong(fake) == []
        assert [body for number, body in answers(fake) if number == 0] in ([], [{"result": {"decision": "cancel"}}])


@both_loops
async def test_cancelling_answers_what_is_open_and_what_is_asked_from_then_on_with_cancel(tmp_path: Path) -> None:
    asked = anyio.Event()

    async def callback(request: PermissionRequest) -> Literal["allow_once"]:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError("unreachable")

    on: Json = {"turn/interrupt": [[{"ask": CHANGE}, {"ask": PERMISSIONS}, "answer", "interrupted"]]}
    with FakeCodex({"turn": [{"ask": COMMAND}, "work"], "on": on}) as fake, anyio.fail_after(BOUND):
        async with codex(fake).start("go", cwd=tmp_path, permission=callback) as run:
            await asked.wait()
            run.cancel("enough")
            result = await run.closed()
        assert result.stop_reason == "aborted"
        assert [v.answer["result"] for v in fake.verdicts] == [
            {"decision": "cancel"},
            {"decision": "cancel"},
            {"permissions": {}, "scope": "turn"},
        ]
        assert wrong(fake) == []


@both_loops
async def test_one_that_asks_on_every_answer_while_cancelling_holds_up_nothing(tmp_path: Path) -> None:
    on: Json = {
        "turn/interrupt": [[*[{"ask": COMMAND}] * 200, {"mark": "all asked"}, {"wait": "never"}]],
        "EOF": [[{"wait": "never"}]],
    }
    with FakeCodex({"turn": ["work"], "on": on}) as fake, anyio.fail_after(BOUND):
        grace: Json = {"interrupt_grace": 0.3, "eof_grace": 0.1, "term_grace": 0.1}
        async with codex(fake, **grace).start("go", cwd=tmp_path, permission="allow") as run:
            run.cancel()
            result = await run.closed()
        assert result.stop_reason == "aborted"
        assert result.evidence.process is not None
        assert result.evidence.process.clean
        assert wrong(fake) == []
        assert {str(verdict.answer["result"]) for verdict in fake.verdicts} <= {"{'decision': 'cancel'}"}


async def test_a_flood_of_requests_is_answered_and_does_not_end_the_run(tmp_path: Path) -> None:
    """Beyond what is taken on at once the answer is "overloaded", never silence."""
    asks = [{"ask": {"method": NEW, "wait": False}} for _ in range(1000)]
    with FakeCodex(turn(*asks, {"gate": "answered"}, {"message": "done"})) as fake:
        found = await answered(fake, tmp_path, 1000)
        assert found.result.output == "done"
        assert sorted(number for number, _ in answers(fake)) == list(range(1000))
        assert {body["error"]["code"] for _, body in answers(fake)} <= {-32601, -32001}


@pytest.mark.parametrize("params", [[], "text", 7, True, {"itemId": 5, "command": ["ls"], "availableDecisions": {}}])
async def test_parameters_of_a_wrong_type_are_refused_and_never_allowed(tmp_path: Path, params: Any) -> None:
    message = {"method": COMMAND, "id": "odd", "params": params}
    with FakeCodex(turn({"send": message}, {"gate": "answered"}, {"message": "done"})) as fake:
        found = await answered(fake, tmp_path, 1, permission="allow")
        ((number, body),) = answers(fake)
    assert found.result.output == "done"
    assert number == "odd"
    if isinstance(params, dict):
        assert body["result"] == {"decision": "decline"}
    else:
        assert body["error"]["code"] == -32602
