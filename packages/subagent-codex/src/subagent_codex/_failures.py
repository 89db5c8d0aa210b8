"""What goes wrong with Codex, as the seam's words: tables, and the few functions that read them.

Only channels of the engine's errors are read here, never what the model said. A row says what the caller can do next;
`stop` is `error` unless the answer is cut short (`max-tokens`) or refused (`refusal`), and `retryable` means that the
same task may succeed later, unchanged.

Sources: the values of `codexErrorInfo` from the schemas of 0.163.0 and 0.171.0; the texts, and what happens with which
HTTP status, were seen on 0.163.0 against a scripted server. Trap: 0.163.0 says `other` for much that it knows better
(`max_output_tokens`, `content_filter`, a cut stream, a 400), so the text is looked at there.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple, cast

from subagent_process import RpcError, redact
from subagents import Failure, FailureKind, StopReason
from subagents.backend.resets import plain, reset_time
from subagents.backend.values import JsonObject, number_in, object_in, text_in

_STATUS: Final = re.compile(r"\b(?:unexpected|last) status:? ([1-5]\d\d)\b")
_SAID: Final = 3000  # characters of the engine's own words in a message
_READ: Final = 16_384  # characters of a text in which causes are looked for


class Ending(NamedTuple):
    """How a turn ended that did not complete."""

    stop: StopReason
    failure: Failure


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: the verdict, and what a caller can do next."""

    kind: FailureKind
    hint: str
    retryable: bool = False
    stop: StopReason = "error"


_SIGN_IN: Final = "check the API key, or sign in anew with `codex login`"
_OTHER_MODEL: Final = "name another model, or check what this account may use"
_LATER: Final = "try again later"
_NETWORK: Final = "check the network and the address of the model server, then try again"

ERRORS: Final[dict[str, Rule]] = {
    # The answer is cut short: no failure of the engine, and trying the same again gives the same.
    "contextWindowExceeded": Rule("model", "shorten the task, or split it", stop="max-tokens"),
    # Refused by the model's provider, for what was asked.
    "cyberPolicy": Rule("policy", "rephrase the task", stop="refusal"),
    "bioPolicy": Rule("policy", "rephrase the task", stop="refusal"),
    "misalignmentPolicyViolation": Rule("policy", "rephrase the task", stop="refusal"),
    # A quota of the person's is used up; a rate is another thing, it is over in seconds.
    "usageLimitExceeded": Rule("limit", "wait until the limit resets, or use another account or model", retryable=True),
    "sessionBudgetExceeded": Rule("budget", "raise the budget of the session, or split the task"),
    "rateLimitExceeded": Rule("overload", _LATER, retryable=True),
    "flexUnavailable": Rule("overload", _LATER, retryable=True),
    "serverOverloaded": Rule("overload", "try again later, or name another model", retryable=True),
    "policyCapacityUnavailable": Rule("overload", _LATER, retryable=True),
    "internalServerError": Rule("overload", _LATER, retryable=True),  # the model server's: 5xx after all retries
    "unauthorized": Rule("auth", _SIGN_IN),
    "modelNotFound": Rule("model", _OTHER_MODEL),
    # The model server knows the request and does not take it. The engine wrote it: what the caller can change is the
    # model, the effort or the schema, so it is the model that is unfit.
    "badRequest": Rule("model", "this model may not take the effort, the schema or the tools: change those"),
    # A rule on this machine: a reviewer that denied too often, a hook of the configuration.
    "tooManyDenials": Rule("policy", "allow what the task needs, or ask for less"),
    "inferenceHookDenied": Rule("policy", "a hook of the configuration refused the request: look there"),
    # Commands could not be started inside the sandbox: a fault of the machine, not of the task.
    "sandboxError": Rule("launch", "the sandbox does not work here: check user namespaces, or choose another sandbox"),
    # A response that was broken off may come through the next time.
    "httpConnectionFailed": Rule("network", _NETWORK, retryable=True),
    "responseStreamConnectionFailed": Rule("network", _NETWORK, retryable=True),
    "responseStreamDisconnected": Rule("network", _NETWORK, retryable=True),
    "responseTooManyFailedAttempts": Rule("network", _NETWORK, retryable=True),
    # Answers to things that we do not ask for in the middle of a turn.
    "threadRollbackFailed": Rule("protocol", "start a new conversation"),
    "activeTurnNotSteerable": Rule("protocol", "send it when the turn has ended"),
    "other": Rule("unknown", "the engine gave no class of error: its words say what to look at"),
}
"""A value of `codexErrorInfo`, in the spelling of the schema."""

STATUSES: Final[dict[int, Rule]] = {
    400: ERRORS["badRequest"],
    401: ERRORS["unauthorized"],
    402: Rule("limit", "the account has no credit left: add some, or use another account"),
    403: Rule("auth", "this account may not do that: check the API key and what it is allowed to use"),
    404: ERRORS["modelNotFound"],  # the model, or a base_url that is not one
    408: ERRORS["httpConnectionFailed"],
    413: ERRORS["contextWindowExceeded"],
    422: ERRORS["badRequest"],
    429: ERRORS["rateLimitExceeded"],  # a used-up quota is told apart by the engine: usageLimitExceeded
}
"""An HTTP status of the model server; every 5xx is `internalServerError`."""

_TEXTS: Final[tuple[tuple[str, Rule], ...]] = (
    (r"max_output_tokens", Rule("model", "raise the limit of output tokens, or split the task", stop="max-tokens")),
    (r"reason: content_filter|content[_ ]policy", ERRORS["cyberPolicy"]),
    (r"context_length_exceeded|model's context window", ERRORS["contextWindowExceeded"]),
    (
        r"Missing environment variable: ",
        Rule("auth", "set the variable that the configuration of the model provider names"),
    ),
    (r"(?i)usage limit|insufficient_quota|usage_limit_reached", ERRORS["usageLimitExceeded"]),
    (
        r"stream disconnected|idle timeout waiting for|error sending request|waiting for network",
        ERRORS["responseStreamDisconnected"],
    ),
    (r'\A\s*\{\s*"(?:error|detail|message)"', ERRORS["badRequest"]),  # the body of a 400, as it came
)
"""Looked for, in this order, in the text of an `other`."""

RPC: Final[dict[int, Rule]] = {
    -32001: Rule("overload", _LATER, retryable=True),
    -32600: Rule("protocol", "this version of codex may not fit: use the tested one"),
    -32601: Rule("protocol", "this version of codex does not know the request: use the tested one"),
    -32602: Rule("protocol", "this version of codex may not fit: use the tested one"),
    -32603: Rule("unknown", "the engine's own fault: its words say what to look at"),
}
"""The code of an answer that is an error of JSON-RPC."""

_TOO_LARGE: Final = Rule("model", "shorten the prompt: the limit is {limit} characters")
_NO_SESSION: Final = Rule("unknown", "check the name of the session, and that it was made in this home")

_BY_NAME: Final = {name.lower(): (name, rule) for name, rule in ERRORS.items()}


def failure_of_turn(error: object, *, now: datetime, reset: float | None = None) -> Ending:
    """The verdict for the `error` of a turn that failed, whatever it holds.

    Args:
        error: `{"message": …, "codexErrorInfo": …, "additionalDetails": …}`.
        now: the present time, aware, in the zone in which the engine writes clock times.
        reset: when a used-up quota ends, Unix time in seconds, if that is known from elsewhere.
    """
    table = cast("JsonObject", error) if isinstance(error, dict) else {}
    name, status = _info(table.get("codexErrorInfo"))
    said = text_in(table, "message")
    if status is None and (found := _STATUS.search(said[:_READ])):
        status = int(found[1])
    rule = _rule(name, status, said)
    details = text_in(table, "additionalDetails")
    words = _words(said, details) or (f"the engine says {name}" if name else "the turn failed without a reason")
    # The later one: the engine's words are cut to the minute, and a retry before the time would be useless.
    times = [reset] if rule.kind == "limit" else []
    if rule.retryable:
        times.append(reset_time(f"{said}\n{details}"[:_READ], now=now))
    retry_at = max((time for time in times if time is not None), default=None)
    message = f"{words}. To do: {rule.hint}."
    return Ending(rule.stop, Failure(rule.kind, "run", message, rule.retryable, retry_at, status))


def failure_of_request(error: Exception, method: str, *, stage: str = "start") -> Failure:
    """The failure of a request of ours that was not answered with a result.

    Args:
        error: `RpcError`, `TimeoutError`, `InvalidAnswer`.
        method: what was asked for.
        stage: of the run.
    """
    if isinstance(error, TimeoutError):
        reason = f"codex did not answer {method} in time. To do: look at its stderr, or raise ready_timeout."
        return Failure("timeout", stage, reason, retryable=True)
    if not isinstance(error, RpcError):
        return Failure("protocol", stage, redact(str(error)))
    rule = RPC.get(error.code, RPC[-32603])
    data = object_in({"data": error.data}, "data")
    hint = rule.hint
    if text_in(data, "input_error_code") == "input_too_large":
        rule, hint = _TOO_LARGE, _TOO_LARGE.hint.format(limit=number_in(data, "max_chars"))
    elif "no rollout found" in error.message or "invalid session id" in error.message:
        rule, hint = _NO_SESSION, _NO_SESSION.hint
    message = f"codex refused {method} (error {error.code}): {error.message[:_SAID].rstrip('. ')}. To do: {hint}."
    return Failure(rule.kind, stage, redact(message), rule.retryable)


def _rule(name: str, status: int | None, said: str) -> Rule:
    found = _BY_NAME.get(name.lower())
    if found is None or found[0] == "other":
        head = plain(said[:_READ])
        named = next((rule for pattern, rule in _TEXTS if re.search(pattern, head)), None)
        if named is not None:
            return named
    elif found[1].kind != "network":
        return found[1]
    if status is not None and status in STATUSES:
        return STATUSES[status]
    if status is not None and status >= 500:
        return ERRORS["internalServerError"]
    return found[1] if found is not None else ERRORS["other"]


def _info(value: object) -> tuple[str, int | None]:
    """Name and HTTP status of a `codexErrorInfo`: a word, or an object of one word; in camel, Pascal or snake case."""
    if isinstance(value, str):
        return value.replace("_", ""), None
    if not isinstance(value, dict) or not value:
        return "", None
    table = cast("JsonObject", value)
    word = next((key for key in table if key.replace("_", "").lower() in _BY_NAME), next(iter(table)))
    inner = object_in(table, word)
    status = number_in(inner, "httpStatusCode")
    if status is None:
        status = number_in(inner, "http_status_code")
    return word.replace("_", ""), status if status is not None and 100 <= status <= 999 else None


def _words(said: str, details: str) -> str:
    """The engine's words: of a JSON body its message; the details when they say more."""
    text = said.strip()
    if text.startswith("{"):
        try:
            body: object = json.loads(text[:_READ])
        except (ValueError, RecursionError):
            body = None
        if isinstance(body, dict):
            table = cast("JsonObject", body)
            text = text_in(object_in(table, "error"), "message") or text_in(table, "detail") or text
    if details and details not in text:
        text = f"{text} ({details})" if text else details
    return redact(text[:_SAID]).rstrip(". ")
