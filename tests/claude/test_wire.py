"""The SDK's transport on a process of ours: what goes to the SDK, and what does not."""

from __future__ import annotations

import inspect
import json
import sys
from typing import Any

import anyio
import pytest

from subagent_claude_code._wire import Wire
from subagent_process import Ladder, LineTooLong, OwnedProcess, child_env, open_process

pytestmark = pytest.mark.anyio

ECHO = "import sys\nfor line in sys.stdin: sys.stdout.write(line); sys.stdout.flush()"


class Heard:
    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.ended: list[Exception | None] = []

    def wire(self, process: OwnedProcess) -> Wire:
        return Wire(process, told=self.told.append, ended=self.ended.append)


async def program(code: str) -> OwnedProcess:
    return await open_process([sys.executable, "-c", code], env=child_env(), ladder=Ladder(eof=5))


def test_it_has_every_method_of_the_sdks_transport_and_in_the_same_form() -> None:
    sdk = pytest.importorskip("claude_agent_sdk")
    methods = sdk.Transport.__abstractmethods__
    assert methods == {"connect", "write", "read_messages", "close", "is_ready", "end_input"}
    for name in methods:
        ours, theirs = getattr(Wire, name), getattr(sdk.Transport, name)
        assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs)
        assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)


async def test_the_sdk_gets_the_control_protocol_and_we_the_rest() -> None:
    control: list[dict[str, Any]] = [
        {"type": "control_request", "request_id": "1", "request": {"subtype": "can_use_tool"}},
        {"type": "control_response", "response": {"request_id": "2"}},
        {"type": "control_cancel_request", "request_id": "3"},
    ]
    broken: list[dict[str, Any]] = [
        {"type": "control_request", "request_id": "1"},
        {"type": "control_request", "request": {"subtype": "x"}},
        {"type": "control_request", "request_id": "1", "request": {}},
        {"type": "control_response"},
        {"type": "control_cancel_request"},
    ]
    ours: list[dict[str, Any]] = [{"type": "result"}, {"type": 7}, {"no": "type"}]
    heard = Heard()
    with anyio.fail_after(20):
        async with await program(ECHO) as process:
            wire = heard.wire(process)
            await wire.connect()
            assert wire.is_ready()
            for message in (*broken, *ours, *control):
                await wire.write(json.dumps(message) + "\n")
            await process.send_line(b"noise")
            await process.stdin.aclose()
            seen = [message async for message in wire.read_messages()]
            assert wire.noise == ("noise",)
            await wire.end_input()
            await wire.close()
            await process.wait()
            assert not wire.is_ready()
    assert seen == control
    assert heard.told == ours
    assert heard.ended == [None]


async def test_writing_to_a_process_that_has_ended_goes_nowhere() -> None:
    with anyio.fail_after(20):
        async with await program("pass") as process:
            wire = Heard().wire(process)
            await process.wait()
            await wire.write("{}\n")
            await wire.write("{}\n")
        await wire.write("{}\n")


async def test_a_line_beyond_the_limit_ends_it_with_its_reason() -> None:
    heard = Heard()
    code = "import sys; sys.stdout.write('{' + ' ' * (64 * 1024 * 1024 + 9) + '}\\n')"
    with anyio.fail_after(60):
        async with await program(code) as process:
            assert [message async for message in heard.wire(process).read_messages()] == []
    (error,) = heard.ended
    assert isinstance(error, LineTooLong)
