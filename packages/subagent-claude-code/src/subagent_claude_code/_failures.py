"""What goes wrong with Claude Code, as the seam's words: tables, and the few functions that read them.

`subtype` alone says nothing: an API failure of any kind is a `success` with `is_error` (observed, 2.1.332). What
decides is `is_error`, then `terminal_reason`, then the engine's text where a class is known only from it, then the HTTP
status, then its word for the error. Only the channels of the engine's errors are read, never what the model said.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from subagent_process import redact
from subagents import Failure, FailureKind, StopReason
from subagents.backend.resets import reset_time
from subagents.backend.values import JsonObject, number_in, text_in, texts_in

_SAID: Final = 3000  # characters of the engine's own words in a message
_READ: Final = 16_384  # characters of a text in which causes are looked for


class Ending(NamedTuple):
    """How a run ended."""

    stop: StopReason
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: the verdict, and what a caller can do next."""

    kind: FailureKind
    hint: str
    retryable: bool = False
    stop: StopReason = "error"


_LATER: Final = "try again later"
_LIMIT: Final = Rule("limit", "wait until the limit resets, or use another account or model", retryable=True)
_CREDIT: Final = Rule("limit", "the account has no credit left: add some, or use another account")
_AUTH: Final = Rule("auth", "check the API key, or sign in anew with `claude auth login`")
_MODEL: Final = Rule("model", "name another model, or check what this account may use")
_UNFIT: Final = Rule("model", "this model may not take the effort, the schema or the tools: change those")
_OVERLOAD: Final = Rule("overload", _LATER, retryable=True)
_NETWORK: Final = Rule("network", "check the network and the address of the model server", retryable=True)
_LONG: Final = Rule("model", "shorten the task, or split it", stop="max-tokens")
_UNKNOWN: Final = Rule("unknown", "the engine gave no class of error: its words say what to look at")

REASONS: Final[dict[str, Rule]] = {
    "max_turns": Rule("budget", "raise max_turns, or split the task"),
    "budget_exhausted": Rule("budget", "raise the budget, or split the task"),
    "prompt_too_long": _LONG,
    "image_error": Rule("model", "the request was too large: ask for less at once"),
    "structured_output_retry_exhausted": Rule("output", "the model never met output_schema: make it simpler"),
}
"""A `terminal_reason` that decides by itself."""

_STOPPED: Final = ("aborted_tools", "aborted_streaming")

STATUSES: Final[dict[int, Rule]] = {
    400: _UNFIT,
    401: _AUTH,
    402: _CREDIT,
    403: Rule("auth", "this account may not do that: check the API key and what it is allowed to use"),
    404: _MODEL,
    408: _NETWORK,
    413: _LONG,
    422: _UNFIT,
    429: _OVERLOAD,  # a used-up quota is told apart by the event or the words
}
"""`api_error_status`; every 5xx is `overload`."""

WORDS: Final[dict[str, Rule]] = {
    "authentication_failed": _AUTH,
    "billing_error": _CREDIT,
    "rate_limit": _OVERLOAD,
    "overloaded": _OVERLOAD,
    "invalid_request": _UNFIT,
    "model_not_found": _MODEL,
    "server_error": _NETWORK,  # without a status: nothing answered
}
"""`error` of the engine's message about a failure."""

_TEXTS: Final[tuple[tuple[str, Rule], ...]] = (
    (r"(?i)\byou've hit your\b.{0,80}\blimit\b|usage limit reached|\bout of extra usage\b", _LIMIT),
    (r"(?i)credit balance is too low", _CREDIT),
    (r"(?i)prompt is too long", _LONG),
    (r"(?i)not logged in|please run /login", _AUTH),
    (r"No conversation found with session ID", Rule("unknown", "check the name of the session, and its home")),
)
"""Looked for, in this order, before the status and the word."""


def ending_of(result: JsonObject, *, word: str, reset: float | None, now: datetime) -> Ending:
    """The verdict that a `result` message stands for, whatever it holds.

    Args:
        result: the message.
        word: `error` of the engine's last message about a failure, or empty.
        reset: when a used-up quota ends, Unix time in seconds, if the engine has said that one is.
        now: the present time, aware, in the zone in which the engine writes clock times.
    """
    reason = text_in(result, "terminal_reason")
    if result.get("is_error") is not True:
        if text_in(result, "stop_reason") == "refusal":
            return Ending("refusal", Failure("policy", "run", "the model refused. To do: rephrase the task."))
        if text_in(result, "stop_reason") == "max_tokens":
            return Ending("max-tokens", Failure("model", "run", f"the answer was cut. To do: {_LONG.hint}."))
        return Ending("completed", None)
    if reason in _STOPPED:
        return Ending("aborted", None)
    said = "; ".join(texts_in(result, "errors")) or text_in(result, "result") or reason or "it gave no reason"
    status = number_in(result, "api_error_status")
    rule = _LIMIT if reset is not None and reason not in REASONS else _rule(reason, status, word, said)
    retry_at = None
    if rule.retryable:
        times = [reset, reset_time(said[:_READ], now=now)]
        # The later one: the words are cut to the minute, and a retry before the time would be useless.
        retry_at = max((time for time in times if time is not None), default=None)
    message = f"{redact(said[:_SAID]).rstrip('. ')}. To do: {rule.hint}."
    return Ending(rule.stop, Failure(rule.kind, "run", message, rule.retryable, retry_at, status))


def _rule(reason: str, status: int | None, word: str, said: str) -> Rule:
    if reason in REASONS:
        return REASONS[reason]
    head = said[:_READ]
    if (named := next((rule for pattern, rule in _TEXTS if re.search(pattern, head)), None)) is not None:
        return named
    if status is not None and status >= 500:
        return _OVERLOAD
    if status is not None and status in STATUSES:
        return STATUSES[status]
    return WORDS.get(word, _UNKNOWN)
