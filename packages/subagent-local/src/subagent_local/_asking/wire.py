"""How an answer comes over the line: where it is asked for, how it is cut into pieces, and what a piece looks like.

There are two: the chat completions of the OpenAI API as server-sent events, which nearly every server speaks, and the
native chat of Ollama as newline-delimited JSON. The pieces of the second are turned into those of the first, so that
one reader (`chat`) knows what an answer is, for both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from subagent_local._asking.ndjson import NdjsonDecoder
from subagent_local._asking.sse import ServerEvent, SseDecoder
from subagent_local._json import table


class Decoder(Protocol):
    """Bytes in, events out."""

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that are complete now."""
        ...

    def close(self) -> list[ServerEvent]:
        """What the end of the stream completes."""
        ...


@dataclass(frozen=True, slots=True)
class Wire:
    """One way to ask and to be answered.

    Attributes:
        path: to which the request is posted.
        decoder: makes a decoder for one answer.
        says: what is expected, for an error.
        piece: from a parsed event to ``{"choices": […], "usage": …}``, or the error that it is.
    """

    path: str
    decoder: Callable[[], Decoder]
    says: str
    piece: Callable[[object], dict[str, object]]


def _from_ollama(value: object) -> dict[str, object]:
    """From ``{"message": {"content", "thinking"}, "done", "done_reason", "prompt_eval_count", "eval_count"}``."""
    line = table(value)
    if "error" in line or not line:
        return line
    message = table(line.get("message"))
    delta = {"content": message.get("content"), "reasoning": message.get("thinking")}
    done = line.get("done") is True
    choice: dict[str, object] = {"index": 0, "delta": delta, "finish_reason": line.get("done_reason") if done else None}
    piece: dict[str, object] = {"choices": [choice]}
    if done:
        piece["usage"] = {
            "prompt_tokens": line.get("prompt_eval_count"),
            "completion_tokens": line.get("eval_count"),
            "prompt_tokens_details": {"cached_tokens": line.get("prompt_eval_cached_count")},
        }
    return piece


OPENAI = Wire("/v1/chat/completions", SseDecoder, "an event stream", table)
OLLAMA = Wire("/api/chat", NdjsonDecoder, "lines of JSON", _from_ollama)
