"""A model server that follows a script: `ScriptedMessages`.  What it says is in `messages`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, ClassVar

from subagent_testing._http import Exchange, Gate
from subagent_testing._model_server import ModelServer, Request, whole
from subagent_testing._steps import JsonObject, Status, Usage
from subagent_testing.messages import (
    STATUS_OF,
    Block,
    Cut,
    Event,
    Script,
    Started,
    Step,
    Stop,
    status,
    text,
    usage,
)


class ScriptedMessages(ModelServer[Step]):
    """A Messages API on a port of 127.0.0.1 of its own; a plain context manager, at home in any event loop or none.

    Besides `POST /v1/messages` it answers `POST /v1/messages/count_tokens` (10), `GET /v1/models` (none), every `HEAD`
    and `GET /api/hello`; all else is 404.  Claude Code's request for a session title, which it makes besides unless
    non-essential traffic is off, is answered with a title and takes no turn of the script.  The server works in threads
    of its own.  Leaving it ends every connection, and no thread is left.

    Args:
        script: the text of every answer; or one turn for each request, the last one for all that follow; or a function
            of the request's body and its number, from 1, called in the request's own thread.  A turn is a text, a step,
            or a sequence of steps.

    Attributes:
        base_url: `http://127.0.0.1:PORT`, for `ANTHROPIC_BASE_URL`.
        requests: the `POST /v1/messages` but those for a title, in the order in which they came.
        others: all other requests, also a `CONNECT` of a client that takes this for its proxy.

    Raises:
        ValueError: a script of no turns.
        Exception: on leaving, what the script's function raised, when the body raised nothing; the client got a 500.
            So is a TypeError for a turn that is none (a text among steps, a generator, a status after a block), and
            what JSON or HTTP has no form for; whoever had been told a part of it was cut off.
    """

    _turns_at: ClassVar[str] = "/v1/messages"
    _steps: ClassVar[tuple[type, ...]] = (Block, Event, Started, Stop, Status, Cut, Usage, Gate)
    _begin: ClassVar[tuple[type, ...]] = (Block, Event, Started)
    _text: ClassVar[str] = "messages.text"

    def __init__(self, script: Script = "Hello from the script.") -> None:
        super().__init__(script)
        self.base_url = f"http://127.0.0.1:{self._server.port}"

    def _is_turn(self, request: Request) -> bool:
        return super()._is_turn(request) and not _is_title(request.body)

    def _play(self, exchange: Exchange, number: int, request: Request, turn: Iterable[Step]) -> None:
        kind = _Stream if request.body.get("stream") is True else _Whole
        kind(exchange, number, request.body.get("model")).play(turn)

    def _else(self, exchange: Exchange, request: Request) -> None:
        path = request.path.partition("?")[0]
        if request.method == "POST" and path.endswith(self._turns_at):
            self._play(exchange, next(self._ids), request, [text('{"title": "Scripted"}')])
        elif request.method == "HEAD":
            exchange.answer(200, b"", {})
        else:
            whole(exchange, _ANSWERS.get((request.method, path)) or status(404))

    def _said(self, words: str) -> Step:
        return text(words)

    def _fault(self, words: str) -> Status:
        return status(500, message=words)


_ANSWERS = {
    ("POST", "/v1/messages/count_tokens"): Status(200, {"input_tokens": 10}, {}),
    ("GET", "/v1/models"): Status(200, {"data": [], "has_more": False, "first_id": None, "last_id": None}, {}),
    ("GET", "/api/hello"): Status(200, {"message": "hello"}, {}),
}


def _is_title(body: JsonObject) -> bool:
    """Whether it asks for the title of a session: no tools, and one of the two marks that 2.1.332 puts on it."""
    asks = "naming a coding session" in json.dumps(body.get("system", ""))
    return not body.get("tools") and (asks or '"title"' in json.dumps(body.get("output_config", "")))


class _Answer:
    """One answer on its way: what is the same whether it is a stream or not."""

    def __init__(self, exchange: Exchange, number: int, model: object) -> None:
        self._exchange = exchange
        self._number = number
        self._model = model
        self._usage: dict[str, Any] = dict(usage().figures)
        self._blocks: list[JsonObject] = []
        self._reason: str | None = None

    def play(self, steps: Iterable[Step]) -> None:
        for step in steps:
            match step:
                case Block():
                    place = len(self._blocks)
                    own = {"id": f"toolu_{self._number}_{place}"} if step.whole["type"] == "tool_use" else {}
                    self._blocks.append({**step.whole, **own})
                    self._block(place, {**step.start, **own}, step.deltas)
                case Event():
                    self._event(step.type, step.members)
                    if step.ends:
                        self._failed(step)
                        return
                case Started():
                    self._start()
                case Stop():
                    self._reason = step.reason
                case Usage():
                    self._usage = dict(step.figures)
                case Gate():
                    self._exchange.wait(step)
                case Status():
                    whole(self._exchange, step)
                    return
                case Cut():  # pragma: no branch - there are no other steps
                    self._exchange.cut()
                    return
        self._end()

    def _message(self, **members: object) -> JsonObject:
        """The message as the API shows it."""
        base = {"id": f"msg_{self._number}", "type": "message", "role": "assistant", "model": self._model}
        return {**base, "content": [], "stop_reason": None, "stop_sequence": None, "usage": self._usage, **members}

    def _stop_reason(self) -> str:
        calls = bool(self._blocks) and self._blocks[-1]["type"] == "tool_use"
        return self._reason or ("tool_use" if calls else "end_turn")

    def _start(self) -> None:
        """Put the head on the wire, where there is one before the end."""

    def _block(self, place: int, start: JsonObject, deltas: Iterable[JsonObject]) -> None:
        """Tell a block as it comes."""

    def _event(self, kind: str, members: JsonObject) -> None:
        """Tell something else as it comes."""

    def _failed(self, error: Event) -> None:
        """End with an error, which was told if it could be."""

    def _end(self) -> None:
        """End well."""


class _Whole(_Answer):
    """As one JSON object."""

    def _failed(self, error: Event) -> None:
        told: dict[str, str] = error.members.get("error", {})
        kind = told.get("type", "api_error")
        whole(self._exchange, status(STATUS_OF.get(kind, 500), kind, told.get("message")))

    def _end(self) -> None:
        answer = self._message(content=self._blocks, stop_reason=self._stop_reason())
        whole(self._exchange, Status(200, answer, {"request-id": "req_scripted"}))


class _Stream(_Answer):
    """As server-sent events."""

    _started = False

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._exchange.stream("text/event-stream")
            first = {**self._usage, "output_tokens": 1}
            self._say("message_start", {"message": self._message(usage=first)})

    def _block(self, place: int, start: JsonObject, deltas: Iterable[JsonObject]) -> None:
        self._start()
        self._say("content_block_start", {"index": place, "content_block": start})
        for delta in deltas:
            self._say("content_block_delta", {"index": place, "delta": delta})
        self._say("content_block_stop", {"index": place})

    def _event(self, kind: str, members: JsonObject) -> None:
        self._start()
        self._say(kind, members)

    def _failed(self, error: Event) -> None:
        self._exchange.chunk(b"")

    def _end(self) -> None:
        self._start()
        delta = {"stop_reason": self._stop_reason(), "stop_sequence": None}
        self._say("message_delta", {"delta": delta, "usage": self._usage})
        self._say("message_stop", {})
        self._exchange.chunk(b"")

    def _say(self, kind: str, members: JsonObject) -> None:
        data = json.dumps({"type": kind, **members})
        self._exchange.chunk(f"event: {kind}\ndata: {data}\n\n".encode())
