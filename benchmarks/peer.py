"""What a Peer costs over `json.loads` of the same lines of the same pipe.  Goal: notifications of 150 bytes at no less
than 0.6 of a bare loop's rate, none lost.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path

import anyio

from benchmarks._measure import side_by_side
from subagent_process import JsonObject, Peer, child_env, open_process

LINES = 200_000
LINE = json.dumps({"method": "item/agentMessage/delta", "params": {"itemId": "i-000001", "delta": "z" * 65}}).encode()
assert len(LINE) == 149, len(LINE)
ENV = child_env()


def bare(path: Path) -> float:
    """Thousand lines a second, cut and parsed."""
    seen = 0
    with subprocess.Popen(["cat", str(path)], stdout=subprocess.PIPE, env=ENV) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        began = time.perf_counter()
        for line in child.stdout:
            seen += "method" in json.loads(line)
        taken = time.perf_counter() - began
    assert first
    assert seen == LINES - 1
    return seen / taken / 1e3


async def never(method: str, params: JsonObject) -> object:
    raise AssertionError(method)


def through_peer(path: Path, backend: str) -> float:
    """Thousand notifications a second, handed to a callback that counts."""
    seen, began = 0, 0.0

    def notified(_method: str, _params: JsonObject) -> None:
        nonlocal seen, began
        if not seen:
            began = time.perf_counter()
        seen += 1

    async def main() -> float:
        async with await open_process(["cat", str(path)], env=ENV) as child:
            await Peer(child, answer=never, notified=notified).run()
            return time.perf_counter() - began

    taken = anyio.run(main, backend=backend)
    assert seen == LINES, f"{LINES - seen} were lost"
    return seen / taken / 1e3


ECHO = """
import sys
for line in sys.stdin.buffer:
    number = line[line.index(b'"id":') + 5 :].partition(b",")[0]
    sys.stdout.buffer.write(b'{"id":%s,"result":{}}\\n' % number); sys.stdout.buffer.flush()
"""


def round_trips(backend: str, rounds: int = 2000) -> float:
    """Microseconds for a request and its answer, one after another."""

    taken: list[float] = []

    async def main() -> None:
        async with (
            await open_process(["python3", "-I", "-S", "-c", ECHO], env=ENV) as child,
            anyio.create_task_group() as tasks,
        ):
            peer = Peer(child, answer=never, notified=lambda _method, _params: None)
            tasks.start_soon(peer.run)
            await peer.request("warm")
            began = time.perf_counter()
            for _ in range(rounds):
                await peer.request("x", {"a": 1})
            taken.append((time.perf_counter() - began) / rounds * 1e6)
            tasks.cancel_scope.cancel()

    anyio.run(main, backend=backend)
    return taken[0]


def plain_trips(rounds: int = 2000) -> float:
    """The same with two blocking pipes."""
    with subprocess.Popen(
        ["python3", "-I", "-S", "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENV, bufsize=0
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        began = time.perf_counter()
        for number in range(rounds + 1):
            if number == 1:
                began = time.perf_counter()
            child.stdin.write(b'{"id":%d,"method":"x","params":{"a":1}}\n' % number)
            json.loads(child.stdout.read(4096))
        taken = time.perf_counter() - began
    return taken / rounds * 1e6


def main() -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write((LINE + b"\n") * LINES)
        file.flush()
        path = Path(file.name)
        side_by_side(
            f"{LINES:,} notifications of 150 bytes through a pipe",
            "thousand a second",
            {
                "bare json.loads loop": lambda: bare(path),
                "Peer, asyncio": lambda: through_peer(path, "asyncio"),
                "Peer, trio": lambda: through_peer(path, "trio"),
            },
            rounds=5,
        )
    side_by_side(
        "a request and its answer",
        "µs",
        {
            "blocking pipes": plain_trips,
            "Peer, asyncio": lambda: round_trips("asyncio"),
            "Peer, trio": lambda: round_trips("trio"),
        },
        rounds=5,
    )


if __name__ == "__main__":
    main()
