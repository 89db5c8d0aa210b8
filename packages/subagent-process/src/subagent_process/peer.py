"""JSON-RPC 2.0 with an owned child, in both directions, over its lines.

The rules, for whatever a child may send:

- A message with a ``method`` is the child's, whatever its ``id``: the two id spaces overlap.  With an ``id``, null
  included, it is a request and is answered once; without one it is a notification.  ``"method": null`` beside a
  ``result`` or an ``error`` is none: some serialisers write every member.
- An answer counts when its ``id`` is exactly an integer of ours that is still open: ``"1"``, ``true`` and ``1.0`` are
  not 1.  ``"error": null`` beside a result is a result.
- Ids are echoed as they came: any JSON, numbers to the precision of a double.
- ``params`` are an object, or are left out (``{}``).  By position: -32602; in a notification: counted.
- A batch (an array) is noise, like every line that is no object: neither Codex nor ACP sends one.

Traps:

- What follows an answer on the wire may be handed to ``notified`` before ``request`` returns: keep the state there.
- Reading goes on while requests of the child are open, and stops only for a child that has over 8 MiB of refusals
  unread: it floods and does not listen.
- The child's exit ends the peer, not the end of its output, which another process may hold open for ever.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import EllipsisType
from typing import cast

import anyio
import anyio.abc

from ._answering import Answering
from ._outgoing import Outgoing
from ._pipes import PipeReader
from ._rpc import JsonObject, PeerCounts, call, shown
from .errors import InvalidAnswer, LineTooLong, ProcessLost, RpcError
from .lines import LIMIT, LineReader
from .process import OwnedProcess

__all__ = ["JsonObject", "Peer", "PeerCounts"]

_STATUS = 0.5  # s that the end of a pipe waits for the exit that explains it
_GIVEN_UP = 4096  # requests without an answer that are told from those that had one
_MESSAGE = 4000  # characters of an error's message, which may hold the JSON of another one


class _Open:
    """A request of ours that waits."""

    __slots__ = ("answer", "done")

    def __init__(self) -> None:
        self.answer: JsonObject | None = None
        self.done = anyio.Event()


class Peer:
    """A child that is spoken to in JSON-RPC, and that may ask back.

    ::

        peer = Peer(process, answer=answer, notified=notified, envelope=False)
        async with anyio.create_task_group() as tasks, process:
            tasks.start_soon(peer.run)  # it ends with the process, which is left first
            started = await peer.request("thread/start", {"cwd": "/work"})

    It reads the child's stdout and writes its stdin; nobody else may.  Read stderr too, with ``StderrTail``: a child
    stalls on a pipe that nobody reads.
    """

    def __init__(
        self,
        process: OwnedProcess,
        *,
        answer: Callable[[str, JsonObject], Awaitable[object]],
        notified: Callable[[str, JsonObject], object],
        envelope: bool = True,
        request_timeout: float = 30.0,
        answer_limit: int = 64,
        line_limit: int = LIMIT,
    ) -> None:
        """Nothing is read before ``run``.

        Args:
            process: the child.
            answer: called with method and params of each request of the child, in a task of its own; what it returns
                is the ``result``.  An ``RpcError`` that it raises is the answer; any other exception, and a result
                that JSON has no form for, is answered with -32603 and its text, redacted, and is logged.
            notified: called with method and params of each notification, in the order of the wire, before anything
                later is looked at.  What it raises ends ``run``.
            envelope: write ``"jsonrpc":"2.0"``.  Codex leaves it out.  It is never asked for in reading.
            request_timeout: seconds for each request and notification, where the call does not say otherwise.
            answer_limit: how many requests of the child may be open at once; one more is answered with -32001.
            line_limit: bytes of one line.
        """
        if answer_limit < 1:
            raise ValueError(f"answer_limit is {answer_limit}: it is a number of requests, at least 1.")
        if not request_timeout > 0:
            raise ValueError(f"request_timeout is {request_timeout}: it is a number of seconds above 0.")
        self._process, self._notified = process, notified
        self.counts = PeerCounts()
        # A part of its own, for a Peer that leads back to itself would be collected late, and its child with it.
        self._out = Outgoing(process, {"jsonrpc": "2.0"} if envelope else {})
        self._answering = Answering(answer, self._out.write, answer_limit, self.counts)
        self._request_timeout = request_timeout
        self._reader = LineReader(limit=line_limit)
        self._tasks: anyio.abc.TaskGroup | None = None
        # Open, and given up without an answer, the most recent last.
        self._next, self._open, self._given_up = 0, dict[int, _Open](), dict[int, None]()

    @property
    def noise(self) -> tuple[str, ...]:
        """The last lines that were no message (at most 50 of 400 characters), redacted: for the text of an error."""
        return self._reader.noise

    @property
    def noise_count(self) -> int:
        """How many lines were no message."""
        return self._reader.noise_count

    async def run(self) -> None:
        """Read until the child has exited, or its stdout ends; then every open request fails with PeerClosed.

        What the child wrote before its exit is handed over, but for requests: nobody would hear the answer.  The
        requests of the child that are open at the end are cancelled and stay without an answer; this waits for their
        tasks.  Cancelling it does the same at once.

        Raises:
            LineTooLong: a line beyond the limit.  What came before it was handed over.
            RuntimeError: it was called before.
        """
        if self._tasks is not None:
            raise RuntimeError("This Peer was run already: make a new one for a new child.")
        failure: Exception | None = None
        async with anyio.create_task_group() as self._tasks:
            try:
                await self._read(self._tasks)
                with anyio.move_on_after(_STATUS), suppress(ProcessLost):
                    await self._process.wait()
            except Exception as exc:  # noqa: BLE001  # raised below, without a group around it
                failure = exc
                self._out.why = f"is not heard any more ({type(exc).__name__}: {shown(str(exc))})"
            except anyio.get_cancelled_exc_class():
                self._out.why = "is not heard any more: the reading of its output was cancelled"
                raise
            finally:
                self._out.end()
                self._out.over.set()
                for waiting in self._open.values():
                    waiting.done.set()
                self._tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def request(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        *,
        timeout: float | EllipsisType | None = ...,
    ) -> object:
        """Ask, and give back the ``result``, any JSON.  May be called before ``run``, and by any number of tasks.

        A cancelled call forgets its id: an answer that comes later is counted, nothing more.

        Args:
            method: its name.
            params: left out of the message when None.
            timeout: seconds, None for no limit; ``request_timeout`` of the peer when it is not given.

        Raises:
            RpcError: the peer answered with an error.
            InvalidAnswer: the peer answered with what is no answer.
            PeerClosed: the child has ended or does not listen, or ``run`` has ended.
            TimeoutError: no answer in time.
            TypeError, ValueError, RecursionError: params that JSON has no form for.  Nothing was sent.
        """
        limit = self._request_timeout if timeout is ... else timeout
        number, waiting = self._next, _Open()
        self._next += 1
        self._open[number] = waiting
        try:
            with anyio.move_on_after(limit):
                await self._out.write(call(method, params, id=number), method)
                await waiting.done.wait()
        except (TypeError, ValueError, RecursionError):  # nothing was sent: there is nothing to give up
            del self._open[number]
            raise
        finally:
            if self._open.pop(number, None) is not None:
                self._give_up(number)
        if waiting.answer is not None:
            return self._result(method, waiting.answer)
        if self._out.over.is_set():
            raise self._out.closed(method)
        raise TimeoutError(f"{self._process.name} did not answer {method} within {limit:g} s.")

    async def notify(self, method: str, params: Mapping[str, object] | None = None) -> None:
        """Tell, without an answer.

        Raises:
            PeerClosed: the child has ended or does not listen, or ``run`` has ended.
            TimeoutError: the child did not read it within the peer's ``request_timeout``.
            TypeError, ValueError, RecursionError: params that JSON has no form for.  Nothing was sent.
        """
        with anyio.move_on_after(self._request_timeout) as scope:
            await self._out.write(call(method, params), method)
        if scope.cancelled_caught:
            raise TimeoutError(f"{self._process.name} did not read {method} within {self._request_timeout:g} s.")

    def _give_up(self, number: int) -> None:
        self._given_up[number] = None
        if len(self._given_up) > _GIVEN_UP:
            del self._given_up[next(iter(self._given_up))]

    def _result(self, method: str, answer: JsonObject) -> object:
        error = answer.get("error")
        if error is None and "result" in answer:
            return answer["result"]
        if isinstance(error, dict) and answer.get("result") is None:
            told = cast("JsonObject", error)
            code, message = told.get("code"), told.get("message", "")
            if type(code) is int and isinstance(message, str):
                raise RpcError(code, shown(message, _MESSAGE), told.get("data"), method=method)
        try:
            text = json.dumps(answer)
        except RecursionError:
            text = "(nested too deeply to be shown)"
        raise InvalidAnswer(self._process.name, method, shown(text))

    async def _read(self, tasks: anyio.abc.TaskGroup) -> None:
        stdout = self._process.stdout
        with anyio.CancelScope() as reading:
            tasks.start_soon(self._watch, reading)
            while True:
                try:
                    data = await stdout.receive()
                except (anyio.EndOfStream, anyio.ClosedResourceError):
                    break
                self._take_all(data)
                await self._answering.relief()
        self._out.end()
        if reading.cancelled_caught:
            for data in cast("PipeReader", self._process.stdout).left():
                self._take_all(data)
        for item in self._reader.finish():
            self._take(item)

    async def _watch(self, reading: anyio.CancelScope) -> None:
        with suppress(ProcessLost):
            await self._process.wait()
        reading.cancel()

    def _take_all(self, data: bytes) -> None:
        # Not through Messages: an await for each message costs as much as its parsing.
        for item in self._reader.feed(data):
            self._take(item)

    def _take(self, message: JsonObject | LineTooLong) -> None:
        if isinstance(message, LineTooLong):
            raise message
        method, given = message.get("method"), message.get("params")
        if "method" not in message or (method is None and ("result" in message or "error" in message)):
            self._take_answer(message)
            return
        params = {} if given is None else cast("JsonObject", given) if isinstance(given, dict) else None
        if "id" in message:
            if not self._out.ended:
                assert self._tasks is not None
                self._answering.take(self._tasks, message["id"], method, params)
        elif isinstance(method, str) and params is not None:
            self._notified(method, params)
        else:
            self.counts.invalid += 1

    def _take_answer(self, answer: JsonObject) -> None:
        number = answer.get("id")
        if "id" not in answer:
            self.counts.invalid += 1
        elif type(number) is not int or not 0 <= number < self._next:
            self.counts.unknown += 1
        elif (waiting := self._open.pop(number, None)) is not None:
            waiting.answer = answer
            waiting.done.set()
        elif number in self._given_up:
            del self._given_up[number]
            self.counts.late += 1
        else:
            self.counts.duplicate += 1
