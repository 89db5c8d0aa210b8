"""What scripted model servers have in common: turns for requests, what was asked, and waiting for it.

An API is a subclass: it says which requests are turns, plays the steps of one, and answers all else.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar, cast

import anyio.to_thread

from subagent_testing._http import Connection, Exchange, HttpServer, Left
from subagent_testing._steps import Status

StepT = TypeVar("StepT")
AnyTurn: TypeAlias = str | StepT | Sequence[StepT]


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


class ModelServer(ABC, Generic[StepT]):
    """A model server that follows a script; what is public here, its subclasses describe."""

    _turns_at: ClassVar[str]
    """The end of the path to which turns are posted."""

    _steps: ClassVar[tuple[type, ...]]
    """All the steps that there are."""

    _begin: ClassVar[tuple[type, ...]]
    """Those with which an answer begins, so that no status can come after them."""

    _text: ClassVar[str]
    """What makes a step of a text, in the words of a script."""

    def __init__(
        self, script: str | Sequence[AnyTurn[StepT]] | Callable[[dict[str, Any], int], AnyTurn[StepT]]
    ) -> None:
        if not callable(script) and not script:
            raise ValueError("a script needs at least one turn: a text, a step, or a sequence of steps")
        self._script = script
        self._changed = threading.Condition()
        self._ids = itertools.count(1)
        self._broken: list[Exception] = []
        self.requests: list[Request] = []
        self.others: list[Request] = []
        self._server = HttpServer(self._answer)

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
        """Block until the n-th request for a turn has come.

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

    @abstractmethod
    def _play(self, exchange: Exchange, number: int, request: Request, turn: Iterable[StepT]) -> None:
        """Answer a request for a turn with it; the number is one of its own."""

    @abstractmethod
    def _else(self, exchange: Exchange, request: Request) -> None:
        """Answer any other request."""

    @abstractmethod
    def _said(self, words: str) -> StepT:
        """The step that a turn stands for which is a text."""

    @abstractmethod
    def _fault(self, words: str) -> Status:
        """What a client gets whose turn cannot be played."""

    def _is_turn(self, request: Request) -> bool:
        """Whether a turn of the script answers it."""
        return request.method == "POST" and request.path.partition("?")[0].endswith(self._turns_at)

    def _wait(self, happened: Callable[[], bool], what: str, within: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: happened() or self._server.closing, within)
            if not happened():
                limit = "before the server closed" if self._server.closing else f"within {within:g} s"
                seen = f"{len(self.requests)} requests came to {self._turns_at} and {len(self.others)} elsewhere"
                raise TimeoutError(f"{what} did not come {limit}; {seen}")

    def _answer(self, exchange: Exchange) -> None:
        """What the server calls for each request, in its connection's thread."""
        asked = exchange.asked
        request = Request(asked.method, asked.path, asked.headers, _json(asked.body), asked.body, asked.at)
        mine = self._is_turn(request)
        with self._changed:
            (self.requests if mine else self.others).append(request)
            number = len(self.requests)
            self._changed.notify_all()
        try:
            if mine:
                self._play(exchange, next(self._ids), request, self._turn(request.body, number))
            else:
                self._else(exchange, request)
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
                whole(exchange, self._fault(f"the script raised {exc!r}"))

    def _turn(self, body: dict[str, Any], number: int) -> Sequence[StepT]:
        script = self._script
        if callable(script):
            turn = script(body, number)
        else:
            turn = script if isinstance(script, str) else script[min(number, len(script)) - 1]
        if isinstance(turn, str):
            return [self._said(turn)]
        steps = cast("Sequence[StepT]", turn if isinstance(turn, Sequence) else [turn])
        begun = False
        for step in steps:
            if not isinstance(step, self._steps):
                raise TypeError(f"turn {number}: {step!r} is no step; a text among steps is {self._text}(text)")
            if begun and isinstance(step, Status):
                raise TypeError(f"turn {number}: a status comes in place of a stream, not after its beginning")
            begun = begun or isinstance(step, self._begin)
        return steps


def whole(exchange: Exchange, step: Status) -> None:
    """Answer with a status and its body."""
    headers = {"content-type": "application/json", **step.headers}
    body = step.body if isinstance(step.body, bytes) else json.dumps(step.body).encode()
    exchange.answer(step.code, body, headers)


def _json(body: bytes) -> dict[str, Any]:
    try:
        found: object = json.loads(body)
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
