"""What the app-server writes, byte by byte: large, cut, glued, with noise, and beyond the limit."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from protocol_kit import Json, answered, answers, refused, told, turn

from subagent_testing import FakeCodex

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


MiB = 1 << 20
LIMIT = 64 * MiB


@pytest.mark.parametrize("size", [70_000, 131_072, 1_048_577, pytest.param(12_000_000, marks=pytest.mark.long)])
async def test_a_long_line_is_read_whole_and_so_is_what_follows(tmp_path: Path, size: int) -> None:
    steps = [{"message": {"bytes": size}}, {"notify": {"method": "warning", "params": {"message": "after"}}}]
    with FakeCodex(turn(*steps)) as fake:
        found = await told(fake, tmp_path)
    assert found.result.output == "x" * size
    assert found.notices("warning") == ["after"]
    assert found.result.evidence.events_lost == 0


async def test_a_line_beyond_the_limit_is_one_clear_error_and_the_next_run_works(tmp_path: Path) -> None:
    steps = [{"message": "so far"}, {"raw": {"text": "x" * 1000, "times": 70_000}}, {"raw": "\n"}, {"message": "after"}]
    with FakeCodex(turn(*steps)) as fake:
        found = await told(fake, tmp_path)
        assert found.failure.kind == "protocol"
        assert "70,000,000 bytes" in found.failure.message
        assert f"{LIMIT:,}" in found.failure.message
        assert found.result.output == "so far"
        assert found.result.evidence.process is not None
        assert found.result.evidence.process.clean
    with FakeCodex() as fake:
        assert (await told(fake, tmp_path)).result.ok


async def test_a_line_without_an_end_is_given_up_and_not_kept(tmp_path: Path) -> None:
    """A child that never ends its line cannot fill our memory: no more than the limit is held."""
    steps = [{"raw": {"text": "x" * 1000, "times": 90_000}}, {"exit": 0}]
    with FakeCodex(turn(*steps)) as fake:
        gc.collect()
        tracemalloc.start()
        try:
            found = await told(fake, tmp_path)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert found.failure.kind == "protocol"
    assert peak < 2.5 * LIMIT


async def test_a_line_beyond_the_limit_before_the_task_is_taken_says_so_too(tmp_path: Path) -> None:
    steps = [{"raw": {"text": "x" * 1000, "times": 70_000}}, {"raw": "\n"}, "answer"]
    with FakeCodex({"on": {"initialize": [steps]}}) as fake:
        failure = await refused(fake, tmp_path)
    assert (failure.kind, failure.stage) == ("protocol", "start")
    assert "70,000,000 bytes" in failure.message


async def test_many_lines_are_each_measured_alone(tmp_path: Path) -> None:
    """30 MB in lines of 1 KiB, each an event; what a reader that keeps up gets of them is all of them."""
    params = {"threadId": "$thread", "turnId": "$turn", "itemId": "msg_1", "delta": "x" * 1024}
    burst = {"burst": {"count": 30_000, "method": "item/agentMessage/delta", "params": params}}
    with FakeCodex(turn(burst)) as fake:
        found = await told(fake, tmp_path)
    assert found.result.output == "x" * 1024 * 30_000
    assert found.text == found.result.output
    assert found.result.evidence.events_lost == 0


@pytest.mark.parametrize("chunk", [1, 2, 3, 7])
async def test_characters_that_are_cut_between_two_writes_arrive_whole(tmp_path: Path, chunk: int) -> None:
    text = "한글 ≤ 🧪 \u2028\u2029\u0085\x0b\x1c\r\n ende\ud7ff"
    with FakeCodex(turn({"wire": {"chunk": chunk}}, {"message": text}, {"wire": {}})) as fake:
        found = await told(fake, tmp_path)
    assert found.result.output == text
    assert found.text == text


async def test_a_character_across_the_edge_of_a_chunk_arrives_whole(tmp_path: Path) -> None:
    texts = ["x" * (65_536 - cut) + "🧪" * 20 for cut in range(100, 400, 60)]
    with FakeCodex(turn(*[{"message": text} for text in texts])) as fake:
        found = await told(fake, tmp_path)
    assert found.text == "".join(texts)
    assert found.result.output == texts[-1]


async def test_raw_separators_of_unicode_end_no_line(tmp_path: Path) -> None:
    text = "a\u2028b\u2029c\u0085d"
    message = {
        "method": "item/completed",
        "params": {
            "threadId": "$thread",
            "turnId": "$turn",
            "item": {"type": "agentMessage", "id": "m", "text": text},
        },
    }
    with FakeCodex(turn({"wire": {"end": "\r\n"}}, {"send": message})) as fake:
        found = await told(fake, tmp_path)
    assert (found.result.output, found.text) == (text, text)


NOISE = [
    "Now using node v22.9.1 (npm v10.9.0)",
    "direnv: export +FOO",
    "npm warn exec The following package was not found",
    "",
    "   \t ",
    "[1,2]",
    '"text"',
    "{not json",
    "null",
    "42",
    "\x1b[32mWelcome back\x1b[0m",
    "\x00\x01\x02",
    '{"method":5}',
    '{"method":"warning","params":[1]}',
    '{"id":99999,"result":{}}',
    '{"id":-1,"result":{}}',
    '{"id":"0","result":{"codexHome":"/elsewhere"}}',
    '{"id":true,"error":{}}',
    "[[[[" * 5000,
    '{"a":' * 5000,
    '{"method":"warning","params":{"message":NaN}}',
]


async def test_noise_before_and_between_the_messages_is_passed_over(tmp_path: Path) -> None:
    noise = [{"raw": f"{line}\n"} for line in NOISE]
    odd = [{"raw": {"hex": "ff fe 80 0a"}}, {"raw": {"hex": "c3 28 0a"}}]
    steps: list[Any] = [*noise, {"message": "one"}, *odd, *noise, {"message": "two"}, *noise]
    on: Json = {"start": [noise], "initialize": [[*noise, "answer", *noise]], "thread/start": [[*noise, "answer"]]}
    with FakeCodex(turn(*steps, on=on)) as fake:
        found = await told(fake, tmp_path)
    assert found.text == "onetwo"
    assert found.result.output == "two"
    assert found.result.stop_reason == "completed"
    assert answers(fake) == []


async def test_noise_is_in_the_words_of_an_exit_bounded_and_without_secrets(tmp_path: Path) -> None:
    secret = "sk-" + "proj-" + "a1B2c3D4" * 5
    steps = [{"raw": {"text": "Now using node v22.9.1\n", "times": 5000}}, {"raw": f"OPENAI_API_KEY={secret}\n"}]
    with FakeCodex(turn(*steps, {"exit": 3})) as fake:
        failure = (await told(fake, tmp_path)).failure
    assert (failure.kind, failure.exit_code) == ("exit", 3)
    assert "Now using node v22.9.1" in failure.message
    assert secret not in failure.message
    assert len(failure.message.encode()) <= 4096


async def test_a_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    start: list[Any] = [{"raw": {"hex": "ef bb bf"}}, {"wire": {"end": "\r\n"}}]
    blank: list[Any] = [{"raw": "\r\n\r\n"}]
    on: Json = {"start": [start], "initialize": [["answer", *blank]], "thread/start": [[*blank, "answer"]]}
    with FakeCodex(turn({"message": "done"}, on=on)) as fake:
        assert (await told(fake, tmp_path)).result.output == "done"


async def test_many_objects_in_one_write_are_all_read(tmp_path: Path) -> None:
    line = '{"method":"brandNew/thing","id":%d}\n{"method":"warning","params":{"message":"w%d"}}\n'
    burst = {"raw": "".join(line % (number, number) for number in range(40))}
    with FakeCodex(turn(burst, {"gate": "answered"}, {"message": "done"})) as fake:
        found = await answered(fake, tmp_path, 40)
    assert found.notices("warning") == [f"w{number}" for number in range(40)]
    assert sorted(number for number, _ in answers(fake)) == list(range(40))


async def test_objects_glued_to_one_line_are_as_many_messages(tmp_path: Path) -> None:
    glued: Json = {"raw": '{"method":"warning","params":{"message":"glued"}}{"method":"brandNew/thing","id":5}\n'}
    with FakeCodex(turn(glued, {"gate": "answered"}, {"message": "done"})) as fake:
        found = await answered(fake, tmp_path, 1)
        assert (found.result.output, found.notices("warning")) == ("done", ["glued"])
        assert [(number, body["error"]["code"]) for number, body in answers(fake)] == [(5, -32601)]


async def test_an_object_glued_to_half_of_another_is_noise_that_an_exit_names(tmp_path: Path) -> None:
    glued: Json = {"raw": '{"method":"warning","params":{"message":"glued"}}{"method":"brandNew/thing",\n'}
    with FakeCodex(turn(glued, {"exit": 0})) as fake:
        found = await told(fake, tmp_path)
    assert found.notices("warning") == []
    assert "brandNew/thing" in found.failure.message


async def test_the_last_message_needs_no_end_of_its_line(tmp_path: Path) -> None:
    turn_over: Json = {"id": "$turn", "status": "completed", "items": [], "error": None}
    last = {"send": {"method": "turn/completed", "params": {"threadId": "$thread", "turn": turn_over}}}
    steps = ["answer", "begin", {"message": "done"}, {"wire": {"end": ""}}, last, {"exit": 0}]
    with FakeCodex({"on": {"turn/start": [steps]}}) as fake:
        found = await told(fake, tmp_path)
    assert (found.result.stop_reason, found.result.output) == ("completed", "done")
