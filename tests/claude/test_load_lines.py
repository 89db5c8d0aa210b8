"""What a `claude` writes, byte by byte: large, cut, glued, with noise, and beyond the limit."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from claude_fake_kit import Json, clean, refused, told, turn

from subagent_testing import FakeClaude

pytestmark = pytest.mark.anyio

MiB = 1 << 20
LIMIT = 64 * MiB


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def said(text: str) -> Json:
    """A message of the model with this text, in one line and as it is."""
    message: Json = {"id": "$uuid", "role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"send": {"type": "assistant", "message": message, "parent_tool_use_id": None, "session_id": "$session"}}


@pytest.mark.parametrize("size", [70_000, 131_072, 1_048_577, 12_000_000])
async def test_a_long_line_is_read_whole_and_so_is_what_follows(tmp_path: Path, size: int) -> None:
    with FakeClaude(turn({"text": {"bytes": size}}, {"rate_limit": {}})) as fake:
        found = await told(fake, tmp_path)
    assert found.result.output == found.text == "x" * size
    assert [event.code for event in found.events if event.type == "notice"] == ["rate-limit"]
    assert found.result.evidence.events_lost == 0


async def test_a_long_output_of_a_tool_is_no_matter(tmp_path: Path) -> None:
    """The bound of the SDK's own reader is 1 MiB."""
    with FakeClaude(turn({"tool": {"output": "A9+/" * 375_000}}, {"text": "done"})) as fake:
        found = await told(fake, tmp_path)
    assert found.result.output == "done"


async def test_a_line_beyond_the_limit_is_one_clear_error_and_the_next_run_works(tmp_path: Path) -> None:
    steps = [{"text": "so far"}, {"raw": {"text": "x" * 1000, "times": 70_000}}, {"raw": "\n"}, {"text": "after"}]
    with FakeClaude(turn(*steps)) as fake:
        found = await told(fake, tmp_path)
    assert found.failure.kind == "protocol"
    assert "70,000,000 bytes" in found.failure.message
    assert f"{LIMIT:,}" in found.failure.message
    clean(found.result.evidence.process)
    with FakeClaude() as fake:
        assert (await told(fake, tmp_path)).result.ok


async def test_a_line_one_byte_beyond_the_limit_is_named_by_its_size_and_one_at_the_limit_is_read(
    tmp_path: Path,
) -> None:
    head, tail = '{"type":"system","subtype":"status","x":"', '"}\n'
    room = LIMIT - len(head) - len(tail) + 1
    for size, end in ((room, "completed"), (room + 1, "error")):
        parts = [{"raw": head}, {"raw": {"text": "x", "times": size}}, {"raw": tail}]
        with FakeClaude(turn(*parts, {"text": "done"})) as fake:
            found = await told(fake, tmp_path)
        assert found.result.stop_reason == end
    assert f"{LIMIT + 1:,} bytes" in found.failure.message


async def test_a_line_without_an_end_is_given_up_and_not_kept(tmp_path: Path) -> None:
    """A child that never ends its line cannot fill our memory: no more than the limit is held."""
    with FakeClaude(turn({"raw": {"text": "x" * 1000, "times": 90_000}}, {"exit": 0})) as fake:
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
    with FakeClaude({"on": {"initialize": [steps]}}) as fake:
        failure = await refused(fake, tmp_path)
    assert (failure.kind, failure.stage) == ("protocol", "start")
    assert "70,000,000 bytes" in failure.message


async def test_many_lines_are_each_measured_alone(tmp_path: Path) -> None:
    """30 MB in lines of 1 KiB, each an event; what a reader that keeps up gets of them is all of them."""
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x" * 1024}}
    burst = {"count": 30_000, "message": {"type": "stream_event", "event": delta, "parent_tool_use_id": None}}
    with FakeClaude(turn({"burst": burst}, {"text": "done"})) as fake:
        found = await told(fake, tmp_path)
    assert found.result.output == "done"
    assert found.text == "x" * 1024 * 30_000 + "done"
    assert found.result.evidence.events_lost == 0


@pytest.mark.parametrize("chunk", [1, 3, 7])
async def test_characters_that_are_cut_between_two_writes_arrive_whole(tmp_path: Path, chunk: int) -> None:
    text = "한글 ≤ 🧪 \u2028\u2029\u0085\x0b\x1c\r\n ende\ud7ff"
    with FakeClaude(turn({"wire": {"chunk": chunk}}, {"text": text}, {"wire": {}})) as fake:
        found = await told(fake, tmp_path)
    assert (found.result.output, found.text) == (text, text)


async def test_a_character_across_the_edge_of_a_chunk_arrives_whole(tmp_path: Path) -> None:
    texts = ["x" * (65_536 - cut) + "🧪" * 20 for cut in range(100, 400, 60)]
    with FakeClaude(turn(*[{"text": text} for text in texts])) as fake:
        found = await told(fake, tmp_path)
    assert found.text == "".join(texts)
    assert found.result.output == texts[-1]


async def test_raw_separators_of_unicode_end_no_line(tmp_path: Path) -> None:
    text = "a\u2028b\u2029c\u0085d\re"
    with FakeClaude(turn({"wire": {"end": "\r\n"}}, said(text))) as fake:
        found = await told(fake, tmp_path)
    assert found.text == text


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
    '{"type":5}',
    '{"type":"control_response","response":{"subtype":"success","request_id":"req_99_ffffffff"}}',
    '{"type":"control_response","response":{"subtype":"error","request_id":true}}',
    '{"type":"control_cancel_request","request_id":"nobody asked"}',
    '{"type":"control_request","request_id":7,"request":{"subtype":"can_use_tool"}}',
    "[[[[" * 5000,
    '{"a":' * 5000,
    '{"type":"tool_progress"}',
    '{"type":"zzz_future","x":NaN}',
    '{"no_type":1}',
]


async def test_noise_before_and_between_the_messages_is_passed_over(tmp_path: Path) -> None:
    noise = [{"raw": f"{line}\n"} for line in NOISE]
    odd = [{"raw": {"hex": "ff fe 80 0a"}}, {"raw": {"hex": "c3 28 0a"}}]
    steps: list[Any] = [*noise, {"text": "one"}, *odd, *noise, {"text": "two"}, *noise]
    script = turn(*steps, start=[noise], initialize=[[*noise, "answer", *noise]])
    with FakeClaude(script) as fake:
        found = await told(fake, tmp_path)
        assert [verdict for verdict in fake.verdicts if verdict.wrong] == []
    assert found.text == "onetwo"
    assert found.result.output == "two"
    assert found.result.stop_reason == "completed"


async def test_noise_is_in_the_words_of_an_exit_bounded_and_without_secrets(tmp_path: Path) -> None:
    secret = "sk-" + "ant-api03-" + "a1B2c3D4" * 5
    steps = [{"raw": {"text": "Now using node v22.9.1\n", "times": 5000}}, {"raw": f"ANTHROPIC_API_KEY={secret}\n"}]
    with FakeClaude(turn(*steps, {"exit": 3})) as fake:
        failure = (await told(fake, tmp_path)).failure
    assert (failure.kind, failure.exit_code) == ("exit", 3)
    assert "Now using node v22.9.1" in failure.message
    assert secret not in failure.message
    assert len(failure.message.encode()) <= 4096


async def test_a_byte_order_mark_and_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    start: list[Any] = [{"raw": {"hex": "ef bb bf"}}, {"wire": {"end": "\r\n"}}]
    script = turn({"text": "done"}, start=[start], initialize=[["answer", {"raw": "\r\n\r\n"}]])
    with FakeClaude(script) as fake:
        assert (await told(fake, tmp_path)).result.output == "done"


async def test_objects_glued_to_one_line_are_as_many_messages(tmp_path: Path) -> None:
    one, two = (f'{{"type":"assistant","message":{{"content":[{{"type":"text","text":"{n}"}}]}}}}' for n in (1, 2))
    with FakeClaude(turn({"raw": f"{one}{two}\n"}, {"text": "done"})) as fake:
        assert (await told(fake, tmp_path)).text == "12done"


async def test_the_last_message_needs_no_end_of_its_line(tmp_path: Path) -> None:
    result = {"type": "result", "subtype": "success", "is_error": False, "result": "done"}
    with FakeClaude({"on": {"user": [["begin", {"wire": {"end": ""}}, {"send": result}, {"exit": 0}]]}}) as fake:
        found = await told(fake, tmp_path)
    assert (found.result.stop_reason, found.result.output) == ("completed", "done")
