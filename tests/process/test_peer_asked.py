"""What a child asks, and the one answer that it gets."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import cast

import anyio
import pytest
from peer_kit import BOUND, Told, peered

from subagent_process import JsonObject, PeerCounts, RpcError
from subagent_process import _answering as answering  # pyright: ignore[reportPrivateUsage]

pytestmark = pytest.mark.anyio


async def echo(method: str, params: JsonObject) -> object:
    return {"method": method, "params": params}


def heard(params: JsonObject) -> list[JsonObject]:
    return cast("list[JsonObject]", params["what"])


IDS = ["0", '"0"', "null", "1.5", "1.0", "true", "-7", '""', '"\\u00e9\\u0000"', "1" * 4000, "[1,[],{}]", '{"a":null}']


@pytest.mark.parametrize("envelope", [True, False])
async def test_every_id_comes_back_as_it_was(envelope: bool) -> None:
    script = f"""
ids = {IDS!r}
put(*(b'{{"id":%s,"method":"m","params":{{"n":%d}}}}\\n' % (i.encode(), n) for n, i in enumerate(ids)))
tell([sys.stdin.readline() for _ in ids])
rest()
"""
    told = Told()
    async with peered(script, answer=echo, notified=told, envelope=envelope):
        lines = cast("list[str]", (await told.wait())["what"])
    head = '"jsonrpc":"2.0",' if envelope else ""
    assert sorted(lines) == sorted(
        f'{{{head}"id":{given},"result":{{"method":"m","params":{{"n":{number}}}}}}}\n'
        for number, given in enumerate(IDS)
    )


async def test_a_slow_answer_holds_up_neither_the_reading_nor_other_answers() -> None:
    script = """
put({"id": 1, "method": "slow"}, {"id": 2, "method": "quick"})
first = hear()
put({"method": "go"})
tell([first, hear()])
rest()
"""
    go, told = anyio.Event(), Told()

    def notified(method: str, params: JsonObject) -> None:
        if method == "go":
            go.set()
        told(method, params)

    async def answer(method: str, params: JsonObject) -> object:
        if method == "slow":
            await go.wait()
        return method

    async with peered(script, answer=answer, notified=notified):
        assert heard(await told.wait()) == [{"id": 2, "result": "quick"}, {"id": 1, "result": "slow"}]


async def test_requests_with_one_and_the_same_id_are_answered_each() -> None:
    script = 'put(*({"id": 1, "method": m} for m in "abc")); tell([hear(), hear(), hear()]); rest()'
    told = Told()
    async with peered(script, answer=echo, notified=told):
        results = [cast("JsonObject", message["result"])["method"] for message in heard(await told.wait())]
    assert sorted(cast("list[str]", results)) == ["a", "b", "c"]


async def test_errors_of_the_answerer_are_the_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FAKECORP_API_KEY", "zebra-crossing-77")
    script = """
answers = []
for method in ("known", "data", "broken", "lost", "object", "nan", "bad data"):
    put({"id": 1, "method": method}); answers.append(hear())
tell(answers)
rest()
"""

    async def answer(method: str, params: JsonObject) -> object:
        match method:
            case "known":
                raise RpcError.method_not_found(method)
            case "data":
                raise RpcError(7, "seven", {"a": [1]})
            case "broken":
                raise KeyError("zebra-crossing-77" + " x" * 1000)
            case "lost":
                raise ExceptionGroup("two", [RpcError(1, "x"), ValueError("y")])
            case "object":
                return {"x": object()}
            case "nan":
                return float("nan")
            case _:
                raise RpcError(8, "eight", {1, 2})

    told = Told()
    with caplog.at_level(logging.ERROR, "subagent_process"):
        async with peered(script, answer=answer, notified=told):
            answers = heard(await told.wait())
    errors = [cast("JsonObject", message["error"]) for message in answers]
    assert [set(message) for message in answers] == [{"id", "error"}] * 7
    assert errors[0] == {"code": -32601, "message": "Method not found: known"}
    assert errors[1] == {"code": 7, "message": "seven", "data": {"a": [1]}}
    assert [error["code"] for error in errors[2:]] == [-32603] * 5
    assert str(errors[2]["message"]).startswith("Internal error: KeyError: '[redacted] x x")
    assert len(str(errors[2]["message"])) < 450
    assert [record.getMessage()[:30] for record in caplog.records] == [
        "'broken' could not be answered",
        "'lost' could not be answered: ",
        "An answer could not be written",
        "An answer could not be written",
        "An answer could not be written",
    ]
    assert "in answer\n" in caplog.text  # where it was raised
    assert "zebra" not in caplog.text


async def test_a_malformed_request_is_answered_too() -> None:
    script = """
put({"id": 1, "method": 5}, {"id": 2, "method": "x", "params": [1]}, {"id": 3, "method": "x", "params": "s"})
put({"id": None, "method": None}, {"id": 5, "method": "ok", "params": None})
tell([hear() for _ in range(5)])
rest()
"""
    told = Told()
    async with peered(script, answer=echo, notified=told) as peer:
        answers = heard(await told.wait())
        assert peer.counts == PeerCounts(refused=4)
    codes = {json.dumps(message["id"]): cast("JsonObject", message.get("error", {})).get("code") for message in answers}
    assert codes == {"1": -32600, "2": -32602, "3": -32602, "null": -32600, "5": None}


async def test_requests_beyond_the_limit_are_refused_until_one_is_done() -> None:
    script = """
put(*({"id": n, "method": "wait"} for n in range(5)))
refused = [hear() for _ in range(3)]
put({"method": "go"})
done = [hear(), hear()]
put({"id": 5, "method": "wait"})
tell([refused, done, hear()])
rest()
"""
    go, told = anyio.Event(), Told()

    def notified(method: str, params: JsonObject) -> None:
        if method == "go":
            go.set()
        told(method, params)

    async def answer(method: str, params: JsonObject) -> object:
        await go.wait()
        return 1

    async with peered(script, answer=answer, notified=notified, answer_limit=2) as peer:
        refused, done, last = cast("tuple[list[JsonObject], list[JsonObject], JsonObject]", (await told.wait())["what"])
        assert peer.counts == PeerCounts(refused=3)
    assert [message["id"] for message in refused] == [2, 3, 4]
    assert {cast("JsonObject", message["error"])["code"] for message in refused} == {-32001}
    assert sorted(cast("list[int]", [message["id"] for message in done])) == [0, 1]
    assert last == {"id": 5, "result": 1}


async def test_a_flood_is_answered_one_by_one_though_the_child_reads_only_afterwards() -> None:
    script = """
for n in range(5000): put({"id": n, "method": "x"})
put({"method": "written"})
tell(sorted(hear()["id"] for _ in range(5000)) == list(range(5000)))
rest()
"""
    told, running = Told(), list[int]()

    def notified(method: str, params: JsonObject) -> None:
        if method == "written":
            running.append(len(anyio.get_running_tasks()))
        told(method, params)

    async with peered(script, answer=echo, notified=notified, answer_limit=8) as peer:
        assert (await told.wait())["what"] is True
        assert peer.counts.refused > 1000
    assert running[0] < 100  # though thousands of refusals waited


async def test_a_child_that_floods_and_never_reads_is_no_longer_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "_UNREAD", 20_000)
    script = """
import select
os.set_blocking(1, False)
line, rest_of_line, sent = b"", b"", 0
while sent < 20_000:  # until nobody has taken anything for a while
    rest_of_line = rest_of_line or b'{"id":%d,"method":"x"}\\n' % sent
    try:
        rest_of_line = rest_of_line[os.write(1, rest_of_line):]
        sent += not rest_of_line
    except BlockingIOError:
        if not select.select([], [1], [], 0.5)[1]: break
os.set_blocking(1, True)
stuck = sent < 20_000
answers = [hear()["id"] for _ in range(sent)]
if rest_of_line: put(rest_of_line); answers.append(hear()["id"]); sent += 1
tell([stuck, sorted(answers) == list(range(sent))])
rest()
"""
    told = Told()
    async with peered(script, answer=echo, notified=told, answer_limit=8):
        assert (await told.wait())["what"] == [True, True]


@pytest.mark.parametrize("method", ['"x"', "5"])
async def test_an_id_nested_as_deeply_as_can_be_read_stops_nothing(method: str) -> None:
    script = f"""
for depth in (*range(800, 1000), *range(1000, 12_000, 500), 200_000):
    put(b'{{"id":%s1%s,"method":{method}}}\\n' % (b"[" * depth, b"]" * depth))
put({{"id": "last", "method": "x"}})
while b'"last"' not in sys.stdin.buffer.readline(): pass
tell(True)
rest()
"""
    told = Told()
    async with peered(script, answer=echo, notified=told, answer_limit=1000):
        assert (await told.wait())["what"] is True


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio cancels by scopes alone
async def test_a_future_that_was_cancelled_below_the_answerer_is_an_internal_error() -> None:
    async def answer(method: str, params: JsonObject) -> object:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.cancel)
        return await future

    told = Told()
    async with peered('put({"id": 1, "method": "x"}); tell([hear()]); rest()', answer=answer, notified=told):
        (got,) = heard(await told.wait())
    assert cast("JsonObject", got["error"])["code"] == -32603


async def test_an_answerer_may_ask_back() -> None:
    script = """
hear()
put({"id": 0, "method": "inner"})
hear()
put({"id": 1, "result": "deep"})
put({"id": 0, "result": hear()})
rest()
"""
    asked: list[object] = []

    async def answer(method: str, params: JsonObject) -> object:
        with anyio.fail_after(BOUND):
            asked.append(await outer.request("deeper"))
        return asked

    async with peered(script, answer=answer) as outer:
        assert await outer.request("x") == {"id": 0, "result": ["deep"]}
