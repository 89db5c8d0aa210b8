"""Our requests, and what comes back for them."""

from __future__ import annotations

import json

import anyio
import pytest
from peer_kit import BOUND, Told, peered, refuse, start

from subagent_process import InvalidAnswer, JsonObject, Peer, PeerCounts, RpcError

pytestmark = pytest.mark.anyio


async def test_answers_out_of_order_find_their_requests() -> None:
    script = """
asked = [hear() for _ in range(20)]
for message in reversed(asked): put({"id": message["id"], "result": message["params"]["n"]})
rest()
"""
    got: dict[int, object] = {}
    async with peered(script) as peer, anyio.create_task_group() as tasks:

        async def ask(number: int) -> None:
            got[number] = await peer.request("square", {"n": number})

        for number in range(20):
            tasks.start_soon(ask, number)
    assert got == {number: number for number in range(20)}


@pytest.mark.parametrize("envelope", [True, False])
async def test_what_is_written_is_plain_json_rpc_with_ids_counted_from_0(envelope: bool) -> None:
    script = """
lines = [sys.stdin.readline() for _ in range(4)]
put({"id": 0, "result": 0}, {"id": 1, "result": lines})
rest()
"""
    lines: list[object] = []
    async with peered(script, envelope=envelope) as peer, anyio.create_task_group() as tasks:
        tasks.start_soon(peer.request, "first")
        await anyio.wait_all_tasks_blocked()
        await peer.notify("ready")
        await peer.notify("set", {"t": "é\u2028"})
        lines.append(await peer.request("second", {}))
    head = '"jsonrpc":"2.0",' if envelope else ""
    assert lines[0] == [
        f'{{{head}"id":0,"method":"first"}}\n',
        f'{{{head}"method":"ready"}}\n',
        f'{{{head}"method":"set","params":{{"t":"\\u00e9\\u2028"}}}}\n',
        f'{{{head}"id":1,"method":"second","params":{{}}}}\n',
    ]


async def test_a_request_of_the_child_with_an_open_id_of_ours_is_no_answer() -> None:
    script = """
assert hear()["id"] == 0
put({"id": 0, "method": "ask", "params": {}, "result": "no answer"})
answer = hear()
put({"id": 0, "result": answer})
rest()
"""

    async def answer(method: str, params: JsonObject) -> object:
        return f"{method} {params}"

    async with peered(script, answer=answer) as peer:
        assert await peer.request("start") == {"id": 0, "result": "ask {}"}
        assert peer.counts == PeerCounts()


async def test_an_id_that_only_looks_like_ours_is_not_ours() -> None:
    script = """
hear()
put({"id": 0, "result": "the first"})
hear()
for hostile in ("1", 1.0, True, None, [1], {"1": 1}, "", -1, 2, 10**30, 1e300):
    put({"id": hostile, "result": "hostile"})
put({"id": 1, "result": "ours"})
rest()
"""
    async with peered(script) as peer:
        assert await peer.request("a") == "the first"
        assert await peer.request("b") == "ours"
        assert peer.counts == PeerCounts(unknown=11)


async def test_the_first_answer_counts() -> None:
    script = """
hear()
put({"id": 0, "result": 1}, {"id": 0, "result": 2}, {"id": 0, "error": {"code": 1, "message": "x"}})
hear()
put({"id": 1, "result": 3})
rest()
"""
    async with peered(script) as peer:
        assert await peer.request("a") == 1
        assert await peer.request("b") == 3
        assert peer.counts == PeerCounts(duplicate=2)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"result": None}, None),
        ({"result": [1], "error": None}, [1]),
        ({"result": {"method": "x"}, "jsonrpc": "2.0", "more": 1}, {"method": "x"}),
    ],
)
async def test_a_result_is_any_json(answer: JsonObject, result: object) -> None:
    async with peered(f"hear(); put({{'id': 0, **{answer!r}}}); rest()") as peer:
        assert await peer.request("x") == result


@pytest.mark.parametrize("beside", [{}, {"result": None}])
async def test_an_error_is_raised_with_what_the_child_said(beside: JsonObject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKECORP_API_KEY", "zebra-crossing-77")
    error = {"code": -32600, "message": "no zebra-crossing-77 " + "x" * 10_000, "data": {"max": 1}}
    async with peered(f"hear(); put({{'id': 0, 'error': {error!r}, **{beside!r}}}); rest()") as peer:
        with pytest.raises(RpcError, match=r"to thread/start is error -32600: no \[redacted\] x+ …\Z") as got:
            await peer.request("thread/start")
    assert (got.value.code, got.value.data) == (-32600, {"max": 1})
    assert got.value.message in str(got.value)
    assert len(got.value.message) < 4100


async def test_an_error_needs_no_data() -> None:
    async with peered('hear(); put({"id": 0, "error": {"code": -32001, "message": "later"}}); rest()') as peer:
        with pytest.raises(RpcError) as got:
            await peer.request("x")
    assert (got.value.code, got.value.message, got.value.data) == (-32001, "later", None)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"error": None},
        {"error": "token=zebra-crossing-77"},
        {"error": {}},
        {"error": {"code": "1", "message": "x"}},
        {"error": {"code": True, "message": "x"}},
        {"error": {"code": 1, "message": 5}},
        {"error": {"code": 1, "message": "x"}, "result": {}},
        {"error": {"code": 1, "message": "x"}, "result": 0},
        {"error": "x" * 1000, "result": 1},
    ],
)
async def test_what_is_no_answer_fails_its_request_and_no_other(
    members: JsonObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKECORP_API_KEY", "zebra-crossing-77")
    script = f"hear(); put({{'id': 0, **{members!r}}}); hear(); put({{'id': 1, 'result': 5}}); rest()"
    async with peered(script) as peer:
        with pytest.raises(InvalidAnswer, match="answered thread/start with something that is not one") as got:
            await peer.request("thread/start")
        assert await peer.request("next") == 5
        assert peer.counts == PeerCounts()
    assert got.value.method == "thread/start"
    assert "zebra" not in str(got.value)
    assert len(str(got.value)) < 700


async def test_an_answer_nested_as_deeply_as_can_be_read_fails_its_request_alone() -> None:
    script = """
for depth in (*range(500, 1000, 5), *range(1000, 12_000, 500), 200_000):  # the deepest ones cannot be read at all
    number = hear()["id"]
    put(b'{"id":%d,"error":%s1%s}\\n' % (number, b"[" * depth, b"]" * depth), {"id": number, "error": "flat"})
rest()
"""
    texts: list[str] = []

    async def below(frames: int) -> None:
        if frames:
            await below(frames - 1)
        else:
            with pytest.raises(InvalidAnswer) as got:
                await peer.request("x")
            texts.append(str(got.value))

    async with peered(script) as peer:
        for _ in range(123):
            await below(150)
    assert "[[[[" in texts[0]
    assert '"flat"' in texts[-1]


async def test_a_request_that_is_not_answered_in_time_says_so_and_its_late_answer_is_counted() -> None:
    script = """
late = hear()
other = hear()
put({"id": late["id"], "result": "late"}, {"id": late["id"], "result": "later"}, {"id": other["id"], "result": "ok"})
rest()
"""
    async with peered(script) as peer:
        with pytest.raises(TimeoutError, match=r"python\S* did not answer thread/start within 0.05 s\."):
            await peer.request("thread/start", timeout=0.05)
        assert await peer.request("next") == "ok"
        assert peer.counts == PeerCounts(late=1, duplicate=1)


async def test_the_limit_of_the_peer_holds_unless_the_call_has_its_own() -> None:
    script = """
asked = hear()
hear()
assert hear()["method"] == "now"
put({"id": asked["id"], "result": "patience"})
rest()
"""
    async with peered(script, request_timeout=0.05) as peer, anyio.create_task_group() as tasks:

        async def patient() -> None:
            assert await peer.request("long", timeout=None) == "patience"

        tasks.start_soon(patient)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(TimeoutError, match=r"short within 0.05 s"):
            await peer.request("short")
        await peer.notify("now")


async def test_a_cancelled_request_forgets_its_id() -> None:
    script = """
hear()
tell("heard")
hear()
put({"id": 0, "result": "late"}, {"id": 1, "result": "ok"})
rest()
"""
    told = Told()
    async with peered(script, notified=told) as peer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.request, "x")
            await told.wait()
            tasks.cancel_scope.cancel()
        assert await peer.request("y") == "ok"
        assert peer.counts == PeerCounts(late=1)


async def test_a_child_that_does_not_read_is_told_nothing_for_ever() -> None:
    async with peered("signal.pause()", request_timeout=0.1) as peer:
        with pytest.raises(TimeoutError, match=r"did not answer much within 0\.1 s"):
            await peer.request("much", {"x": "y" * 200_000})
        with pytest.raises(TimeoutError, match=r"did not read more within 0\.1 s"):
            await peer.notify("more")


async def test_requests_that_were_given_up_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subagent_process.peer._GIVEN_UP", 3)
    script = """
for number in range(5):
    assert hear()["id"] == number
    put({"method": f"heard {number}"})
hear()
put(*({"id": number, "result": 0} for number in range(5)), {"id": 5, "result": "ok"})
rest()
"""
    told = Told()
    async with peered(script, notified=told) as peer:
        for number in range(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(peer.request, "x")
                await told.wait(f"heard {number}")
                tasks.cancel_scope.cancel()
        assert await peer.request("y") == "ok"
        assert peer.counts == PeerCounts(late=3, duplicate=2)


async def test_an_answer_with_every_member_written_is_an_answer() -> None:
    script = """
put({"id": hear()["id"], "method": None, "params": None, "result": "ok", "error": None})
put({"id": hear()["id"], "method": None, "params": None, "error": {"code": 5, "message": "no"}})
rest()
"""
    async with peered(script) as peer:
        assert await peer.request("x") == "ok"
        with pytest.raises(RpcError, match="no"):
            await peer.request("y")


async def test_params_that_json_has_no_form_for_are_refused_and_nothing_is_sent() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    script = "assert hear()['id'] == 2; put({'id': 2, 'result': 0}, {'id': 0, 'result': 0}); rest()"
    async with peered(script) as peer:
        with pytest.raises(TypeError):
            await peer.request("x", {"x": object()})
        with pytest.raises(RecursionError):
            await peer.request("x", {"x": deep})
        while deep:  # else its end exhausts the stack of the interpreter
            deep = deep.pop()  # pyright: ignore[reportAssignmentType]
        with pytest.raises(ValueError, match="JSON compliant"):
            await peer.notify("x", {"x": float("inf")})
        assert await peer.request("y") == 0
        await peer.notify("z")
        assert peer.counts == PeerCounts(duplicate=1), "there was nothing to give up"


async def test_notifications_are_handed_over_in_order_and_before_what_follows_them() -> None:
    script = """
hear()
put(*({"method": "n", "params": {"n": n}} for n in range(3000)), {"id": 0, "result": 1})
rest()
"""
    seen: list[object] = []
    async with peered(script, notified=lambda _, params: seen.append(params["n"])) as peer:
        assert await peer.request("x") == 1
        assert seen == list(range(3000))


async def test_a_notification_needs_no_params_and_may_carry_more_members() -> None:
    script = """
put({"method": "a"}, {"method": "b", "params": None, "emittedAtMs": 5}, {"method": "", "jsonrpc": "1.0", "result": 1})
rest()
"""
    told = Told()
    async with peered(script, notified=told):
        await told.wait("")
    assert told.all == [("a", {}), ("b", {}), ("", {})]


async def test_what_is_no_message_is_counted_and_stops_nothing() -> None:
    script = r"""
put({}, {"result": 1}, {"jsonrpc": "2.0"})
put({"method": 5}, {"method": None, "params": {}}, {"method": "x", "params": [1]})
put(b"\xef\xbb\xbf" + b'{"method":"bom"}\r\n', b"\r\n\r\n", b"welcome!\n", b'[{"method":"batch"}]\n', b"null\n42\n")
put(b'{"method":"glued"}{"method":"glued"}\n', b'{"method":\n', b'\x1b[0m{"method":"last"}\n')
rest()
"""
    told = Told()
    async with peered(script, notified=told) as peer:
        await told.wait("last")
        assert [method for method, _ in told.all] == ["bom", "glued", "glued", "last"]
        assert peer.counts == PeerCounts(invalid=6)
        assert peer.noise_count == 5
        assert peer.noise[:2] == ("welcome!", '[{"method":"batch"}]')


async def test_a_line_of_12_mb_passes() -> None:
    script = 'put({"id": hear()["id"], "result": "x" * 12_000_000}); rest()'
    async with peered(script) as peer:
        assert await peer.request("big") == "x" * 12_000_000


async def test_a_request_may_be_made_before_the_reading_begins() -> None:
    process = await start('put({"id": 0, "result": hear()["method"]}); rest()')
    peer = Peer(process, answer=refuse, notified=print, envelope=False)
    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as tasks, process:

            async def ask() -> None:
                assert await peer.request("early") == "early"

            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(peer.run)


async def test_what_makes_no_sense_is_refused() -> None:
    async with await start("rest()") as process:
        with pytest.raises(ValueError, match="answer_limit is 0"):
            Peer(process, answer=refuse, notified=print, answer_limit=0)
        for wrong in (0.0, -1.0, float("nan")):
            with pytest.raises(ValueError, match="request_timeout is"):
                Peer(process, answer=refuse, notified=print, request_timeout=wrong)


def test_method_not_found_is_an_error_of_its_code() -> None:
    error = RpcError.method_not_found("brandNew/thing")
    assert (error.code, error.message) == (-32601, "Method not found: brandNew/thing")
    assert json.dumps(error.data) == "null"
