"""Messages of Claude Code from one fake `claude` to one reader that keeps up: through `ClaudeCode` with all that it
does, beside the SDK's own client on a process of its own, and beside a bare loop of `json.loads`.

Pieces of text are merged while nobody has read them; retries are not, and each is an event of its own.

Goals: no less than the SDK's rate, nothing dropped; a line of 12 MB no later than by the SDK.  What is measured is the
CPU time of this process from the first event to the last, for a busy machine changes it least.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from benchmarks._measure import side_by_side
from subagent_claude_code import ClaudeCode
from subagent_testing import FakeClaude
from subagents import Event, NoticeEvent, TextEvent

LINES = 200_000
LONG = 12_000_000
ROUNDS = 7
NAMES = {"uuid": "5a8c1c4e-7f0b-4c9e-9f3e-0b6a3d1f2c11", "session_id": "5a8c1c4e-7f0b-4c9e-9f3e-0b6a3d1f2c11"}


def delta(text: str) -> dict[str, Any]:
    """As 2.1.332 writes one; the fake adds `uuid` and `session_id`."""
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return {"type": "stream_event", "event": event, "parent_tool_use_id": None, "api_message_id": "msg_5b97af7846"}


def whole(text: str) -> dict[str, Any]:
    """A message that was not streamed."""
    said = {"id": "msg_8c1d", "role": "assistant", "model": "m", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "message": said, "parent_tool_use_id": None}


RETRY = {
    "type": "system",
    "subtype": "api_retry",
    "attempt": 1,
    "max_retries": 10,
    "retry_delay_ms": 548,
    "error_status": 529,
    "error": "overloaded",
}


def line(message: Mapping[str, Any]) -> bytes:
    return json.dumps({**message, **NAMES}, separators=(",", ":")).encode() + b"\n"


@dataclass(frozen=True)
class Stream:
    """What the engine writes after a first piece of text, with which the clock begins: so many times this message."""

    message: Mapping[str, Any]
    count: int
    size: int  # characters of text, or notices, in each

    @property
    def script(self) -> dict[str, Any]:
        first = {"count": 1, "message": delta(".")}
        burst = {"count": self.count, "message": self.message}
        return {"turn": [{"burst": first}, {"burst": burst}, {"result": {"result": "done"}}]}

    @property
    def total(self) -> int:
        return self.size * self.count + 1


class Clock:
    """CPU seconds of this process from the first event to the last."""

    def __init__(self, expected: int) -> None:
        self._expected, self._got, self._began, self._taken = expected, 0, 0.0, 0.0

    def heard(self, size: int) -> None:
        if not self._got:
            self._began = time.process_time()
        self._got += size
        if self._got == self._expected:
            self._taken = time.process_time() - self._began

    def read(self) -> float:
        assert self._got == self._expected, f"{self._expected - self._got} were dropped"
        return self._taken


def loads(stream: Stream) -> float:
    """The parsing alone, of lines that are cut already."""
    lines = [line(stream.message)[:-1]] * stream.count
    began = time.process_time()
    for one in lines:
        json.loads(one)
    return time.process_time() - began


def ours(fake: FakeClaude, stream: Stream, backend: str) -> float:
    """The whole provider."""

    def size(event: Event) -> int:
        if isinstance(event, TextEvent):
            return len(event.text)
        return isinstance(event, NoticeEvent) and event.code == "retry"

    async def main() -> float:
        clock = Clock(stream.total)
        provider = ClaudeCode(executable=str(fake.executable), base_url="http://127.0.0.1:9")
        async with provider.start("go", cwd="/") as run:
            async for event in run.events():
                clock.heard(size(event))
            result = await run.closed()
        assert result.ok, result
        assert result.evidence.events_lost == 0
        return clock.read()

    return anyio.run(main, backend=backend)


def theirs(fake: FakeClaude, stream: Stream, backend: str) -> float:
    """The SDK's client, typed messages, to the result."""
    from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, ClaudeSDKClient, Message, StreamEvent, TextBlock

    def size(told: Message) -> int:
        if isinstance(told, StreamEvent):
            return len(told.event.get("delta", {}).get("text", ""))
        if isinstance(told, AssistantMessage):
            return sum(len(block.text) for block in told.content if isinstance(block, TextBlock))
        return getattr(told, "subtype", "") == "api_retry"

    async def main() -> float:
        clock = Clock(stream.total)
        options = ClaudeAgentOptions(
            cli_path=fake.executable, include_partial_messages=True, max_buffer_size=1 << 26, cwd="/"
        )
        async with ClaudeSDKClient(options) as client:
            await client.query("go")
            async for told in client.receive_response():
                clock.heard(size(told))
        return clock.read()

    return anyio.run(main, backend=backend)


def compared(title: str, unit: str, stream: Stream, figure: Callable[[float], float]) -> dict[str, float]:
    """Every way of reading one stream; the figure is made of CPU seconds."""
    with FakeClaude(stream.script) as fake:
        ways: dict[str, Callable[[], float]] = {
            "the SDK's client, asyncio": partial(theirs, fake, stream, "asyncio"),
            "the SDK's client, trio": partial(theirs, fake, stream, "trio"),
            "ours, asyncio": partial(ours, fake, stream, "asyncio"),
            "ours, trio": partial(ours, fake, stream, "trio"),
            "bare json.loads loop": partial(loads, stream),
        }
        return side_by_side(title, unit, {name: lambda way=way: figure(way()) for name, way in ways.items()}, ROUNDS)


def main() -> None:
    text, retries = Stream(delta("." * 40), LINES, 40), Stream(RETRY, LINES, 1)
    for what, stream in (("text deltas", text), ("retries", retries)):
        title = f"claude: {LINES:,} {what} of {len(line(stream.message))} bytes"
        found = compared(title, "thousand a second", stream, lambda seconds: LINES / seconds / 1e3)
        for backend in ("asyncio", "trio"):
            ratio = found[f"ours, {backend}"] / found[f"the SDK's client, {backend}"]
            print(f"  over the SDK's, {backend} (at least 1 is asked for): {ratio:.2f}")
    found = compared(
        "claude: one line of 12 MB", "ms", Stream(whole("y" * LONG), 1, LONG), lambda seconds: seconds * 1e3
    )
    ratio = found["ours, asyncio"] / found["the SDK's client, asyncio"]
    print(f"  over the SDK's, asyncio (at most 1 is asked for): {ratio:.2f}")


if __name__ == "__main__":
    main()
