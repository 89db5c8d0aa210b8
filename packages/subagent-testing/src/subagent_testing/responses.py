"""What a scripted model server says: the steps of OpenAI's Responses API, for `ScriptedResponses`.

    from subagent_testing import ScriptedResponses, responses

    script = [
        [responses.reasoning("let me look"), responses.function_call("exec_command", {"cmd": "ls"})],
        [responses.message("two files", phase="final_answer")],
    ]
    with ScriptedResponses(script) as api:
        ...  # configure the engine with api.base_url
        api.wait_for_request(2).body["input"]

Each `POST …/responses` is one turn.  A turn is a sequence of steps, made by the functions of this module in the words
of the API; unless a step ends it otherwise it ends with `response.completed`.  Server-sent events carry what the API
documents (`sequence_number`, `…added`, `…delta`, `…done`); tried with Codex 0.163.0, which reads a part of them.

Traps: an engine that retries asks again, and the last turn of a script answers whatever more is asked.  Nothing of a
response is on the wire before its first step is: `silence()` in front is a server that never sends a head, and
`created(), silence()` one that sends the head and then nothing.
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
class Item:
    """An output item of the response.

    Attributes:
        added: it as `response.output_item.added` shows it; the server gives it an `id`.
        events: the events in between, as (type, members); the server adds `item_id` and `output_index`.
        done: it as `response.output_item.done` shows it.
    """

    added: JsonObject
    events: Sequence[tuple[str, JsonObject]]
    done: JsonObject


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event; with `ends` it is the last one."""

    type: str
    members: JsonObject
    ends: bool = False


Step: TypeAlias = Item | Event | Status | Cut | Usage | Gate
Turn: TypeAlias = str | Step | Sequence[Step]
Script: TypeAlias = "str | Sequence[Turn] | Callable[[dict[str, Any], int], Turn]"


def message(text: str, *, phase: str | None = None, chunks: int = 2) -> Item:
    """An answer of the model, its text in so many deltas.

    Args:
        text: the whole text.
        phase: `commentary` or `final_answer`; None leaves the member out, as older models do.
        chunks: how many deltas; none at all with 0.
    """
    base: JsonObject = {"type": "message", "role": "assistant", **({} if phase is None else {"phase": phase})}
    annotations: list[object] = []
    part: JsonObject = {"type": "output_text", "annotations": annotations, "text": text}
    size = -(-len(text) // chunks) if chunks else 0
    deltas = [text[at : at + size] for at in range(0, len(text), size)] if size else []
    return Item(
        added={**base, "status": "in_progress", "content": []},
        events=[
            ("response.content_part.added", {"content_index": 0, "part": {**part, "text": ""}}),
            *(("response.output_text.delta", {"content_index": 0, "delta": delta}) for delta in deltas),
            ("response.output_text.done", {"content_index": 0, "text": text}),
            ("response.content_part.done", {"content_index": 0, "part": part}),
        ],
        done={**base, "status": "completed", "content": [part]},
    )


def reasoning(text: str) -> Item:
    """A summary of what the model thought."""
    part = {"type": "summary_text", "text": text}
    return Item(
        added={"type": "reasoning", "summary": []},
        events=[
            ("response.reasoning_summary_part.added", {"summary_index": 0, "part": {**part, "text": ""}}),
            ("response.reasoning_summary_text.delta", {"summary_index": 0, "delta": text}),
            ("response.reasoning_summary_text.done", {"summary_index": 0, "text": text}),
            ("response.reasoning_summary_part.done", {"summary_index": 0, "part": part}),
        ],
        done={"type": "reasoning", "summary": [part], "encrypted_content": "c2NyaXB0ZWQ="},
    )


def function_call(name: str, arguments: JsonObject | str, *, namespace: str | None = None) -> Item:
    """A call of a function; arguments that are a string are sent as they are, valid JSON or not."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = {"type": "function_call", "name": name, **({} if namespace is None else {"namespace": namespace})}
    return Item(
        added={**call, "arguments": "", "status": "in_progress"},
        events=[
            ("response.function_call_arguments.delta", {"delta": text}),
            ("response.function_call_arguments.done", {"name": name, "arguments": text}),
        ],
        done={**call, "arguments": text, "status": "completed"},
    )


def custom_tool_call(name: str, input: str) -> Item:  # noqa: A002  # the API's word
    """A call of a tool that takes free text, like Codex's `apply_patch`."""
    call = {"type": "custom_tool_call", "name": name}
    return Item(
        added={**call, "input": "", "status": "in_progress"},
        events=[
            ("response.custom_tool_call_input.delta", {"delta": input}),
            ("response.custom_tool_call_input.done", {"input": input}),
        ],
        done={**call, "input": input, "status": "completed"},
    )


def created() -> Event:
    """The head of the answer and `response.created`, which otherwise come with the first item."""
    return Event("response.created", {"response": {"status": "in_progress", "output": []}})


def event(type: str, **members: Any) -> Event:  # noqa: A002  # the API's word
    """Any other event, as it is."""
    return Event(type, members)


def failed(code: str, message: str) -> Event:
    """The response fails: `{"error": {"code": "context_length_exceeded", "message": "…"}}`."""
    error = {"code": code, "message": message}
    return Event("response.failed", {"response": {"status": "failed", "error": error}}, ends=True)


def incomplete(reason: str) -> Event:
    """The response ends early: `max_output_tokens`, `content_filter`."""
    details = {"reason": reason}
    return Event(
        "response.incomplete", {"response": {"status": "incomplete", "incomplete_details": details}}, ends=True
    )


def status(code: int, body: JsonObject | None = None, headers: Mapping[str, str] | None = None) -> Status:
    """An HTTP status instead of a stream, as a first step; the body is an error object unless one is given."""
    error = {"error": {"message": f"scripted status {code}", "type": "scripted", "code": None}}
    return Status(code, error if body is None else body, headers or {})


def cut() -> Cut:
    """The connection ends here, in the middle of the stream or instead of an answer."""
    return Cut()


def silence() -> Gate:
    """Nothing more, until the client hangs up or the server closes."""
    return Gate()


def usage(
    *, input_tokens: int = 100, cached_tokens: int = 40, output_tokens: int = 20, reasoning_tokens: int = 5
) -> Usage:
    """The usage that the response reports when it completes; without this step, these figures."""
    return Usage(
        {
            "input_tokens": input_tokens,
            "input_tokens_details": {"cached_tokens": cached_tokens},
            "output_tokens": output_tokens,
            "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
            "total_tokens": input_tokens + output_tokens,
        }
    )
