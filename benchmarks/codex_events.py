"""Text deltas of Codex, 150 bytes each on the wire: from the pipe through Peer, Turn and log to one reader.

Goals: no less than half the rate of a bare `json.loads` loop over the same lines, none dropped; a line of 12 MB in at
most twice the time of that loop.  `cat` stands in for the engine, which is slower than any of these.  What is measured
is the CPU time of this process, for a busy machine changes it least.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio

import subagents
from benchmarks._measure import side_by_side
from subagent_codex._turn import Turn
from subagent_process import Peer, child_env, open_process
from subagents import Link, Result, Task, TextEvent

LINES = 100_000
THREAD, TURN = "01a22fc6", "01a22fd7"
ROUNDS = 9


def line(method: str, params: dict[str, object]) -> bytes:
    return (
        json.dumps({"method": method, "params": {"threadId": THREAD, **params}}, separators=(",", ":")).encode() + b"\n"
    )


def delta(piece: str) -> bytes:
    return line("item/agentMessage/delta", {"turnId": TURN, "itemId": "msg_5b97af7846", "delta": piece})


PIECE = "." * (150 - len(delta("")))
DELTA = delta(PIECE)
assert len(DELTA) == 150, len(DELTA)
END = line("turn/completed", {"turn": {"id": TURN, "status": "completed", "items": []}})
MANY = DELTA * LINES + END
LONG_TEXT = "y" * 12_000_000
LONG = line("item/completed", {"turnId": TURN, "item": {"type": "agentMessage", "id": "m", "text": LONG_TEXT}}) + END


class Replay(subagents.Provider):
    """The path of a notification, with `cat` as the engine."""

    name = "replay"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    async def drive(self, task: Task, link: Link) -> None:
        turn = Turn(link.emit, accepted=lambda: link.ready(session=turn.thread), ended=lambda: None, cwd="/")
        turn.thread = THREAD
        turn.begin(TURN)
        async with await open_process(["/bin/cat", str(self._path)], env=child_env(minimal=True)) as process:
            await Peer(process, answer=nobody, notified=turn.notified, envelope=False).run()
        link.finish(turn.outcome())


async def nobody(method: str, params: dict[str, object]) -> object:
    raise AssertionError(method)


def loads(data: bytes) -> float:
    """CPU seconds for the parsing alone, of lines that are cut already."""
    lines = data.split(b"\n")[:-1]
    began = time.process_time()
    for one in lines:
        json.loads(one)
    return time.process_time() - began


def piped(path: Path) -> float:
    """CPU seconds for the same loop behind a pipe."""

    async def main() -> float:
        began, rest = time.process_time(), b""
        async with await anyio.open_process(["/bin/cat", str(path)], stderr=None) as child:
            assert child.stdout is not None
            async for chunk in child.stdout:
                *lines, rest = (rest + chunk).split(b"\n")
                for one in lines:
                    json.loads(one)
        return time.process_time() - began

    return anyio.run(main)


def turned() -> float:
    """CPU seconds for Turn alone, its messages parsed already."""
    messages = [json.loads(one) for one in MANY.split(b"\n")[:-1]]
    seen: list[object] = []
    turn = Turn(seen.append, accepted=lambda: None, ended=lambda: None, cwd="/")
    turn.thread = THREAD
    began = time.process_time()
    for message in messages:
        turn.notified(message["method"], message["params"])
    taken = time.process_time() - began
    assert len(seen) == LINES
    return taken


def followed(path: Path, expected: int, backend: str) -> float:
    """CPU seconds for all of it; every character has to arrive."""

    async def main() -> float:
        got = 0
        began = time.process_time()
        async with Replay(path).start("x", cwd="/") as run:
            async for event in run.events():
                if isinstance(event, TextEvent):
                    got += len(event.text)
            taken = time.process_time() - began
            result: Result = await run.closed()
        assert got == expected, f"{expected - got} characters were dropped"
        assert result.evidence.events_lost == 0
        return taken

    return anyio.run(main, backend=backend)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        many, long = Path(folder, "many"), Path(folder, "long")
        many.write_bytes(MANY)
        long.write_bytes(LONG)
        size = LINES * len(PIECE)

        def rate(seconds: Callable[[], float]) -> float:
            return LINES / seconds() / 1e3

        found = side_by_side(
            f"{LINES:,} text deltas of 150 bytes",
            "thousand a second",
            {
                "bare json.loads loop": partial(rate, partial(loads, MANY)),
                "the same behind a pipe": partial(rate, partial(piped, many)),
                "Turn alone": partial(rate, turned),
                "to one reader, asyncio": partial(rate, partial(followed, many, size, "asyncio")),
                "to one reader, trio": partial(rate, partial(followed, many, size, "trio")),
            },
            ROUNDS,
        )
        print(f"  at least 0.5 is asked for: {found['to one reader, asyncio'] / found['bare json.loads loop']:.2f}")
        side_by_side(
            "one line of 12 MB",
            "ms",
            {
                "bare json.loads loop": lambda: loads(LONG) * 1e3,
                "to one reader, asyncio": lambda: followed(long, len(LONG_TEXT), "asyncio") * 1e3,
            },
            ROUNDS,
        )


if __name__ == "__main__":
    main()
