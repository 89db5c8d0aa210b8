"""The requests of a child: each is answered once, in a task of its own; beyond a limit they are refused."""

from __future__ import annotations

import json
import logging
import traceback
from collections import deque
from collections.abc import Awaitable, Callable

import anyio
import anyio.abc

from ._rpc import JsonObject, PeerCounts, failed, internal, shown
from .errors import PeerClosed, RpcError
from .redaction import redact

_UNREAD = 8 << 20  # bytes of refusals that the child has not read
_REFUSAL = 100  # bytes of one, beside its id
_log = logging.getLogger("subagent_process")


class Answering:
    """Takes requests, and writes what becomes of them; an answer that nobody hears any more is dropped.

    A refusal is neither a task nor sent by the reader: a flood must cost little, and a child that does not listen must
    not hold up the reading.
    """

    def __init__(
        self,
        answer: Callable[[str, JsonObject], Awaitable[object]],
        write: Callable[[JsonObject, str], Awaitable[None]],
        limit: int,
        counts: PeerCounts,
    ) -> None:
        """``write`` raises PeerClosed when the child does not listen any more."""
        self._answer, self._write, self._limit, self._counts = answer, write, limit, counts
        self._open = 0
        self._queue, self._size = deque[tuple[object, JsonObject, int]](), 0
        self._refusing = anyio.Lock()

    def take(self, tasks: anyio.abc.TaskGroup, number: object, method: object, params: JsonObject | None) -> None:
        """One request; ``params`` are None when they are no object."""
        if not isinstance(method, str):
            refusal = RpcError(-32600, "Invalid request: its method is not a text")
        elif params is None:
            refusal = RpcError(-32602, "Invalid params: only an object is understood")
        elif self._open >= self._limit:
            refusal = RpcError(-32001, f"Overloaded: {self._open} requests are open; retry later")
        else:
            self._open += 1
            tasks.start_soon(self._handle, number, method, params)
            return
        self._counts.refused += 1
        size = _REFUSAL + _size(number)
        if not self._queue:
            tasks.start_soon(self._refuse)
        self._queue.append((number, failed(refusal), size))
        self._size += size

    async def relief(self) -> None:
        """Wait until a child that floods has read its refusals, if they are too many."""
        if self._size > _UNREAD:
            await self._refuse()

    async def _refuse(self) -> None:
        async with self._refusing:
            while self._queue:
                number, body, size = self._queue[0]
                if await self._reply(number, body):
                    self._queue.popleft()
                    self._size -= size
                else:
                    self._queue.clear()
                    self._size = 0

    async def _handle(self, number: object, method: str, params: JsonObject) -> None:
        try:
            body = await self._ask(method, params)
            await self._reply(number, body, internal(TypeError(f"the answer to {method} has no form in JSON")))
        finally:
            self._open -= 1

    async def _ask(self, method: str, params: JsonObject) -> JsonObject:
        try:
            return {"result": await self._answer(method, params)}
        except RpcError as exc:
            return failed(exc)
        except Exception as exc:  # noqa: BLE001  # the child waits for an answer, whatever went wrong here
            _log.error("%r could not be answered: %s", method, redact("".join(traceback.format_exception(exc))))
            return internal(exc)
        except anyio.get_cancelled_exc_class() as exc:
            # A future that it waited for was cancelled (asyncio); nobody has cancelled this task.
            if anyio.current_effective_deadline() == -float("inf"):
                raise
            return internal(exc)

    async def _reply(self, number: object, *bodies: JsonObject) -> bool:
        """Write the first of them that JSON has a form for; whether the child listens."""
        for body in bodies:
            try:
                await self._write({"id": number, **body}, "a request of its own")
            except (TypeError, ValueError, RecursionError) as exc:
                _log.error("An answer could not be written: %s: %s", type(exc).__name__, shown(str(exc)))
            except PeerClosed:
                return False
            else:
                break
        return True


def _size(number: object) -> int:
    try:
        return len(json.dumps(number))
    except RecursionError:  # nor can it be written, most likely
        return 0
