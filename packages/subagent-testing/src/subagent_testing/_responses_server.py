"""A model server that follows a script: `ScriptedResponses`.  What it says is in `responses`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any, ClassVar, cast

from subagent_testing._http import Exchange, Gate
from subagent_testing._model_server import ModelServer, Request, whole
from subagent_testing._steps import JsonObject, Status, Usage
from subagent_testing.responses import (
    Cut,
    Event,
    Item,
    Script,
    Step,
    created,
    message,
    status,
    usage,
)


class ScriptedResponses(ModelServer[Step]):
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

    _turns_at: ClassVar[str] = "/responses"
    _steps: ClassVar[tuple[type, ...]] = (Item, Event, Status, Cut, Usage, Gate)
    _begin: ClassVar[tuple[type, ...]] = (Item, Event)
    _text: ClassVar[str] = "responses.message"

    def __init__(self, script: Script = "Hello from the script.", *, models: JsonObject | None = None) -> None:
        self._models: JsonObject = {"object": "list", "data": [], "models": []} if models is None else models
        super().__init__(script)
        self.base_url = f"http://127.0.0.1:{self._server.port}/v1"

    def _play(self, exchange: Exchange, number: int, request: Request, turn: Iterable[Step]) -> None:
        _Response(exchange, number).play(turn)

    def _else(self, exchange: Exchange, request: Request) -> None:
        if request.headers.get("upgrade", "").lower() == "websocket":
            whole(exchange, status(426))
        elif request.method == "GET" and request.path.partition("?")[0].endswith("/models"):
            whole(exchange, Status(200, self._models, {}))
        else:
            whole(exchange, status(404))

    def _said(self, words: str) -> Step:
        return message(words)

    def _fault(self, words: str) -> Status:
        return status(500, {"error": {"message": words}})


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
                    whole(self._exchange, step)
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
