"""Lines and bytes, there and back."""

from __future__ import annotations

import os
import signal

import anyio
import anyio.abc
import pytest
from talk import python, slurp

from subagent_process import (
    Ladder,
    StderrTail,
    open_process,
)

pytestmark = pytest.mark.anyio
PATH = {"PATH": "/usr/bin:/bin"}
QUICK = Ladder(eof=0.1, term=0.1, kill=5)


ECHO = """
import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(line); sys.stdout.buffer.flush()
"""


async def test_a_message_goes_there_and_back() -> None:
    async with await open_process(python(ECHO), env={}) as process:
        messages = process.messages()
        for message in ({"id": 1, "t": "é\u2028\n"}, {}, {"big": "x" * 1_000_000}):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(process.send_line, message)
                assert await anext(messages) == message
        await process.send_line(b'{"raw":1}')
        assert await anext(messages) == {"raw": 1}
        await process.stdin.aclose()
        assert [message async for message in messages] == []
        assert await process.wait() == 0
        with pytest.raises(anyio.ClosedResourceError):
            await process.send_line({})


async def test_lines_are_ascii_and_one_line() -> None:
    async with await open_process(["head", "-n1"], env=PATH) as process:
        await process.send_line({"t": "é\u2028\u0085\n\ud800"})
        assert await slurp(process.stdout) == b'{"t":"\\u00e9\\u2028\\u0085\\n\\ud800"}\n'


async def test_lines_of_many_tasks_never_mix() -> None:
    async with await open_process(python(ECHO), env={}) as process:
        got: list[dict[str, object]] = []
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(process.send_line, {"n": number, "x": chr(97 + number) * 50_000})
            messages = process.messages()
            got += [await anext(messages) for _ in range(20)]
        assert {message["n"] for message in got} == set(range(20))
        assert all(message["x"] == chr(97 + int(str(message["n"]))) * 50_000 for message in got)


async def test_the_rest_of_a_cancelled_line_goes_out_in_front_of_the_next() -> None:
    script = (
        "import os, signal, sys; signal.sigwait({signal.SIGUSR1}); sys.stdout.buffer.write(sys.stdin.buffer.read())"
    )
    block = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1}); print('{}', flush=True); "
    async with await open_process(python(block + script), env={}) as process:
        messages = process.messages()
        assert await anext(messages) == {}
        with anyio.move_on_after(0.2) as scope:
            await process.send_line({"first": "x" * 500_000})  # more than a pipe holds, and nobody reads
        assert scope.cancelled_caught
        with anyio.move_on_after(0.05) as scope:
            await process.send_line({"never": "sent"})  # not a byte of it
        assert scope.cancelled_caught
        os.kill(process.pid, signal.SIGUSR1)
        await process.send_line({"second": 2})
        await process.stdin.aclose()
        assert [message async for message in messages] == [{"first": "x" * 500_000}, {"second": 2}]


async def test_a_line_that_cannot_be_one_is_refused() -> None:
    async with await open_process(["cat"], env=PATH) as process:
        with pytest.raises(ValueError, match="holds a line end"):
            await process.send_line(b"a\nb")
        with pytest.raises(ValueError, match="JSON compliant"):
            await process.send_line({"x": float("nan")})
        with pytest.raises(TypeError):
            await process.send_line({"x": object()})
        await process.send_line({"ok": 1})
        assert await anext(process.messages()) == {"ok": 1}


async def test_writing_to_a_child_that_does_not_listen_is_a_broken_resource() -> None:
    async with await open_process(["sh", "-c", "exec <&-; echo; sleep 60"], env=PATH, ladder=QUICK) as process:
        await process.stdout.receive()
        with pytest.raises(anyio.BrokenResourceError):
            await process.send_line({"x": 1})
        with pytest.raises(anyio.BrokenResourceError):
            await process.stdin.send(b"x")


async def test_large_amounts_go_through_all_three_pipes_at_once() -> None:
    data = os.urandom(3_000_000)
    async with await open_process(["sh", "-c", "tee /dev/stderr; exit 7"], env=PATH) as process:
        got: dict[str, bytes] = {}

        async def read(name: str, stream: anyio.abc.ByteReceiveStream) -> None:
            got[name] = await slurp(stream)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, "out", process.stdout)
            tasks.start_soon(read, "err", process.stderr)
            await process.stdin.send(data)
            await process.stdin.aclose()
        assert got == {"out": data, "err": data}
        assert await process.wait() == 7


@pytest.mark.parametrize("code", [0, 3])
async def test_a_flood_on_stderr_stalls_nobody_and_its_end_is_kept(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKECORP_API_KEY", "zebra-crossing-77")
    script = f"""
import os, sys
os.write(2, b"x" * 200_000)
for n in range(4_800): sys.stderr.write("y" * 999 + "\\n")
sys.stderr.write("the end, with zebra-crossing-77 and 한글"); sys.stderr.flush()
if {code} == 0: print('{{"answer":1}}')
sys.exit({code})
"""
    process = await open_process(python(script), env={})
    tail = StderrTail(process.stderr)
    async with process, anyio.create_task_group() as tasks:
        tasks.start_soon(tail.run)
        assert [message async for message in process.messages()] == ([{"answer": 1}] if code == 0 else [])
        assert await process.wait() == code
    assert tail.total > 5_000_000 - 10_000
    assert tail.text.endswith("the end, with [redacted] and 한글")
    assert len(tail.text.encode()) <= 8192


async def test_a_tail_survives_characters_split_at_its_edge_and_between_chunks() -> None:
    script = "import sys; sys.stderr.buffer.write('한글🧪'.encode() * 20_000)"
    async with await open_process(python(script), env={}) as process:
        tail = StderrTail(process.stderr, limit=1000)
        await tail.run()
        assert "\ufffd" not in tail.text
        assert set(tail.text) == set("한글🧪")
        assert 990 < len(tail.text.encode()) <= 1000


async def test_what_is_written_byte_by_byte_arrives_whole() -> None:
    script = """
import os, time
for fd in (1, 2):
    for byte in '{"t":"한글 ≤ 🧪"}\\n'.encode():
        os.write(fd, bytes([byte])); time.sleep(0.0005)
"""
    async with await open_process(python(script), env={}) as process:
        assert [message async for message in process.messages()] == [{"t": "한글 ≤ 🧪"}]
        tail = StderrTail(process.stderr)
        await tail.run()
        assert tail.text == '{"t":"한글 ≤ 🧪"}\n'
