"""A model server that follows a script: `ScriptedResponses`.  What it says is in `responses`."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, cast

import anyio.to_thread

from subagent_testing._http import Connection, Exchange, Gate, HttpServer, Left
from subagent_testing.responses import (
    Cut,
    Event,
    Item,
    JsonObject,
    Script,
    Status,
    Step,
    Usage,
    created,
    message,
    status,
    usage,
)


@dataclass(slots=True)
class Request:
    """A request that the server got.

    Attributes:
        method: `POST`.
        path: with its query, as it was asked for.
        headers: their names in lower case; not in the repr, as little as the body: they carry keys and prompts.
        body: the JSON object; empty when it was none.
        raw: the body's bytes.
        at: when it had come whole, in seconds since the epoch.
        hung_up_at: when the client was found to have left before it was answered whole; None when it has not.
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: dict[str, Any] = field(repr=False)
    raw: bytes = field(repr=False)
    at: float
    hung_up_at: float | None = None


class ScriptedResponses:
    """A Responses API on a port of 127.0.0.1 of its own; a plain context manager, at home in any event loop or none.

    Besides `POST …/responses` it answers `GET …/models`; a WebSocket is refused with 426, all else is 404.  It works in
    threads of its own.  Leaving it ends every connection, and no thread is left.

    Args:
        script: the text of every answer; or one turn for each request, the last one for all that follow; or a function
            of the request's body and its number, from 1, called in the request's own thread.  A turn is a text, a step,
            or a sequence of steps.
        models: what `GET …/models` answers.

    Attributes:
        base_url: `http://127.0.0.1:PORT/v1`.
        requests: the `POST …/responses`, in the order in which they came.
        others: all other requests, also a `CONNECT` of a client that takes this for its proxy.

    Raises:
        ValueError: a script of no turns.
        Exception: on leaving, what the script's function raised, when the body raised nothing; the client got a 500.
            So is a TypeError for a turn that is none (a text among steps, a generator, a status after an item), and
            what JSON or HTTP has no form for; whoever had been told a part of it was cut off.
    """

    def __init__(self, script: Script = "Hello from the script.", *, models: JsonObject | None = None) -> None:
        if isinstance(script, Sequence) and not script:
            raise ValueError("a script needs at least one turn: a text, a step, or a sequence of steps")
        self._script: Script = script
        self._models: JsonObject = {"object": "list", "data": [], "models": []} if models is None else models
        self._changed = threading.Condition()
        self._ids = itertools.count(1)
        self._broken: list[Exception] = []
        self.requests: list[Request] = []
        self.others: list[Request] = []
        self._server = HttpServer(self._answer)
        self.base_url = f"http://127.0.0.1:{self._server.port}/v1"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if exc is None and self._broken:
            raise self._broken[0]

    @property
    def connections(self) -> Sequence[Connection]:
        """Every connection that was made, also those on which nothing was asked."""
        return tuple(self._server.connections)

    def close(self) -> None:
        """End every connection; when it returns no thread is left.  Again is nothing.

        Raises:
            RuntimeError: the script's function does not return.
        """
        self._server.close()
        with self._changed:
            self._changed.notify_all()

    def wait_for_request(self, n: int = 1, *, within: float = 10.0) -> Request:
        """Block until the n-th request to `/responses` has come.

        Raises:
            TimeoutError: it did not come within so many seconds, or before the server closed.
        """
        self._wait(lambda: len(self.requests) >= n, f"request {n}", within)
        return self.requests[n - 1]

    def wait_for_hang_up(self, n: int = 1, *, within: float = 10.0) -> Request:
        """Block until the client of the n-th request was found to have left before it was answered whole.

        That is at once in front of a gate or a silence; otherwise when more is sent to it.

        Raises:
            TimeoutError: it did not leave within so many seconds, or before the server closed.
        """
        self._wait(
            lambda: len(self.requests) >= n and self.requests[n - 1].hung_up_at is not None,
            f"the end of the client of request {n}",
            within,
        )
        return self.requests[n - 1]

    async def request(self, n: int = 1, *, within: float = 10.0) -> Request:
        """`wait_for_request` for coroutines; may be cancelled, its thread ends within the bound or with the server."""
        return await anyio.to_thread.run_sync(lambda: self.wait_for_request(n, within=within), abandon_on_cancel=True)

    async def hang_up(self, n: int = 1, *, within: float = 10.0) -> Request:
        """`wait_for_hang_up` for coroutines."""
        return await anyio.to_thread.run_sync(lambda: self.wait_for_hang_up(n, within=within), abandon_on_cancel=True)

    def _wait(self, happened: Callable[[], bool], what: str, within: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: happened() or self._server.closing, within)
            if not happened():
                limit = "before the server closed" if self._server.closing else f"within {within:g} s"
                seen = f"{len(self.requests)} requests came to /responses and {len(self.others)} elsewhere"
                raise TimeoutError(f"{what} did not come {limit}; {seen}")

    def _answer(self, exchange: Exchange) -> None:
        """What the server calls for each request, in its connection's thread."""
        asked = exchange.asked
        path = asked.path.partition("?")[0]
        request = Request(asked.method, asked.path, asked.headers, _json(asked.body), asked.body, asked.at)
        mine = asked.method == "POST" and path.endswith("/responses")
        with self._changed:
            (self.requests if mine else self.others).append(request)
            number = len(self.requests)
            self._changed.notify_all()
        try:
            if mine:
                _Response(exchange, next(self._ids)).play(self._turn(request.body, number))
            elif asked.headers.get("upgrade", "").lower() == "websocket":
                _whole(exchange, status(426))
            elif asked.method == "GET" and path.endswith("/models"):
                _whole(exchange, Status(200, self._models, {}))
            else:
                _whole(exchange, status(404))
        except Left:
            if not self._server.closing:
                with self._changed:
                    request.hung_up_at = time.time()
                    self._changed.notify_all()
            raise
        except Exception as exc:  # noqa: BLE001  # the test shall see it, not this thread
            self._broken.append(exc)
            if exchange.begun:
                exchange.cut()
            else:
                _whole(exchange, _fault(exc))

    def _turn(self, body: dict[str, Any], number: int) -> Sequence[Step]:
        if callable(self._script):
            turn = self._script(body, number)
        elif isinstance(self._script, str):
            turn = self._script
        else:
            turn = self._script[min(number, len(self._script)) - 1]
        if isinstance(turn, str):
            return [message(turn)]
        steps = turn if isinstance(turn, Sequence) else [turn]
        for place, step in enumerate(steps):
            if not isinstance(step, Item | Event | Status | Cut | Usage | Gate):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"turn {number}: {step!r} is no step; a text among steps is responses.message(text)")
            if isinstance(step, Status) and any(isinstance(earlier, Item | Event) for earlier in steps[:place]):
                raise TypeError(f"turn {number}: a status comes in place of a stream, not after its beginning")
        return steps


class _Response:
    """One response on its way."""

    def __init__(self, exchange: Exchange, number: int) -> None:
        self._exchange = exchange
        self._number = number
        self._sequence = itertools.count()
        self._started = False
        self._output: list[JsonObject] = []
        self._usage = usage().figures

    def play(self, steps: Iterable[Step]) -> None:
        for step in steps:
            match step:
                case Item():
                    self._item(step)
                case Event():
                    self._event(step.type, step.members)
                    if step.ends:
                        self._exchange.chunk(b"")
                        return
                case Usage():
                    self._usage = step.figures
                case Gate():
                    self._exchange.wait(step)
                case Status():
                    _whole(self._exchange, step)
                    return
                case Cut():  # pragma: no branch - there are no other steps
                    self._exchange.cut()
                    return
        self._event(
            "response.completed", {"response": {"status": "completed", "output": self._output, "usage": self._usage}}
        )
        self._exchange.chunk(b"")

    def _item(self, item: Item) -> None:
        place = len(self._output)
        tag = f"{self._number}_{place}"
        own = {"id": f"item_{tag}", **({"call_id": f"call_{tag}"} if str(item.done["type"]).endswith("_call") else {})}
        done = {**item.done, **own}
        self._event("response.output_item.added", {"output_index": place, "item": {**item.added, **own}})
        for kind, members in item.events:
            self._event(kind, {"item_id": own["id"], "output_index": place, **members})
        self._event("response.output_item.done", {"output_index": place, "item": done})
        self._output.append(done)

    def _event(self, kind: str, members: JsonObject) -> None:
        if not self._started:
            self._started = True
            self._exchange.stream("text/event-stream")
            if kind != "response.created":
                opening = created()
                self._event(opening.type, opening.members)
        if isinstance(members.get("response"), dict):
            inner = cast("dict[str, Any]", members["response"])
            members = {**members, "response": {"id": f"resp_{self._number}", "object": "response", **inner}}
        data = json.dumps({"type": kind, "sequence_number": next(self._sequence), **members})
        self._exchange.chunk(f"event: {kind}\ndata: {data}\n\n".encode())


def _fault(exc: Exception) -> Status:
    return status(500, {"error": {"message": f"the script raised {exc!r}"}})


def _whole(exchange: Exchange, step: Status) -> None:
    headers = {"content-type": "application/json", **step.headers}
    exchange.answer(step.code, json.dumps(step.body).encode(), headers)


def _json(body: bytes) -> dict[str, Any]:
    try:
        found: object = json.loads(body)
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
