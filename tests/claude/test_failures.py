"""Every ending of the engine in the words of the seam."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from subagent_claude_code._failures import ending_of
from subagents import FailureKind, StopReason
from subagents.backend.programs import exit_words

NOW = datetime(2026, 11, 30, 22, 0, tzinfo=UTC)
RESET = NOW.timestamp() + 4000

ROWS: list[tuple[dict[str, Any], str, StopReason, FailureKind, bool]] = [
    ({"terminal_reason": "max_turns", "errors": ["Reached maximum number of turns (2)"]}, "", "error", "budget", False),
    ({"terminal_reason": "budget_exhausted"}, "", "error", "budget", False),
    ({"terminal_reason": "prompt_too_long", "api_error_status": 400}, "", "max-tokens", "model", False),
    ({"terminal_reason": "image_error", "api_error_status": 413}, "", "error", "model", False),
    ({"terminal_reason": "structured_output_retry_exhausted"}, "", "error", "output", False),
    ({"terminal_reason": "api_error", "api_error_status": 401}, "authentication_failed", "error", "auth", False),
    ({"terminal_reason": "api_error", "api_error_status": 402}, "", "error", "limit", False),
    ({"terminal_reason": "api_error", "api_error_status": 403}, "", "error", "auth", False),
    ({"terminal_reason": "api_error", "api_error_status": 404}, "model_not_found", "error", "model", False),
    ({"terminal_reason": "api_error", "api_error_status": 429}, "rate_limit", "error", "overload", True),
    ({"terminal_reason": "api_error", "api_error_status": 529}, "server_error", "error", "overload", True),
    ({"terminal_reason": "api_error"}, "server_error", "error", "network", True),
    ({"terminal_reason": "api_error"}, "billing_error", "error", "limit", False),
    ({"terminal_reason": "api_error", "result": "Credit balance is too low"}, "", "error", "limit", False),
    ({"terminal_reason": "api_error", "result": "Not logged in · Please run /login"}, "", "error", "auth", False),
    ({"terminal_reason": "api_error", "api_error_status": 418}, "", "error", "unknown", False),
    ({}, "", "error", "unknown", False),
    ({"errors": ["No conversation found with session ID: x"]}, "", "error", "unknown", False),
]


@pytest.mark.parametrize(("result", "word", "stop", "kind", "again"), ROWS)
def test_an_error_of_the_engine(
    result: dict[str, Any], word: str, stop: StopReason, kind: FailureKind, again: bool
) -> None:
    found = ending_of({"is_error": True, "subtype": "success", **result}, word=word, reset=None, now=NOW)
    assert found.failure is not None
    assert (found.stop, found.failure.kind, found.failure.retryable) == (stop, kind, again)
    assert "To do: " in found.failure.message


def test_a_used_up_quota_ends_at_the_later_of_what_is_said() -> None:
    result: dict[str, Any] = {
        "is_error": True,
        "api_error_status": 429,
        "result": "You've hit your 5-hour limit · resets 11pm (UTC)",
    }
    at_eleven = NOW.replace(hour=23).timestamp()
    for reset, expected in ((None, at_eleven), (RESET, RESET), (at_eleven - 1, at_eleven)):
        failure = ending_of(result, word="rate_limit", reset=reset, now=NOW).failure
        assert failure is not None
        assert (failure.kind, failure.retry_at) == ("limit", expected)


@pytest.mark.parametrize("reason", ["aborted_tools", "aborted_streaming"])
def test_what_was_interrupted_is_aborted(reason: str) -> None:
    found = ending_of({"is_error": True, "terminal_reason": reason}, word="", reset=None, now=NOW)
    assert found == ("aborted", None)


@pytest.mark.parametrize(
    ("why", "stop"), [("end_turn", "completed"), ("refusal", "refusal"), ("max_tokens", "max-tokens")]
)
def test_an_answer_is_taken_as_the_model_ended_it(why: str, stop: StopReason) -> None:
    found = ending_of({"is_error": False, "stop_reason": why}, word="", reset=None, now=NOW)
    assert found.stop == stop
    assert (found.failure is None) == (stop == "completed")


@pytest.mark.parametrize(
    ("code", "words"), [(None, "closed its output"), (1, "ended with exit code 1"), (-9, "SIGKILL"), (-99, "signal 99")]
)
def test_the_end_of_a_process_in_words(code: int | None, words: str) -> None:
    assert words in exit_words(code)
