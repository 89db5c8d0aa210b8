"""What a scripted model server says: the steps of Anthropic's Messages API, for `ScriptedMessages`.

    from subagent_testing import ScriptedMessages, messages

    script = [
        [messages.thinking("let me look"), messages.tool_use("Bash", {"command": "ls"})],
        "two files",
    ]
    with ScriptedMessages(script) as api:
        ...  # give the engine ANTHROPIC_BASE_URL=api.base_url and any ANTHROPIC_API_KEY
        api.wait_for_request(2).body["messages"]

Each `POST /v1/messages` is one turn.  A turn is a sequence of steps, made by the functions of this module in the words
of the API; unless a step ends it otherwise it ends with `message_delta` and `message_stop`, and stops for `tool_use`
when the last block is a call, for `end_turn` when it is none.  A request without `"stream": true` gets the same turn as
one JSON object.  Tried with Claude Code 2.1.332.

Traps: an engine that retries asks again, and the last turn of a script answers whatever more is asked.  A stream that
breaks before its first block makes Claude Code ask again without one, silently.  Nothing of an answer is on the wire
before its first step is: `silence()` in front is a server that never sends a head, and `started(), silence()` one that
sends the head and then nothing; an answer that is no stream has no head before its end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from subagent_testing._http import Gate
from subagent_testing._steps import Cut as Cut
from subagent_testing._steps import JsonObject as JsonObject
from subagent_testing._steps import Status as Status
from subagent_testing._steps import Usage as Usage


@dataclass(frozen=True, slots=True)
class Block:
    """A content block of the answer.

    Attributes:
        start: it as `content_block_start` shows it.
        deltas: the `delta` of each `content_block_delta`.
        whole: it as an answer that is no stream has it; the server gives a `tool_use` its `id`, here and in `start`.
    """

    start: JsonObject
    deltas: Sequence[JsonObject]
    whole: JsonObject


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event; with `ends` it is the last one."""

    type: str
    members: JsonObject
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    """The head of a stream."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the answer ends."""

    reason: str


Step: TypeAlias = Block | Event | Started | Stop | Status | Cut | Usage | Gate
Turn: TypeAlias = str | Step | Sequence[Step]
Script: TypeAlias = "str | Sequence[Turn] | Callable[[dict[str, Any], int], Turn]"

STATUS_OF: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Error type -> the HTTP status that the API documents for it."""


def text(text: str, *, chunks: int = 2) -> Block:
    """A text, in so many deltas; none at all with 0."""
    size = -(-len(text) // chunks) if chunks else 0
    parts = [text[at : at + size] for at in range(0, len(text), size)] if size else []
    return Block(
        start={"type": "text", "text": ""},
        deltas=[{"type": "text_delta", "text": part} for part in parts],
        whole={"type": "text", "text": text},
    )


def thinking(thinking: str, *, signature: str = "scripted") -> Block:
    """What the model thinks, and the signature that the API puts below it."""
    return Block(
        start={"type": "thinking", "thinking": "", "signature": ""},
        deltas=[
            {"type": "thinking_delta", "thinking": thinking},
            {"type": "signature_delta", "signature": signature},
        ],
        whole={"type": "thinking", "thinking": thinking, "signature": signature},
    )


def tool_use(name: str, input: JsonObject) -> Block:  # noqa: A002  # the API's word
    """A call of a tool: `tool_use("Write", {"file_path": "/w/a.txt", "content": "hi"})`."""
    call: JsonObject = {"type": "tool_use", "name": name}
    return Block(
        start={**call, "input": {}},
        deltas=[{"type": "input_json_delta", "partial_json": json.dumps(input)}],
        whole={**call, "input": input},
    )


def started() -> Started:
    """The head of the answer and `message_start`, which otherwise come with the first block."""
    return Started()


def event(type: str, **members: Any) -> Event:  # noqa: A002  # the API's word
    """Any other event, as it is; nothing in an answer that is no stream."""
    return Event(type, members)


def sse_error(type: str = "overloaded_error", message: str = "Overloaded") -> Event:  # noqa: A002  # the API's word
    """An `error` event, which ends the stream; an answer that is no stream is the status of that type."""
    return Event("error", {"error": {"type": type, "message": message}}, ends=True)


def status(
    code: int,
    type: str | None = None,  # noqa: A002  # the API's word
    message: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Status:
    """An HTTP error instead of an answer, as a first step.

    Args:
        code: 429.
        type: the error's type; by default the one that the API documents for the code, or `api_error`.
        message: `Number of requests has exceeded your rate limit`.
        headers: more headers: `{"retry-after": "1"}`, `{"x-should-retry": "false"}`,
            `{"anthropic-ratelimit-unified-status": "rejected"}`.
    """
    known = {number: name for name, number in STATUS_OF.items()}
    error = {"type": type or known.get(code, "api_error"), "message": message or f"scripted status {code}"}
    body = {"type": "error", "error": error, "request_id": "req_scripted"}
    return Status(code, body, {"request-id": "req_scripted", **(headers or {})})


def stop(reason: str) -> Stop:
    """Why the answer ends, when that does not follow from its blocks: `max_tokens`, `refusal`, `pause_turn`."""
    return Stop(reason)


def cut() -> Cut:
    """The connection ends here, in the middle of the answer or instead of it."""
    return Cut()


def silence() -> Gate:
    """Nothing more, until the client hangs up or the server closes."""
    return Gate()


def usage(
    *, input_tokens: int = 100, output_tokens: int = 20, cache_creation_tokens: int = 0, cache_read_tokens: int = 0
) -> Usage:
    """The usage that the answer reports, from this step on; without it, these figures.

    Those of the input are in `message_start`: put it first.
    """
    return Usage(
        {
            "input_tokens": input_tokens,
            "cache_creation_input_tokens": cache_creation_tokens,
            "cache_read_input_tokens": cache_read_tokens,
            "output_tokens": output_tokens,
        }
    )
