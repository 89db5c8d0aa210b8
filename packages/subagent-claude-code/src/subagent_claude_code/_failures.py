"""What goes wrong with Claude Code, as the seam's words: tables, and the few functions that read them.

`subtype` alone says nothing: an API failure of any kind is a `success` with `is_error`. What decides is `is_error`,
then `terminal_reason`, then `api_error`, then the engine's text where a class is known only from it, then the HTTP
status, then its word for the error. Only the channels of the engine's errors are read, never what the model said.

Sources: what is in the tables was seen on 2.1.332 against a scripted server, or read in that program; texts of older
ones are known from public reports. Trap: `rejected` in a rate-limit event is also said of a server that is only busy;
what tells a used-up quota is its end, or the words, and they say "not your usage limit" too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from subagent_process import redact
from subagents import Failure, FailureKind, StopReason
from subagents.backend.resets import plain, plausible, reset_time
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
_CREDIT: Final = Rule("limit", "the account has no credit left: add some, or use another account or model")
_AUTH: Final = Rule("auth", "check the API key and what it is allowed to use, or sign in anew with `claude auth login`")
_MODEL: Final = Rule("model", "name another model, or check what this account may use")
_UNFIT: Final = Rule("model", "this model may not take the effort, the schema or the tools: change those")
_OVERLOAD: Final = Rule("overload", _LATER, retryable=True)
_NETWORK: Final = Rule("network", "check the network and the address of the model server", retryable=True)
_UNTRUSTED: Final = Rule("network", "check the certificate of the model server, or of the proxy in between")
_LONG: Final = Rule("model", "shorten the task, or split it", stop="max-tokens")
_CUT: Final = Rule("model", "the answer was longer than the model may write: ask for less at once", stop="max-tokens")
_REFUSED: Final = Rule("policy", "rephrase the task, or name another model", stop="refusal")
_HOOK: Final = Rule("policy", "a hook of the configuration stopped it: look there")
_SESSION: Final = Rule("unknown", "check the name of the session, and that it was made in this home")
_UNKNOWN: Final = Rule("unknown", "the engine gave no class of error: its words say what to look at")

REASONS: Final[dict[str, Rule]] = {
    "max_turns": Rule("budget", "raise max_turns, or split the task"),
    "budget_exhausted": Rule("budget", "raise the budget, or split the task"),
    "prompt_too_long": _LONG,
    "blocking_limit": _LONG,  # no room for a further request
    "rapid_refill_breaker": _LONG,  # full again directly after it was made smaller
    "image_error": Rule("model", "the request was too large: ask for less at once"),
    "malformed_tool_use_exhausted": Rule("model", "the model's calls could not be read: try again", retryable=True),
    "structured_output_retry_exhausted": Rule("output", "the model never met output_schema: make it simpler"),
}
"""A `terminal_reason` that decides by itself."""

_BY_SUBTYPE: Final = {
    "error_max_turns": "max_turns",
    "error_max_budget_usd": "budget_exhausted",
    "error_max_structured_output_retries": "structured_output_retry_exhausted",
}
"""The reason of a result that gives none, as older engines do."""

_STOPPED: Final = ("aborted_tools", "aborted_streaming")
_OF_THE_SERVER: Final = ("", "api_error")  # behind another reason `result` may hold the model's last words

_SHORT: Final[dict[str, Rule]] = {
    "refusal": _REFUSED,
    "max_tokens": _CUT,
    "model_context_window_exceeded": _LONG,
}
"""A `stop_reason` of a result that is no error."""

API_ERRORS: Final[dict[str, Rule]] = {
    "usage_limit_reached": _LIMIT,
    "model_requires_usage_credits": _CREDIT,
    "long_context_credits_required": _CREDIT,
    "consent_unanswered": _CREDIT,
    "max_output_tokens": _CUT,
    "connection_failed": _NETWORK,
    "no_response": _NETWORK,
    "stream_idle_timeout": _NETWORK,
    "gateway_content_type": _NETWORK,
    "computer_slept": _NETWORK,
    "network_edge_blocked": Rule("network", "something on the way refused it: check proxy, VPN and region"),
    "tls_untrusted_ca": _UNTRUSTED,
    "tls_cert_signature_failure": _UNTRUSTED,
    "hook_denied": _HOOK,
    "org_disabled_credential": _AUTH,
    "api_key_auth_disabled": _AUTH,
    "invalid_credential_header": _AUTH,
    "stored_login_refused": _AUTH,
    "provider_credentials": _AUTH,
    "gateway_signin_required": _AUTH,
    "gateway_session_expired": _AUTH,
}
"""`api_error`, the engine's finest word; most errors have none."""

STATUSES: Final[dict[int, Rule]] = {
    400: _UNFIT,
    401: _AUTH,
    402: _CREDIT,
    403: _AUTH,
    404: _MODEL,
    408: _NETWORK,
    413: _LONG,
    422: _UNFIT,
    429: _OVERLOAD,  # a used-up quota is told apart by its end, or the words
}
"""`api_error_status`; every 5xx is `overload`."""

_VAGUE: Final = (None, 400, 402, 403, 422, 429)  # where the words say more than the status

WORDS: Final[dict[str, Rule]] = {
    "authentication_failed": _AUTH,
    "oauth_org_not_allowed": _AUTH,
    "verification_required": _AUTH,
    "account_on_hold": _AUTH,
    "cloud_credential_error": _AUTH,
    "billing_error": _CREDIT,
    "rate_limit": _OVERLOAD,
    "overloaded": _OVERLOAD,
    "invalid_request": _UNFIT,
    "model_not_found": _MODEL,
    "max_output_tokens": _CUT,
    "server_error": _NETWORK,  # without a status: nothing answered
}
"""`error` of the engine's message about a failure."""

# A bound of an account, and not one of a rate or of a size.
_OTHERS: Final = """
    rate token tokens context turn turns size time length window request requests output
    """.split()  # noqa: SIM905  # one word beside the other is easier to read
_BOUND: Final = "".join(rf"(?<!\b{word} )" for word in _OTHERS) + r"\b(?:limit|cap|budget|quota|allowance|usage)s?\b"
_SPENT: Final = r"(?:hit|reached|exceed(?:ed|s)?|exhausted|used (?:up|all|100%)(?: of)?)"
_NO: Final = r"(?:invalid|incorrect|missing|expired|bad|unknown)"

_TEXTS: Final[tuple[tuple[str, Rule], ...]] = (
    (r"no conversation found with session id", _SESSION),
    (
        r"credit balance (?:is )?too low|usage credits ran out|\bout of (?:extra |your )?(?:usage|credits)\b|"
        r"(?:extra usage|usage credits) (?:is |are )?required|requires? (?:extra usage|usage credits)|"
        r"seat type doesnt include|usage allocation has been disabled|limit is set to \$0|"
        r"insufficient (?:credits?|funds|balance|quota)|billing error",
        _CREDIT,
    ),
    (r"\b(?:increase|acceleration) rate\b", _OVERLOAD),  # a bound of how fast usage may grow
    (
        rf"\b{_SPENT} (?:your|the|this|its|our) (?:(?:[^.]|\.\d){{0,60}} )?{_BOUND}|"
        rf"{_BOUND} (?:(?:has|have|was|is|been|already) )*{_SPENT}\b|{_BOUND}\W{{0,3}}(?:will )?(?:be )?resets?\b",
        _LIMIT,
    ),
    (
        r"prompt is too long|(?:context|conversation) (?:window |length )?(?:limit|is full|is too long)|"
        r"maximum context|context window.{0,40}exceed",
        _LONG,
    ),
    (r"output token (?:limit|maximum)", _CUT),
    (r"safeguards flagged|usage policy|content filtering policy", _REFUSED),
    (
        rf"not (?:logged|signed) in|\brun (?:claude )?(?:auth |/)?login\b|failed to authenticate|"
        rf"authentication (?:error|failed|required)|"
        rf"{_NO} (?:external )?(?:x-)?(?:api[ -]?key|(?:auth|bearer|access|oauth|authentication) token|credentials?)|"
        r"(?:oauth|access|bearer) token (?:(?:has|been|is|was) )*(?:expired|revoked|invalid)|(?:login|session) expired|"
        r"(?:api key|organization|account)\b.{0,60}\bdisabled|disabled (?:api key|org)",
        _AUTH,
    ),
)
"""Looked for, in this order, before a status that is vague, in small letters without apostrophes and underscores."""

_LAST: Final[tuple[tuple[str, Rule], ...]] = (
    (r"\brate limit|too many requests|overloaded|temporarily limiting", _OVERLOAD),
    (
        r"\be(?:conn(?:refused|reset|aborted)|notfound|timedout|ai again|pipe|netunreach|hostunreach)\b|timed out|"
        r"connection (?:error|refused|dropped|lost|closed|reset)|fetch failed|socket hang up|malformed response",
        _NETWORK,
    ),
)
"""Looked for when nothing else gave a class."""

_STATUS: Final = re.compile(r"\b(?:api error:? \(?|rejected \(|status:? (?:code:? )?)([45]\d\d)\b")


def has_failed(result: JsonObject) -> bool:
    """Whether the `result` message tells of a failure; then its text is the engine's, or not whole."""
    if result.get("is_error") is True:
        return True
    reason, subtype = _reason(result), text_in(result, "subtype")
    known = reason in REASONS or reason in _STOPPED or reason == "api_error"
    return known or (reason != "completed" and subtype.startswith("error"))


def ending_of(result: JsonObject, *, word: str, reset: object, now: datetime) -> Ending:
    """The verdict that a `result` message stands for, whatever it holds.

    Args:
        result: the message.
        word: `error` of the engine's last message about a failure, or empty.
        reset: `resetsAt` of the engine's event that a quota is used up, in seconds or milliseconds; None without one.
        now: the present time, aware, in the zone in which the engine writes clock times.
    """
    reason, stop = _reason(result), text_in(result, "stop_reason")
    if not has_failed(result):
        short = _SHORT.get(stop)
        return Ending("completed", None) if short is None else _ending(short, f"the model ended with {stop}")
    if reason in _STOPPED:
        return Ending("aborted", None)
    told = "; ".join(texts_in(result, "errors"))
    said = told or text_in(result, "result")
    heard = plain(said[:_READ] if told or reason in _OF_THE_SERVER else "")
    words = heard.lower().replace("'", "").replace("_", " ")
    status = _status(result, words)
    rule = _REFUSED if stop == "refusal" else _rule(reason, text_in(result, "api_error"), status, word, words)
    if reset is not None and (
        rule is _UNKNOWN or (rule is _OVERLOAD and status == 429 and "not your usage" not in words)
    ):
        rule = _LIMIT
    times = [plausible(reset, now=now) if rule.kind == "limit" else None]
    if rule.retryable or rule.kind == "limit":
        times.append(reset_time(heard, now=now))
    # The later one: the words are cut to the minute, and a retry before the time would be useless.
    retry_at = max((time for time in times if time is not None), default=None)
    return _ending(rule, said or reason or "it gave no reason", retry_at, status)


def _reason(result: JsonObject) -> str:
    return text_in(result, "terminal_reason") or _BY_SUBTYPE.get(text_in(result, "subtype"), "")


def _status(result: JsonObject, words: str) -> int | None:
    status = number_in(result, "api_error_status")
    if status is None and (found := _STATUS.search(words)):
        status = int(found[1])
    return status if status is not None and 100 <= status <= 999 else None


def _ending(rule: Rule, said: str, retry_at: float | None = None, status: int | None = None) -> Ending:
    message = f"{redact(said[:_SAID]).rstrip('. ')}. To do: {rule.hint}."
    again = rule.retryable or retry_at is not None  # what costs money is over at a time, when there is one
    return Ending(rule.stop, Failure(rule.kind, "run", message, again, retry_at, status))


def _rule(reason: str, api_error: str, status: int | None, word: str, words: str) -> Rule:
    for table, key in ((REASONS, reason), (API_ERRORS, api_error)):
        if key in table:
            return table[key]
    if status in _VAGUE and (named := _named(_TEXTS, words)) is not None:
        return named
    if status is not None and status >= 500:
        return _OVERLOAD
    if status is not None and status in STATUSES:
        return STATUSES[status]
    return WORDS.get(word) or _named(_LAST, words) or _UNKNOWN


def _named(table: tuple[tuple[str, Rule], ...], words: str) -> Rule | None:
    return next((rule for pattern, rule in table if re.search(pattern, words)), None)
