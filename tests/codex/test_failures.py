"""Errors of the engine as the seam's words: the whole table, held against the schema of the engine itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turn_kit import Told, bundled_schema, error

from subagent_codex._failures import ERRORS, RPC, STATUSES, failure_of_request, failure_of_turn
from subagent_process import InvalidAnswer, RpcError
from subagents import Failure, FailureKind, StopReason
from subagents.backend.programs import exit_words

NOW = datetime(2031, 3, 5, 12, 0, tzinfo=UTC)

# Of codexErrorInfo, in 0.163.0; the last four came with 0.171.0.
WORDS = [
    "contextWindowExceeded", "sessionBudgetExceeded", "usageLimitExceeded", "rateLimitExceeded", "flexUnavailable",
    "serverOverloaded", "cyberPolicy", "misalignmentPolicyViolation", "tooManyDenials", "internalServerError",
    "unauthorized", "badRequest", "threadRollbackFailed", "sandboxError", "other",
    "modelNotFound", "policyCapacityUnavailable", "bioPolicy", "inferenceHookDenied",
]  # fmt: skip
OBJECTS = [
    "httpConnectionFailed", "responseStreamConnectionFailed", "responseStreamDisconnected",
    "responseTooManyFailedAttempts", "activeTurnNotSteerable",
]  # fmt: skip

# What the engine said: stop reason, kind, retryable, HTTP status. All but those marked were seen on 0.163.0.
SAID: list[tuple[str, str, object, str, str, bool, int | None]] = [
    ("401", "unexpected status 401 Unauthorized: bad key", {"httpConnectionFailed": {"httpStatusCode": 401}},
     "error", "auth", False, 401),
    ("403", "unexpected status 403 Forbidden: no", {"httpConnectionFailed": {"httpStatusCode": 403}},
     "error", "auth", False, 403),
    ("404", "unexpected status 404 Not Found: no such model", {"httpConnectionFailed": {"httpStatusCode": 404}},
     "error", "model", False, 404),
    ("404, 0.171.0", "no such model", "modelNotFound", "error", "model", False, None),
    ("400", '{"error": {"code": "invalid", "message": "bad param"}}', "other", "error", "model", False, None),
    ("402, not seen", "unexpected status 402 Payment Required", "other", "error", "limit", False, 402),
    ("429, a rate", "exceeded retry limit, last status: 429 Too Many Requests",
     {"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "error", "overload", True, 429),
    ("429, a quota", "You\u2019ve hit your usage limit.", "usageLimitExceeded", "error", "limit", True, None),
    ("a quota with a status, not seen", "no more", {"usageLimitExceeded": {"httpStatusCode": 429}},
     "error", "limit", True, 429),
    ("a rate, in the stream", "slow down", "rateLimitExceeded", "error", "overload", True, None),
    ("500", "We're currently experiencing high demand", "internalServerError", "error", "overload", True, None),
    ("502, not seen", "bad gateway", {"httpConnectionFailed": {"httpStatusCode": 502}}, "error", "overload", True, 502),
    ("503", "Selected model is at capacity.", "serverOverloaded", "error", "overload", True, None),
    ("a cut stream", "stream disconnected before completion: cut", "other", "error", "network", True, None),
    ("silence", "stream disconnected before completion: idle timeout waiting for SSE", "other",
     "error", "network", True, None),
    ("nobody there", "error sending request", {"httpConnectionFailed": {"httpStatusCode": None}},
     "error", "network", True, None),
    ("no room in the context", "Codex ran out of room in the model's context window.", "contextWindowExceeded",
     "max-tokens", "model", False, None),
    ("no room for the answer", "Incomplete response returned, reason: max_output_tokens", "other",
     "max-tokens", "model", False, None),
    ("a filter", "stream disconnected before completion: Incomplete response returned, reason: content_filter",
     "other", "refusal", "policy", False, None),
    ("a policy", "no", "cyberPolicy", "refusal", "policy", False, None),
    ("no key", "Missing environment variable: `SUB_API_KEY`.", "other", "error", "auth", False, None),
    ("nothing", "", None, "error", "unknown", False, None),
    ("a word of tomorrow", "hm", "brandNew", "error", "unknown", False, None),
    ("a word of tomorrow with a status", "hm", {"brandNew": {"httpStatusCode": 503}}, "error", "overload", True, 503),
]  # fmt: skip


@pytest.mark.parametrize(("words", "info", "stop", "kind", "retryable", "status"), [row[1:] for row in SAID],
                         ids=[row[0] for row in SAID])  # fmt: skip
def test_what_the_engine_said_becomes_a_verdict(
    words: str, info: object, stop: str, kind: str, retryable: bool, status: int | None
) -> None:
    ending = failure_of_turn(error(words, info), now=NOW)
    failure = ending.failure
    assert (ending.stop, failure.kind, failure.retryable, failure.http_status) == (stop, kind, retryable, status)
    assert failure.stage == "run"
    assert "To do: " in failure.message


def test_the_table_is_whole_and_is_printed() -> None:
    """Run with -s to read it."""
    print()
    for name, rule in ERRORS.items():
        print(f"{name:<32} {rule.stop:<11} {rule.kind:<9} {'again' if rule.retryable else '':<6} {rule.hint}")
        assert rule.kind in get_args(FailureKind)
        assert rule.stop in get_args(StopReason)
        assert rule.stop != "completed"
    for status, rule in STATUSES.items():
        print(f"HTTP {status:<27} {rule.stop:<11} {rule.kind:<9} {'again' if rule.retryable else '':<6} {rule.hint}")
    for code, rule in RPC.items():
        print(f"RPC {code:<28} {rule.stop:<11} {rule.kind:<9} {'again' if rule.retryable else '':<6} {rule.hint}")
    assert set(ERRORS) == {*WORDS, *OBJECTS}


def values(schema: dict[str, Any]) -> set[str]:
    """The words of an open enumeration: strings, and objects of one member."""
    found: set[str] = set()
    for variant in schema["anyOf"]:
        found.update(variant.get("enum", ()))
        found.update(variant.get("required", ()))
    return found


def test_the_bundled_engine_has_no_error_that_is_not_in_the_table(tmp_path: Path) -> None:
    schema = bundled_schema(tmp_path, "codex_app_server_protocol.v2.schemas.json")
    assert values(schema["definitions"]["CodexErrorInfo"]) <= set(ERRORS)


def spellings(name: str) -> list[str]:
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
    return [name, name[0].upper() + name[1:], snake]


@pytest.mark.parametrize("name", WORDS + OBJECTS)
def test_every_spelling_of_an_error_is_the_same_error(name: str) -> None:
    plain = failure_of_turn(error("x", name), now=NOW)
    assert (plain.stop, plain.failure.kind) == (ERRORS[name].stop, ERRORS[name].kind)
    for word in spellings(name):
        assert failure_of_turn(error("x", word), now=NOW) == plain
        for inner in ({"httpStatusCode": None}, {"http_status_code": None}, {}, None, "x", 7):
            assert failure_of_turn(error("x", {word: inner}), now=NOW) == plain


@pytest.mark.parametrize("form", [None, {}, [], 7, "x", {"message": 7, "codexErrorInfo": 7}, {"codexErrorInfo": {}},
                                  {"codexErrorInfo": {"x": 7}}, {"codexErrorInfo": [1]}])  # fmt: skip
def test_every_form_of_an_error_is_a_failure(form: object) -> None:
    ending = failure_of_turn(form, now=NOW)
    assert (ending.stop, ending.failure.kind) == ("error", "unknown")
    assert ending.failure.message


@pytest.mark.parametrize("status", [0, 7, 99, 1000, -1, 10**30, True, "503"])
def test_a_status_that_is_none_is_not_told(status: object) -> None:
    ending = failure_of_turn(error("x", {"httpConnectionFailed": {"httpStatusCode": status}}), now=NOW)
    assert (ending.failure.kind, ending.failure.http_status) == ("network", None)


def test_every_5xx_is_the_servers_fault() -> None:
    for status in (500, 502, 504, 529, 599):
        info = {"responseStreamDisconnected": {"httpStatusCode": status}}
        assert failure_of_turn(error("x", info), now=NOW).failure.kind == "overload"


PROSE = (
    "I added a rate limit; see `limiter_spec.rb:418-429`. HTTP 429 Too Many Requests is returned, usage limit reached"
    " is logged, port 5290; context_length_exceeded and max_output_tokens are handled. Resets 10am (Europe/Zurich)."
)


def test_what_the_model_says_about_limits_is_no_limit() -> None:
    told = Told().start().message(PROSE)
    assert told.end().turn.outcome().ok
    told = Told().start().message(PROSE).end("failed", error("the hook said no", "inferenceHookDenied"))
    failure = told.turn.outcome().failure
    assert failure is not None
    assert (failure.kind, failure.retryable, failure.retry_at) == ("policy", False, None)


# -- when to try again -------------------------------------------------------------------------------------------------


def test_the_end_of_a_limit_is_read_off_the_words() -> None:
    words = (
        "You\u2019ve hit your usage limit. Upgrade to Pro (https://x.example) or try again at Mar 6th, 2031 11:06 PM."
    )
    failure = failure_of_turn(error(words, "usageLimitExceeded"), now=NOW, reset=1.0).failure
    assert failure.retry_at == datetime(2031, 3, 6, 23, 6, tzinfo=UTC).timestamp()


def test_the_end_of_a_limit_that_the_words_do_not_say_is_that_of_the_account() -> None:
    later = (NOW + timedelta(hours=2)).timestamp()
    said = error("You've hit your usage limit.", "usageLimitExceeded")
    assert failure_of_turn(said, now=NOW, reset=later).failure.retry_at == later
    assert failure_of_turn(said, now=NOW).failure.retry_at is None
    assert failure_of_turn(error("slow", "rateLimitExceeded"), now=NOW, reset=later).failure.retry_at is None


def test_a_rate_says_when_it_is_over() -> None:
    said = error("Rate limit reached. Please try again in 1m30s.", "rateLimitExceeded")
    assert failure_of_turn(said, now=NOW).failure.retry_at == NOW.timestamp() + 90
    assert failure_of_turn(error("try again in 20s", "badRequest"), now=NOW).failure.retry_at is None


# -- messages ----------------------------------------------------------------------------------------------------------


def test_a_message_says_what_happened_and_what_to_do_and_no_secret() -> None:
    said = error("unexpected status 401: bad key sk-abcdefghijklmnop1234567890, url: https://u:secretpass@h.example/v1")
    message = failure_of_turn(said, now=NOW).failure.message
    assert message.startswith(
        "unexpected status 401: bad key [redacted], url: https://u:[redacted]@h.example/v1. To do:"
    )
    assert message.endswith("sign in anew with `codex login`.")


def test_the_details_are_told_when_they_say_more() -> None:
    assert failure_of_turn(error("x", details="more"), now=NOW).failure.message.startswith("x (more). To do")
    assert failure_of_turn(error("x more", details="more"), now=NOW).failure.message.startswith("x more. To do")
    assert failure_of_turn(error("", details="more"), now=NOW).failure.message.startswith("more. To do")
    assert failure_of_turn(error("", "serverOverloaded"), now=NOW).failure.message.startswith(
        "the engine says serverOverloaded. To do"
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"error": {"message": "bad param"}}', "bad param. To do"),
        ('{"detail": "bad param"}', "bad param. To do"),
        ('{"error": 7}', '{"error": 7}. To do'),
        ('{"error', '{"error. To do'),
        ("[" * 5000, "[["),
        ('{"a":' * 3000, '{"a":'),
    ],
)
def test_of_a_body_its_message_is_told(body: str, words: str) -> None:
    assert failure_of_turn(error(body), now=NOW).failure.message.startswith(words)


# -- requests and processes --------------------------------------------------------------------------------------------

REQUESTS: list[tuple[Exception, str, bool, str]] = [
    (RpcError(-32001, "Server overloaded; retry later."), "overload", True, "Server overloaded"),
    (RpcError(-32600, "Invalid request: unknown variant"), "protocol", False, "unknown variant"),
    (RpcError(-32600, "no rollout found for thread id x"), "unknown", False, "name of the session"),
    (RpcError(-32601, "Method not found"), "protocol", False, "does not know the request"),
    (RpcError(-32602, "invalid"), "protocol", False, "invalid"),
    (RpcError(-32602, "too large", {"input_error_code": "input_too_large", "max_chars": 1048576}),
     "model", False, "the limit is 1048576 characters"),
    (RpcError(-32603, "keyring failed", [1]), "unknown", False, "keyring failed"),
    (RpcError(7, "odd"), "unknown", False, "odd"),
    (RpcError(-32603, "key sk-abcdefghijklmnop1234567890"), "unknown", False, "key [redacted]"),
    (TimeoutError(), "timeout", True, "raise ready_timeout"),
    (InvalidAnswer("codex", "thread/start", "7"), "protocol", False, "thread/start"),
]  # fmt: skip


@pytest.mark.parametrize(("problem", "kind", "retryable", "words"), REQUESTS)
def test_a_request_without_a_result_is_a_failure(problem: Exception, kind: str, retryable: bool, words: str) -> None:
    failure = failure_of_request(problem, "thread/start")
    assert (failure.kind, failure.retryable, failure.stage) == (kind, retryable, "start")
    assert "thread/start" in failure.message
    assert words in failure.message


def test_the_stage_of_a_failure_is_told() -> None:
    assert failure_of_request(TimeoutError(), "turn/steer", stage="run").stage == "run"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (1, "ended with exit code 1"),
        (-9, "was ended by SIGKILL (the system may have run out of memory)"),
        (-15, "was ended by SIGTERM"),
        (-11, "was ended by SIGSEGV"),
        (-200, "was ended by signal 200"),
        (None, "closed its output"),
    ],
)
def test_the_end_of_a_process_in_words(code: int | None, words: str) -> None:
    assert exit_words(code) == words


KEYS = st.sampled_from(["message", "codexErrorInfo", "additionalDetails", "httpStatusCode", *OBJECTS])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(WORDS + OBJECTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner),
    max_leaves=10,
)


@given(JSON)
def test_nothing_that_is_called_an_error_raises(value: object) -> None:
    assert isinstance(failure_of_turn(value, now=NOW).failure, Failure)
