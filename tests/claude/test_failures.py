"""Every ending of the engine in the words of the seam."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subagent_claude_code._failures import API_ERRORS, REASONS, STATUSES, WORDS, Ending, Rule, ending_of, has_failed
from subagents import Failure, FailureKind, StopReason
from subagents.backend.programs import exit_words

NOW = datetime(2026, 11, 30, 22, 0, tzinfo=UTC)
RESET = NOW.timestamp() + 4000


def failed(*, word: str = "", reset: object = None, **members: Any) -> Ending:
    result: dict[str, object] = {"is_error": True, "subtype": "success", **members}
    return ending_of(result, word=word, reset=reset, now=NOW)


def failure_of(**members: Any) -> Failure:
    found = failed(**members).failure
    assert found is not None
    return found


# `terminal_reason`, status, `api_error`, the word of the message before; what the engine then writes; the verdict.
# All were seen on 2.1.332 against a scripted server, but for those marked.
ROWS: list[tuple[dict[str, Any], str, StopReason, FailureKind, bool]] = [
    ({"terminal_reason": "max_turns", "subtype": "error_max_turns", "errors": ["Reached maximum number of turns (2)"]},
     "", "error", "budget", False),
    ({"terminal_reason": "budget_exhausted", "subtype": "error_max_budget_usd",
      "errors": ["Reached maximum budget ($0.01)"]}, "", "error", "budget", False),
    ({"terminal_reason": "structured_output_retry_exhausted", "subtype": "error_max_structured_output_retries"},
     "", "error", "output", False),
    ({"terminal_reason": "prompt_too_long", "api_error_status": 400, "result": "Prompt is too long · compact it"},
     "invalid_request", "max-tokens", "model", False),
    ({"terminal_reason": "blocking_limit"}, "", "max-tokens", "model", False),  # read
    ({"terminal_reason": "rapid_refill_breaker"}, "", "max-tokens", "model", False),  # read
    ({"terminal_reason": "malformed_tool_use_exhausted"}, "", "error", "model", True),  # read
    ({"terminal_reason": "image_error", "api_error_status": 413}, "invalid_request", "error", "model", False),
    ({"terminal_reason": "model_error"}, "", "error", "unknown", False),  # read
    ({"terminal_reason": "turn_setup_failed"}, "", "error", "unknown", False),  # read
    ({"api_error_status": 401, "result": "Invalid API key · Fix external API key"},
     "authentication_failed", "error", "auth", False),
    ({"api_error_status": 402, "result": "API Error: 402 pay"}, "unknown", "error", "limit", False),
    ({"api_error_status": 403, "result": "Failed to authenticate. API Error: 403 not allowed"},
     "authentication_failed", "error", "auth", False),
    ({"api_error_status": 400, "result": "API Error: 400 messages: bad"}, "unknown", "error", "model", False),
    ({"api_error_status": 400, "result": "Credit balance is too low"}, "billing_error", "error", "limit", False),
    ({"api_error_status": 400, "result": "Prompt is too long · compact it"}, "", "max-tokens", "model", False),
    ({"api_error_status": 400, "result": "Output blocked by content filtering policy"}, "", "refusal", "policy", False),
    ({"api_error_status": 400, "api_error": "org_disabled_credential"}, "invalid_request", "error", "auth", False),
    ({"api_error_status": 404, "result": "There's an issue with the selected model (m)."},
     "model_not_found", "error", "model", False),
    ({"api_error_status": 408, "result": "API Error: 408 slow"}, "unknown", "error", "network", True),
    ({"api_error_status": 413}, "", "max-tokens", "model", False),
    ({"api_error_status": 422, "result": "API Error: 422 unprocessable"}, "unknown", "error", "model", False),
    ({"api_error_status": 429, "result": "API Error: Request rejected (429) · too many"},
     "rate_limit", "error", "overload", True),
    ({"api_error_status": 429, "result": "API Error: Server is temporarily limiting requests (not your usage limit)"},
     "rate_limit", "error", "overload", True),
    ({"api_error_status": 429, "api_error": "usage_limit_reached", "result": "You've hit it"},
     "rate_limit", "error", "limit", True),
    ({"api_error_status": 429, "result": "API Error: Request rejected (429) · spend limit reached"},
     "rate_limit", "error", "limit", True),
    ({"api_error_status": 500, "result": "API Error: 500 boom."}, "server_error", "error", "overload", True),
    ({"api_error_status": 503}, "server_error", "error", "overload", True),
    ({"api_error_status": 529}, "overloaded", "error", "overload", True),
    ({"api_error_status": 500, "result": "API Error: 500 usage limit reached in my database"},
     "server_error", "error", "overload", True),
    ({"api_error": "connection_failed", "result": "API Error: Connection refused (ECONNREFUSED)"},
     "server_error", "error", "network", True),
    ({"api_error": "tls_untrusted_ca"}, "server_error", "error", "network", False),  # read
    ({"api_error": "stream_idle_timeout", "result": "API Error: The response stopped arriving."},
     "server_error", "error", "network", True),
    ({"result": "Request timed out."}, "server_error", "error", "network", True),
    ({"result": "API Error: Server error mid-response."}, "server_error", "error", "network", True),
    ({"result": "API returned an empty or malformed response (HTTP 200)"}, "unknown", "error", "network", True),
    ({"api_error": "max_output_tokens", "result": "API Error: Claude's response exceeded the 128000 output token"
      " maximum."}, "max_output_tokens", "max-tokens", "model", False),
    ({"api_error": "max_output_tokens", "result": "API Error: The model has reached its context window limit."},
     "max_output_tokens", "max-tokens", "model", False),
    ({"stop_reason": "refusal", "result": "API Error: Opus 5.5's safeguards flagged this message"},
     "invalid_request", "refusal", "policy", False),
    ({"stop_reason": "refusal", "result": "API Error: no"}, "invalid_request", "refusal", "policy", False),
    ({"result": "Not logged in · Please run /login"}, "authentication_failed", "error", "auth", False),
    ({}, "billing_error", "error", "limit", False),
    ({"api_error_status": 418}, "", "error", "unknown", False),
    ({"terminal_reason": ""}, "", "error", "unknown", False),
    ({"errors": ["No conversation found with session ID: x"]}, "", "error", "unknown", False),
]  # fmt: skip


@pytest.mark.parametrize(("result", "word", "stop", "kind", "again"), ROWS)
def test_an_error_of_the_engine(
    result: dict[str, Any], word: str, stop: StopReason, kind: FailureKind, again: bool
) -> None:
    found = failed(word=word, **{"terminal_reason": "api_error", **result})
    assert found.failure is not None
    assert (found.stop, found.failure.kind, found.failure.retryable) == (stop, kind, again)
    assert (found.failure.http_status, found.failure.retry_at) == (result.get("api_error_status"), None)
    assert found.failure.stage == "run"
    assert "To do: " in found.failure.message
    said = result.get("result") or "; ".join(result.get("errors", ()))
    assert found.failure.message.startswith(said.rstrip(". "))


def test_the_tables_are_whole_and_are_printed() -> None:
    """Run with -s to read them."""
    print()
    tables: list[tuple[str, dict[Any, Rule]]] = [
        ("terminal_reason", REASONS), ("api_error", API_ERRORS), ("status", STATUSES), ("error", WORDS),
    ]  # fmt: skip
    for name, table in tables:
        for key, rule in table.items():
            again = "again" if rule.retryable else ""
            print(f"{name:<16} {key!s:<34} {rule.stop:<11} {rule.kind:<9} {again:<6} {rule.hint}")
            assert rule.kind in get_args(FailureKind)
            assert rule.stop in get_args(StopReason)
            assert rule.stop not in ("completed", "aborted")


# -- every combination -------------------------------------------------------------------------------------------------

REASON_WORDS = [  # all that 2.1.332 has, read in it, and one of tomorrow
    "", "completed", "api_error", "max_turns", "budget_exhausted", "prompt_too_long", "image_error", "aborted_tools",
    "aborted_streaming", "structured_output_retry_exhausted", "blocking_limit", "rapid_refill_breaker", "model_error",
    "malformed_tool_use_exhausted", "stop_hook_prevented", "hook_stopped", "tool_deferred", "background_requested",
    "tool_deferred_unavailable", "turn_setup_failed", "of_tomorrow",
]  # fmt: skip
SUBTYPES = {
    "success": "",
    "error_max_turns": "max_turns",
    "error_max_budget_usd": "budget_exhausted",
    "error_max_structured_output_retries": "structured_output_retry_exhausted",
    "error_during_execution": "",
    "": "",
}
ABORTED = ("aborted_tools", "aborted_streaming")


@pytest.mark.parametrize("status", [None, 200, 400, 401, 403, 404, 413, 429, 500, 529, 418])
@pytest.mark.parametrize("is_error", [True, False])
def test_every_combination_has_one_verdict(is_error: bool, status: int | None) -> None:
    """`is_error` decides, then the reason, then the status; a subtype only where there is no reason."""
    for subtype, reason in itertools.product(SUBTYPES, REASON_WORDS):
        result: dict[str, object] = {"is_error": is_error, "subtype": subtype, "terminal_reason": reason}
        result |= {"api_error_status": status, "result": "hello"}
        found = ending_of(result, word="", reset=None, now=NOW)
        decides = reason or SUBTYPES[subtype]
        named = decides in REASONS or decides in ABORTED or decides == "api_error"
        if not (is_error or named or (reason != "completed" and subtype.startswith("error"))):
            assert found == ("completed", None), result
            assert not has_failed(result)
            continue
        assert has_failed(result)
        if decides in ABORTED:
            assert found == ("aborted", None), result
            continue
        assert found.failure is not None
        assert found.failure.http_status == status
        if decides in REASONS:
            expected = REASONS[decides]
        elif status is not None and status >= 500:
            expected = STATUSES[429]  # overload, too
        else:
            expected = STATUSES.get(status or 0)
        kind, stop = ("unknown", "error") if expected is None else (expected.kind, expected.stop)
        assert (found.failure.kind, found.stop) == (kind, stop), result


@pytest.mark.parametrize(
    ("why", "stop"),
    [
        *(("end_turn", "completed"), ("tool_use", "completed"), ("pause_turn", "completed"), ("", "completed")),
        *(("refusal", "refusal"), ("max_tokens", "max-tokens"), ("model_context_window_exceeded", "max-tokens")),
    ],
)
def test_an_answer_is_taken_as_the_model_ended_it(why: str, stop: StopReason) -> None:
    found = ending_of({"is_error": False, "stop_reason": why}, word="rate_limit", reset=RESET, now=NOW)
    assert found.stop == stop
    assert (found.failure is None) == (stop == "completed")


@pytest.mark.parametrize("status", [0, 7, 99, 1000, -1, 10**30, True, "503", 503.0, [503]])
def test_a_status_that_is_none_is_not_told(status: object) -> None:
    assert failure_of(api_error_status=status, terminal_reason="api_error").http_status is None


def test_a_status_is_read_off_the_words_where_it_is_not_told() -> None:
    for text, kind, status in (
        ("API Error: 529 Overloaded", "overload", 529),
        ("API Error: Request rejected (429) · slow down", "overload", 429),
        ('API Error: 401 {"type":"error"}', "auth", 401),
        ("429 lines changed", "unknown", None),
    ):
        failure = failure_of(result=text)
        assert (failure.kind, failure.http_status) == (kind, status)


# -- a used-up quota ---------------------------------------------------------------------------------------------------


def test_a_used_up_quota_ends_at_the_later_of_what_is_said() -> None:
    at_eleven = NOW.replace(hour=23).timestamp()
    for reset, expected in ((None, at_eleven), (RESET, RESET), (at_eleven - 1, at_eleven)):
        said = "You've hit your 5-hour limit · resets 11pm (UTC)"
        failure = failure_of(result=said, api_error_status=429, word="rate_limit", reset=reset)
        assert (failure.kind, failure.retry_at) == ("limit", expected)


NO_STAMPS: list[object] = [0, -1, 1, 10**30, float("nan"), float("inf"), True, "soon", [], {}]
STAMPS: list[tuple[object, float | None]] = [
    *((RESET, RESET), (int(RESET), RESET), (int(RESET) * 1000, RESET), (str(int(RESET)), RESET)),
    ("2026-11-30T23:06:40Z", RESET),
    (int(RESET) - 9000, RESET - 9000),  # over already
    (RESET + 40 * 86_400, None),  # in forty days
    *((stamp, None) for stamp in NO_STAMPS),
]


@pytest.mark.parametrize(("stamp", "end"), STAMPS, ids=lambda value: repr(value)[:30])
def test_the_instant_of_an_event_counts_where_it_is_plausible(stamp: object, end: float | None) -> None:
    failure = failure_of(result="API Error: 429", api_error_status=429, word="rate_limit", reset=stamp)
    assert (failure.kind, failure.retryable, failure.retry_at) == ("limit", True, end)


def test_an_event_about_a_quota_decides_only_about_what_a_quota_causes() -> None:
    assert failure_of(api_error_status=401, reset=RESET).kind == "auth"
    assert failure_of(api_error_status=500, reset=RESET).retry_at is None
    assert failure_of(api_error_status=529, word="rate_limit", reset=RESET).kind == "overload"
    assert failure_of(terminal_reason="max_turns", reset=RESET).kind == "budget"
    assert failure_of(result="Prompt is too long", reset=RESET).retry_at is None
    busy = "API Error: Server is temporarily limiting requests (not your usage limit)"
    assert failure_of(result=busy, api_error_status=429, reset=RESET).kind == "overload"
    assert failure_of(reset=RESET).kind == "limit"  # no class at all


def test_no_credit_can_be_over_at_a_time() -> None:
    gone = failure_of(result="You're out of usage credits", api_error_status=429)
    assert (gone.kind, gone.retryable, gone.retry_at) == ("limit", False, None)
    later = failure_of(result="You're out of usage credits · resets 11pm (UTC)", api_error_status=429)
    assert (later.kind, later.retryable, later.retry_at) == ("limit", True, NOW.replace(hour=23).timestamp())


def test_a_rate_says_when_it_is_over_and_a_wrong_request_does_not() -> None:
    assert failure_of(result="API Error: 429 try again in 20s").retry_at == NOW.timestamp() + 20
    assert failure_of(result="API Error: 400 try again in 20s").retry_at is None


# -- whatever it is told -----------------------------------------------------------------------------------------------

KEYS = st.sampled_from(["is_error", "subtype", "terminal_reason", "api_error_status", "api_error", "stop_reason",
                        "result", "errors"])  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    | st.sampled_from([*REASON_WORDS, *SUBTYPES, *API_ERRORS, *WORDS, "refusal", "usage limit reached|1" + "0" * 30]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


@given(st.dictionaries(KEYS, VALUES), st.sampled_from(["", "x", *WORDS]), VALUES)
def test_no_result_raises(result: dict[str, Any], word: str, reset: object) -> None:
    found = ending_of(result, word=word, reset=reset, now=NOW)
    assert found.stop in get_args(StopReason)
    assert (found.failure is None) == (found.stop in ("completed", "aborted"))


def test_a_secret_is_not_repeated_and_long_words_are_cut() -> None:
    message = failure_of(result="Invalid API key sk-ant-api03-abcdefghijklmnop · Fix it", api_error_status=401).message
    assert "abcdefghijklmnop" not in message
    assert "check the API key" in message
    assert len(failure_of(result="usage limit " * 1_000_000).message) < 4096


@pytest.mark.parametrize(
    ("code", "words"), [(None, "closed its output"), (1, "ended with exit code 1"), (-9, "SIGKILL"), (-99, "signal 99")]
)
def test_the_end_of_a_process_in_words(code: int | None, words: str) -> None:
    assert words in exit_words(code)
