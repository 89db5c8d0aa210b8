"""Peers of the tests: a scripted child in JSON-RPC, and the Peer that speaks with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from talk import python

from subagent_process import JsonObject, Ladder, OwnedProcess, Peer, open_process

QUICK = Ladder(eof=0.2, term=0.2, kill=5)
BOUND = 20.0
# `put` writes messages, or bytes as they are, in one piece; `hear` gives the next message; `rest` all until the end.
CHILD = """
import json, os, signal, sys
def put(*parts):
    data = b"".join(p if isinstance(p, bytes) else json.dumps(p).encode() + b"\\n" for p in parts)
    while data:
        data = data[os.write(1, data):]
def hear():
    return json.loads(sys.stdin.readline())
def rest():
    return [json.loads(line) for line in sys.stdin]
def tell(what):
    put({"method": "told", "params": {"what": what}})
"""

Answerer = Callable[[str, JsonObject], Awaitable[object]]


class Told:
    """Keeps the notifications, and lets a test wait for one."""

    def __init__(self) -> None:
        self.all: list[tuple[str, JsonObject]] = []
        self._more = anyio.Event()

    def __call__(self, method: str, params: JsonObject) -> None:
        self.all.append((method, params))
        self._more.set()
        self._more = anyio.Event()

    async def wait(self, method: str = "told") -> JsonObject:
        """The params of the first one with this method."""
        with anyio.fail_after(BOUND):
            while True:
                for name, params in self.all:
                    if name == method:
                        return params
                await self._more.wait()


async def refuse(method: str, params: JsonObject) -> object:
    """For tests in which the child asks nothing."""
    raise AssertionError(f"the child asked {method} {params}")


async def start(script: str) -> OwnedProcess:
    """The child alone."""
    return await open_process(python(CHILD + script), env={}, ladder=QUICK)


@asynccontextmanager
async def peered(
    script: str,
    *,
    answer: Answerer = refuse,
    notified: Callable[[str, JsonObject], object] = lambda _method, _params: None,
    envelope: bool = False,
    request_timeout: float = BOUND,
    answer_limit: int = 64,
) -> AsyncGenerator[Peer]:
    """The Peer of a child with this script, being run; the process is closed at the end, which ends the run."""
    process = await start(script)
    peer = Peer(
        process,
        answer=answer,
        notified=notified,
        envelope=envelope,
        request_timeout=request_timeout,
        answer_limit=answer_limit,
    )
    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as tasks, process:
            tasks.start_soon(peer.run)
            yield peer
