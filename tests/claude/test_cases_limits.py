"""Texts of used-up quotas and of failed sign-ins, as people met them: which class, and when it ends.

Each is tried bare and as it looks after a terminal: other apostrophes, bullets and blanks, wrapped, coloured, marked.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from subagent_claude_code._failures import ending_of
from subagent_claude_code._turn import Turn
from subagents import Failure, FailureKind
from subagents._verdict import judge

NEW_YORK, ZURICH = ZoneInfo("America/New_York"), ZoneInfo("Europe/Zurich")
SANTIAGO, SAO_PAULO = ZoneInfo("America/Santiago"), ZoneInfo("America/Sao_Paulo")
NOW = datetime(2030, 3, 13, 12, 0, tzinfo=UTC)  # a Wednesday, four days before the epoch 1,900,000,000
EPOCH = 1_900_000_000.0


def at(
    day: int, hour: int, minute: int = 0, *, month: int = 3, year: int = 2030, zone: ZoneInfo | None = None
) -> float:
    return datetime(year, month, day, hour, minute, tzinfo=zone or UTC).timestamp()


def told(text: str, *, now: datetime = NOW, status: int | None = None, word: str = "") -> Failure:
    """What a run that failed with this text is told."""
    result = {"type": "result", "subtype": "success", "is_error": True, "result": text, "api_error_status": status}
    failure = ending_of({**result, "terminal_reason": "api_error"}, word=word, reset=None, now=now).failure
    assert failure is not None
    return failure


LIMITS: list[tuple[str, float | None]] = [
    ("Claude AI usage limit reached|1900000000", EPOCH),
    ("Claude usage limit reached. Your limit will reset at 3pm (America/Santiago).", at(13, 15, zone=SANTIAGO)),
    ("Claude usage limit reached. Your limit will reset at Oct 6, 6pm.", None),  # half a year is no limit
    ("Claude usage limit reached. Your limit will reset at Mar 16, 6pm.", at(16, 18)),
    ("5-hour limit reached \u2219 resets 12:30am", at(14, 0, 30)),
    ("You've hit your limit \u00b7 resets 10pm (America/New_York)", at(13, 22, zone=NEW_YORK)),
    ("You've hit your session limit \u00b7 resets 2:10pm (America/Sao_Paulo)", at(13, 14, 10, zone=SAO_PAULO)),
    ("Weekly limit reached \u00b7 resets Mon 9am", at(18, 9)),
    # Neighbours: as 2.1.332 writes them, or as they were reported.
    ("You've hit your 5-hour limit \u00b7 resets 11:21pm (UTC)", at(13, 23, 21)),
    ("You've hit your weekly limit \u00b7 resets Mar 16, 7:41am (UTC)", at(16, 7, 41)),
    ("You've hit your Opus limit \u00b7 resets Mar 16 at 3 PM (Europe/Zurich)", at(16, 15, zone=ZURICH)),
    ("You've hit your Sonnet limit \u00b7 resets tomorrow at 9am", at(14, 9)),
    ("You've hit your Opus 4.1 limit \u00b7 resets 9pm", at(13, 21)),
    ("You've reached your Fable limit. It resets 9pm. Switch to another model to continue.", at(13, 21)),
    ("You've hit your usage limit \u00b7 resets 9pm \u00b7 progress saved", at(13, 21)),
    ("You've hit your 5-hour limit \u00b7 resets 9pm (UTC) \u00b7 out of usage credits", at(13, 21)),
    ("You've hit your monthly spend limit \u00b7 raise it at https://x.example/ \u00b7 your weekly limit resets 9pm",
     at(13, 21)),
    ("You've hit your org's monthly spend limit \u00b7 run /x to raise it", None),
    ("You've hit your channel's monthly usage limit \u00b7 resets Apr 1", at(1, 0, month=4)),
    ("You've hit your team's pooled group budget. It resets Apr 1, 12am (UTC).", at(1, 0, month=4)),
    ("You're out of extra usage \u00b7 resets 9pm (UTC)", at(13, 21)),
    ("You're out of usage credits. Switch to another model to continue.", None),
    ("Your org is out of usage \u00b7 contact your admin", None),
    ("Your seat type doesn't include usage credits", None),
    ("Your usage allocation has been disabled by your admin", None),
    ("Your group's usage limit is set to $0 \u00b7 ask your admin for a higher limit", None),
    ("Fable 5 requires usage credits. Switch to another model to continue.", None),
    ("API Error: Usage credits required for 1M context \u00b7 turn them on", None),
    ("API Error: Extra usage is required for long context requests.", None),
    ("Opus weekly limit reached \u2219 resets Mar 16, 1pm", at(16, 13)),
    ("Claude Opus 4 limit reached, now using Sonnet 4 \u00b7 resets in 3h 20m", NOW.timestamp() + 12_000),
    ("Session limit reached \u2219 resets 15:00", at(13, 15)),
    ("Opus limit \u00b7 resets Sun 12am (America/New_York)", at(17, 0, zone=NEW_YORK)),
    ("Daily usage limit exceeded. Try again tomorrow at 00:05.", at(14, 0, 5)),
    ("API Error: Request rejected (429) \u00b7 spend limit reached \u00b7 resets Apr 1, 12am (UTC)", at(1, 0, month=4)),
    ("You have used all of your weekly limit. It resets on Monday at 9am.", at(18, 9)),
    ("Your limit has been reached. Available again at 9am on Friday.", at(15, 9)),
    ("You have exceeded your current quota, please check your plan and billing details.", None),
    ('API Error: 429 {"type":"error","error":{"type":"usage_limit_reached","resets_at":1900000000}}', EPOCH),
    ("Credit balance is too low", None),
]  # fmt: skip
AUTH = [
    "Invalid API key \u00b7 Please run /login",
    "Invalid API key \u00b7 Fix external API key",
    'API Error: 401 {"type":"error","error":{"type":"authentication_error","message":"Invalid bearer token"}}',
    "Missing API key \u00b7 Run /login",
    "Not logged in \u00b7 Please run /login",
    "Invalid auth token \u00b7 Fix external auth token",
    "OAuth token revoked \u00b7 Please run /login",
    "OAuth token has expired. Please obtain a new token or refresh your existing token.",
    "Login expired \u00b7 Please run /login",
    "Authentication required \u00b7 Sign in again to continue",
    "Failed to authenticate: OAuth session expired and could not be refreshed",
    "Your ANTHROPIC_API_KEY belongs to a disabled organization",
    "Your organization has disabled API key authentication \u00b7 Sign in again with your claude.ai account",
    "Please run /login \u00b7 API Error: 403 nope",
    "This organization has been disabled.",
]
MANGLED: dict[str, Callable[[str], str]] = {
    "bare": lambda text: text,
    "another apostrophe": lambda text: text.replace("'", "\u2019"),
    "a modifier apostrophe": lambda text: text.replace("'", "\u02bc"),
    "a grave accent": lambda text: text.replace("'", "`"),
    "no apostrophe": lambda text: text.replace("'", ""),
    "a middle dot": lambda text: text.replace("\u2219", "\u00b7"),
    "a bullet operator": lambda text: text.replace("\u00b7", "\u2219"),
    "a bullet": lambda text: text.replace("\u00b7", "\u2022").replace("\u2219", "\u2022"),
    "no blank at the bullet": lambda text: text.replace(" \u00b7 ", "\u00b7").replace(" \u2219 ", "\u2219"),
    "hard blanks": lambda text: text.replace(" ", "\u00a0"),
    "narrow blanks": lambda text: text.replace(" ", "\u202f"),
    "wrapped": lambda text: text.replace(" ", "\r\n   "),
    "coloured": lambda text: "\x1b[31m" + text.replace("limit", "\x1b[1mlimit\x1b[0m") + "\x1b[0m",
    "with marks that nobody sees": lambda text: "\ufeff" + text.replace(" ", "\u200b "),
    "a square in front": lambda text: "\u25a0 " + text,
    "a corner in front": lambda text: "  \u23bf \u00a0" + text,
    "small letters": lambda text: text if "/" in text else text.lower(),
    "capitals": lambda text: text if "/" in text else text.upper(),
}
mangled = pytest.mark.parametrize("mangle", MANGLED.values(), ids=MANGLED)


@mangled
def test_a_used_up_quota_is_a_limit_that_ends_when_its_text_says(mangle: Callable[[str], str]) -> None:
    for text, end in LIMITS:
        for status, word in ((None, ""), (429, "rate_limit"), (400, "unknown")):
            failure = told(mangle(text), status=status, word=word)
            assert (failure.kind, failure.retry_at) == ("limit", end), (text, status)


@mangled
def test_a_failed_sign_in_is_neither_a_limit_nor_over_by_itself(mangle: Callable[[str], str]) -> None:
    for text in AUTH:
        for status in (None, 401, 403):
            failure = told(mangle(text), status=status)
            assert (failure.kind, failure.retryable, failure.retry_at) == ("auth", False, None), (text, status)
            assert "check the API key" in failure.message


def test_a_key_in_such_a_text_is_not_told() -> None:
    failure = told("Invalid API key sk-ant-api03-a1b2c3d4e5f6g7h8 \u00b7 Please run /login", status=401)
    assert "a1b2c3d4" not in failure.message


@pytest.mark.parametrize(
    ("tail", "end"),
    [
        *(("|1900000000", EPOCH), ("|1900000000000", EPOCH), ("|1500000000", 1_500_000_000.0)),
        *((tail, None) for tail in ("|", "|abc", "|1", "|99999999999999999999", "|2000000000", "|-1900000000", "")),
    ],
)
def test_an_epoch_behind_a_pipe_counts_where_it_is_plausible(tail: str, end: float | None) -> None:
    failure = told(f"Claude AI usage limit reached{tail}")
    assert (failure.kind, failure.retryable, failure.retry_at) == ("limit", True, end)


CLOCKS: list[tuple[str, datetime, float | None]] = [
    ("2:30am (America/New_York)", datetime(2031, 3, 5, 23, 0, tzinfo=NEW_YORK), at(6, 2, 30, year=2031, zone=NEW_YORK)),
    ("10am (Europe/Zurich)", datetime(2031, 3, 5, 10, 3, tzinfo=ZURICH), at(5, 10, year=2031, zone=ZURICH)),
    ("12:30", datetime(2031, 3, 5, 10, 3, tzinfo=ZURICH), at(5, 12, 30, year=2031, zone=ZURICH)),
    ("2:30am", datetime(2031, 3, 9, 1, 0, tzinfo=NEW_YORK), at(9, 3, 30, year=2031, zone=NEW_YORK)),
    ("3pm (Mars/Base)", NOW, None),
    ("3pm PST", NOW, None),
    ("25:00", NOW, None),
    ("soon", NOW, None),
]


@pytest.mark.parametrize(("clock", "now", "end"), CLOCKS)
def test_a_clock_time_is_the_nearest_plausible_one(clock: str, now: datetime, end: float | None) -> None:
    failure = told(f"You've hit your limit \u00b7 resets {clock}", now=now)
    assert (failure.kind, failure.retry_at) == ("limit", end)


RATES: list[tuple[str, FailureKind]] = [
    ("API Error: Request rejected (429) \u00b7 This request would exceed your organization's rate limit of 50,000 input"
     " tokens per minute. You can see the response headers for current usage. Please try again later.", "overload"),
    ("API Error: 429 Number of request tokens has exceeded your per-minute rate limit", "overload"),
    ('API Error: 429 {"type":"error","error":{"type":"rate_limit_error","message":"too fast"}}', "overload"),
    ("API Error: Server is temporarily limiting requests (not your usage limit) \u00b7 limit", "overload"),
    ("API Error: Repeated 529 Overloaded errors", "overload"),
    ("Rate limit reached. Please try again in 20s.", "overload"),
    ("API Error: Claude's response exceeded the 32000 output token maximum.", "model"),
    ("Context limit reached \u00b7 /compact or /clear to continue", "model"),
    ("API Error: 400 input length and `max_tokens` exceed context limit: 9 + 8 > 7", "model"),
    ("API Error: 413 Request size limit exceeded", "model"),
    ("Maximum number of turns reached", "unknown"),
]  # fmt: skip


@mangled
def test_a_bound_of_another_sort_is_no_used_up_quota(mangle: Callable[[str], str]) -> None:
    for text, kind in RATES:
        assert told(mangle(text)).kind == kind, text


# -- what the model says -----------------------------------------------------------------------------------------------

PROSE = (
    "I added a rate limit; see `limiter_spec.rb:418-429`, HTTP 429 Too Many Requests is returned, usage limit reached"
    " is logged, port 5290. You've hit your limit \u00b7 resets 10am (Europe/Zurich). Invalid API key \u00b7 run /login"
)


def run_of(*messages: dict[str, object]) -> Turn:
    turn = Turn(bool, accepted=bool, ended=bool, rests=bool, over=bool)
    turn.sent("task")
    for message in messages:
        turn.told(message)
    return turn


SAID: dict[str, object] = {
    "type": "assistant",
    "message": {"id": "m", "role": "assistant", "model": "m", "content": [{"type": "text", "text": PROSE}]},
}
RESULT: dict[str, object] = {"type": "result", "subtype": "success", "is_error": False, "terminal_reason": "completed"}


def test_an_answer_about_limits_is_an_answer() -> None:
    turn = run_of(SAID, {**RESULT, "result": PROSE, "stop_reason": "end_turn"})
    result = judge(turn.outcome(NOW), None, 0)
    assert (result.stop_reason, result.output, result.failure) == ("completed", PROSE, None)


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ({"subtype": "error_max_turns", "errors": ["Reached maximum number of turns (2)"]}, "budget"),
        ({"subtype": "error_max_turns", "terminal_reason": "max_turns", "result": PROSE}, "budget"),
        ({"subtype": "error_during_execution", "errors": ["boom"]}, "unknown"),
        ({"terminal_reason": "model_error", "result": PROSE}, "unknown"),
        ({"terminal_reason": "malformed_tool_use_exhausted", "result": PROSE}, "model"),
        ({"terminal_reason": "api_error", "api_error_status": 500, "result": "API Error: 500"}, "overload"),
    ],
)
def test_a_run_that_fails_after_words_about_limits_fails_for_its_own_reason(
    members: dict[str, object], kind: FailureKind
) -> None:
    turn = run_of(SAID, {"type": "result", "is_error": True, **members})
    failure = turn.outcome(NOW).failure
    assert failure is not None
    assert (failure.kind, failure.retry_at) == (kind, None)
