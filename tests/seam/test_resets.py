"""When a limit ends, read off what engines say about it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subagents.backend.resets import plain, plausible, reset_time

NEW_YORK, ZURICH, SANTIAGO = (ZoneInfo(name) for name in ("America/New_York", "Europe/Zurich", "America/Santiago"))
SAO_PAULO = ZoneInfo("America/Sao_Paulo")
NOW = datetime(2030, 3, 13, 12, 0, tzinfo=UTC)  # a Wednesday, four days before the epoch 1,900,000,000


def at(
    day: int, hour: int, minute: int = 0, *, month: int = 3, year: int = 2030, zone: ZoneInfo | None = None
) -> float:
    return datetime(year, month, day, hour, minute, tzinfo=zone or UTC).timestamp()


CLAUDE: list[tuple[str, float | None]] = [
    ("Claude AI usage limit reached|1900000000", 1900000000.0),
    ("Claude usage limit reached. Your limit will reset at 3pm (America/Santiago).", at(13, 15, zone=SANTIAGO)),
    ("Claude usage limit reached. Your limit will reset at Mar 16, 6pm.", at(16, 18)),
    ("Claude usage limit reached. Your limit will reset at Oct 6, 6pm.", None),  # half a year is no limit
    ("5-hour limit reached \u2219 resets 12:30am", at(14, 0, 30)),
    ("You've hit your limit \u00b7 resets 10pm (America/New_York)", at(13, 22, zone=NEW_YORK)),
    ("You've hit your session limit \u00b7 resets 2:10pm (America/Sao_Paulo)", at(13, 14, 10, zone=SAO_PAULO)),
    ("Weekly limit reached \u00b7 resets Mon 9am", at(18, 9)),
    ("You have reached your API usage limits. You will regain access on 2030-03-15 at 00:00 UTC.", at(15, 0)),
]
CODEX: list[tuple[str, float | None]] = [
    (
        "You've hit your usage limit. Upgrade to Pro (https://x.example) or try again in 2 days 17 hours 14 minutes.",
        NOW.timestamp() + timedelta(days=2, hours=17, minutes=14).total_seconds(),
    ),
    ("You've hit your usage limit. Try again at 3:28 PM.", at(13, 15, 28)),
    ("To get more access now, send a request to your admin or try again at Mar 18th, 2030 12:30 PM.", at(18, 12, 30)),
    ("You've hit your usage limit for gpt-9-mini. Switch to another model now, or try again later.", None),
    ('{"type":"usage_limit_reached","resets_at":1900000000,"resets_in_seconds":13872}', 1900000000.0),
    ('{"type":"usage_limit_reached","resets_in_seconds":13872}', NOW.timestamp() + 13872),
]
TEXTS = [*CLAUDE, *CODEX]


@pytest.mark.parametrize(("text", "end"), TEXTS)
def test_the_end_of_a_limit_is_read_off_its_text(text: str, end: float | None) -> None:
    assert reset_time(text, now=NOW) == end


MANGLED: dict[str, Callable[[str], str]] = {
    "another apostrophe": lambda text: text.replace("'", "\u2019"),
    "a modifier apostrophe": lambda text: text.replace("'", "\u02bc"),
    "a grave accent": lambda text: text.replace("'", "`"),
    "no apostrophe": lambda text: text.replace("'", ""),
    "a middle dot": lambda text: text.replace("\u2219", "\u00b7"),
    "a bullet operator": lambda text: text.replace("\u00b7", "\u2219"),
    "a bullet": lambda text: text.replace("\u00b7", "\u2022").replace("\u2219", "\u2022"),
    "no blank at the bullet": lambda text: text.replace(" \u00b7 ", "\u00b7"),
    "hard blanks": lambda text: text.replace(" ", "\u00a0"),
    "narrow blanks": lambda text: text.replace(" ", "\u202f"),
    "wrapped": lambda text: text.replace(" ", "\n  "),
    "coloured": lambda text: "\x1b[31m" + text.replace("reset", "\x1b[1mreset\x1b[0m") + "\x1b[0m",
    "coloured to the end of a link": lambda text: f"\x1b]8;;https://x.example\x07{text}\x1b]8;;\x07",
    "a square in front": lambda text: "\u25a0 " + text,
    "a corner in front": lambda text: "\u23bf \u00a0" + text,
    "in capitals": lambda text: text if "/" in text else text.upper(),
}  # fmt: skip


@pytest.mark.parametrize("mangle", MANGLED.values(), ids=MANGLED)
@pytest.mark.parametrize(("text", "end"), TEXTS)
def test_blanks_bullets_and_colours_change_nothing(text: str, end: float | None, mangle: Callable[[str], str]) -> None:
    assert reset_time(mangle(text), now=NOW) == end


@pytest.mark.parametrize(
    ("tail", "end"),
    [
        ("|1900000000", 1900000000.0),
        ("|1900000000000", 1900000000.0),  # milliseconds
        ("| 1900000000", 1900000000.0),
        ("|1500000000", 1500000000.0),  # over long ago
        ("|", None),
        ("|abc", None),
        ("|1", None),
        ("|2000000000", None),  # in three years
        ("|99999999999999999999", None),
        ("|" + "9" * 400, None),
        ("|1900000000.5", 1900000000.0),
        ("|-1900000000", None),
    ],
)
def test_an_epoch_after_a_pipe_counts_where_it_is_plausible(tail: str, end: float | None) -> None:
    assert reset_time(f"Claude AI usage limit reached{tail}", now=NOW) == end


CLOCKS: list[tuple[str, datetime, float | None]] = [
    # At night, the time of the next morning.
    (
        "resets 2:30am (America/New_York)",
        datetime(2031, 3, 5, 23, 0, tzinfo=NEW_YORK),
        at(6, 2, 30, year=2031, zone=NEW_YORK),
    ),
    # Three minutes late: it is over.
    ("resets 10am (Europe/Zurich)", datetime(2031, 3, 5, 10, 3, tzinfo=ZURICH), at(5, 10, year=2031, zone=ZURICH)),
    ("resets 11:55pm", datetime(2031, 3, 5, 0, 5, tzinfo=UTC), at(4, 23, 55, year=2031)),
    # An hour late: tomorrow's.
    ("resets 10am", datetime(2031, 3, 5, 11, 0, tzinfo=UTC), at(6, 10, year=2031)),
    # Now is in another zone than the text.
    ("resets 9am (Europe/Zurich)", datetime(2031, 3, 5, 23, 0, tzinfo=NEW_YORK), at(6, 9, year=2031, zone=ZURICH)),
    # A time that a clock set forward leaves out, and one that comes twice.
    ("resets 2:30am", datetime(2031, 3, 9, 1, 0, tzinfo=NEW_YORK), at(9, 3, 30, year=2031, zone=NEW_YORK)),
    ("resets 1:30am", datetime(2031, 11, 2, 0, 0, tzinfo=NEW_YORK), at(2, 1, 30, month=11, year=2031, zone=NEW_YORK)),
    ("resets 12am", datetime(2031, 3, 5, 12, 0, tzinfo=UTC), at(6, 0, year=2031)),
    ("resets 12pm", datetime(2031, 3, 5, 11, 0, tzinfo=UTC), at(5, 12, year=2031)),
    ("resets 12:30", datetime(2031, 3, 5, 11, 0, tzinfo=UTC), at(5, 12, 30, year=2031)),
    ("resets 23:15:59", datetime(2031, 3, 5, 11, 0, tzinfo=UTC), at(5, 23, 15, year=2031)),
    ("resets Wed 9am", datetime(2031, 3, 5, 9, 5, tzinfo=UTC), at(5, 9, year=2031)),
    ("resets Wednesday at 9am", datetime(2031, 3, 5, 11, 0, tzinfo=UTC), at(12, 9, year=2031)),
    ("resets tomorrow at 9am", datetime(2031, 3, 5, 23, 0, tzinfo=UTC), at(6, 9, year=2031)),
    ("resets today, 9am", datetime(2031, 3, 5, 23, 0, tzinfo=UTC), at(5, 9, year=2031)),
    ("resets Jan 2, 6pm", datetime(2031, 12, 30, 9, 0, tzinfo=UTC), at(2, 18, month=1, year=2032)),
    ("resets Feb 29, 6pm", datetime(2032, 2, 25, 9, 0, tzinfo=UTC), at(29, 18, month=2, year=2032)),
    ("resets Mar 8", datetime(2031, 3, 5, 9, 0, tzinfo=UTC), at(8, 0, year=2031)),
    ("resets 3pm UTC", datetime(2031, 3, 5, 9, 0, tzinfo=NEW_YORK), at(5, 15, year=2031)),
    ("resets 3pm (UTC)", datetime(2031, 3, 5, 9, 0, tzinfo=NEW_YORK), at(5, 15, year=2031)),
    ("resets 3 p.m. (in 2 hours)", datetime(2031, 3, 5, 13, 0, tzinfo=UTC), at(5, 15, year=2031)),
    # A limit of the first hour of a day whose clock is set back: the earlier one.
    ("resets 1:30am", datetime(2031, 11, 2, 1, 0, tzinfo=NEW_YORK), at(2, 1, 30, month=11, year=2031, zone=NEW_YORK)),
    ("resets 3am", datetime(2031, 3, 30, 1, 0, tzinfo=ZURICH), at(30, 3, year=2031, zone=ZURICH)),
]
FORMS: list[tuple[str, float | None]] = [
    # Half past a full hour, in words, and in both orders; the day before the time and behind it.
    ("resets at noon", at(13, 12)),
    ("resets at midnight (UTC)", at(14, 0)),
    ("resets at 3 PM", at(13, 15)),
    ("resets tonight at 11pm", at(13, 23)),
    ("resets 3pm tomorrow", at(14, 15)),
    ("resets tomorrow at 3pm (Europe/Zurich)", at(14, 15, zone=ZURICH)),
    ("resets at 9am on Monday", at(18, 9)),
    ("resets at 9am Mon (America/New_York)", at(18, 9, zone=NEW_YORK)),
    ("resets 3 p.m. on Mar 14", at(14, 15)),
    ("resets 9pm, Thursday", at(14, 21)),
    ("resets 9pm. Friday is another day", at(13, 21)),
    ("resets Tues 9am", at(19, 9)),
    ("resets Mar 16, 7:41am (UTC)", at(16, 7, 41)),
    ("resets Mar 16 at 6pm", at(16, 18)),
    ("resets Mar 16, 2030, 6pm", at(16, 18)),
    ("resets Sat, Mar 16 at 3:00 PM UTC", at(16, 15)),
    ("resets 16 Mar at 18:00", at(16, 18)),
    ("resets on the 16th of March 2030, 6pm", at(16, 18)),
    ("Retry-After: Wed, 13 Mar 2030 15:00:00 GMT", at(13, 15)),
    # Zones: named, as offsets, and such as are not known.
    ("resets 3pm America/New_York", at(13, 15, zone=NEW_YORK)),
    ("resets 3pm utc", at(13, 15)),
    ("resets 3pm (utc)", at(13, 15)),
    ("resets 3pm UTC+2", at(13, 13)),
    ("resets 3pm (GMT-03:30)", at(13, 18, 30)),
    ("resets 3pm +0200", at(13, 13)),
    ("resets 3pm Pacific Time", None),
    ("resets 3pm PDT", None),
    ("resets 3pm (UTC+99)", None),
    ("resets 3pm (local time)", at(13, 15)),
    # Spans in words.
    ("resets in an hour", at(13, 13)),
    ("try again in about 2 hours", at(13, 14)),
    ("resets in a day and 2 hours", at(14, 14)),
    # Other words, other names.
    ("refreshes at 5pm", at(13, 17)),
    ("come back at 5:30 pm", at(13, 17, 30)),
    ("anthropic-ratelimit-unified-reset: 1900000000", 1900000000.0),
    ('{"resetTime": 1900000000}', 1900000000.0),
    # Of two the first that is one.
    ("resets 25:00, try again in 5 minutes", at(13, 12, 5)),
    ("you can raise it \u00b7 your 5-hour limit resets 8:47pm (UTC)", at(13, 20, 47)),
    # No times.
    ("resets monthly on Mar 20", None),
    ("resets in March", None),
    ("resets Mar 40, 3pm", None),
    ("resets am", None),
    ("resets at 9am on Feb 30", None),
]


@pytest.mark.parametrize(("text", "end"), FORMS)
def test_whatever_way_a_time_is_written_it_is_that_time_or_none(text: str, end: float | None) -> None:
    assert reset_time(text, now=NOW) == end


STAMPS: list[tuple[object, float | None]] = [
    *((1900000000, 1900000000.0), (1900000000000, 1900000000.0), ("1900000000", 1900000000.0)),
    *((1900000000.5, 1900000000.5), ("2030-03-14T01:00:00Z", at(14, 1)), (1500000000, 1500000000.0)),
]
NO_STAMPS: list[object] = [
    *(True, None, -1, 0, 1, 2000000000, 10**30, float("nan"), float("inf"), 1e300),
    *("x", "3pm", "9" * 100, "", [], {}),
]


@pytest.mark.parametrize(("stamp", "end"), STAMPS)
def test_an_instant_by_itself_is_told_in_seconds(stamp: object, end: float) -> None:
    assert plausible(stamp, now=NOW) == end


@pytest.mark.parametrize("stamp", NO_STAMPS, ids=lambda value: repr(value)[:20])
def test_what_is_no_end_of_a_limit_is_none(stamp: object) -> None:
    assert plausible(stamp, now=NOW) is None


def test_a_number_of_more_digits_than_python_writes_is_none() -> None:
    assert plausible(pow(9, 5000), now=NOW) is None


def test_plain_words_are_one_line_without_colours_and_with_one_apostrophe() -> None:
    said = "\ufeff\x1b[31m\u25a0 You\u2019ve\u00a0hit\r\n  your\u200b \x1b]8;;https://x.example\x07limit\x1b]8;;\x07\x1b[0m"
    assert plain(said) == "\u25a0 You've hit your limit"
    assert len(plain("x" * 1_000_000)) == 65_536


@pytest.mark.parametrize(("text", "now", "end"), CLOCKS)
def test_a_clock_time_is_the_nearest_plausible_one(text: str, now: datetime, end: float | None) -> None:
    assert reset_time(text, now=now) == end


@pytest.mark.parametrize(
    "text",
    [
        "resets 3pm (Mars/Base)",
        "resets 3pm PST",
        "resets 3pm (America)",
        "resets 3pm (../../etc/passwd)",
        "resets 13pm",
        "resets 0am",
        "resets 25:00",
        "resets 12:75",
        "resets 10",
        "resets Feb 30, 3pm",
        "resets Mar 8, 10",
        "resets Feb 30th, 2030 3pm",
        "resets at 2030-02-30T01:00:00Z",
        "try again 5 times",
        "resets soon",
        "resets",
        "reset ",
        "",
        "the preset 3pm",
        "resets Mon",
        "resets_at: never",
        '{"resets_at": null}',
        '{"resets_in_seconds": -1}',
    ],
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert reset_time(text, now=NOW) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Please try again in 20s.", 20),
        ("try again in 1m30s", 90),
        ("try again in 1.5s", 1.5),
        ("try again in 500ms", 0.5),
        ("Resets in 3h 20m", 12000),
        ("resets in 1 hour, 5 minutes and 2 seconds", 3902),
        ("try again in 1 week", 604800),
        ("retry after 45 secs", 45),
        ("available again in 2 hrs", 7200),
        ("retry-after: 30", 30),
        ("Retry-After=30", 30),
        ('{"retry_after_ms": 1500}', 1.5),
        ('{"resetsInSeconds":"60"}', 60),
        ("resets_in_seconds: Some(60)", 60),
    ],
)
def test_a_span_counts_from_now(text: str, seconds: float) -> None:
    assert reset_time(text, now=NOW) == pytest.approx(NOW.timestamp() + seconds)


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ('{"resetsAt": 1900000000000}', 1900000000.0),
        ('{"rateLimits":{"resets_at":"2030-03-14T01:00:00Z"}}', at(14, 1)),
        ("resets_at: Some(1900000000)", 1900000000.0),
        ("resets at 2030-03-14T01:00:00.5+01:00", at(14, 0) + 0.5),
        ("resets at 2030-03-14 01:00", at(14, 1)),
        ('API Error: 429 {"error":{"resets_at":1},"resets_in_seconds":60}', NOW.timestamp() + 60),  # 1 is no instant
        ("try again later, or try again at 3pm", at(13, 15)),
    ],
)
def test_the_first_plausible_instant_counts(text: str, end: float) -> None:
    assert reset_time(text, now=NOW) == end


def test_a_time_without_a_zone_is_in_the_zone_of_now() -> None:
    east = timezone(timedelta(hours=9))
    now = NOW.astimezone(east)  # 21:00
    assert reset_time("resets 10pm", now=now) == datetime(2030, 3, 13, 22, tzinfo=east).timestamp()
    assert reset_time("resets 10pm", now=now.replace(tzinfo=None)) is not None  # in the local one


@pytest.mark.parametrize("year", [1, 9999])
def test_the_ends_of_the_calendar_are_no_error(year: int) -> None:
    edge = datetime(year, 12 if year > 1 else 1, 31 if year > 1 else 1, 23 if year > 1 else 0)
    for now in (edge, edge.replace(tzinfo=UTC), edge.replace(tzinfo=timezone(timedelta(hours=-9)))):
        for text in (
            "resets 3pm",
            "resets tomorrow 3pm",
            "resets Mon 3pm",
            "resets Jan 1, 3pm",
            "|1900000000",
            "in 5s",
        ):
            reset_time(text, now=now)


WORDS = st.sampled_from([
    "resets", "try again", "at", "in", "on", "after", "|", "1900000000", "3pm", "12:30", "am", "pm", "Mon", "Oct",
    "noon", "tonight", "GMT+2", "an hour", "on Friday", "16 Mar", "p.m.", "Europe/Zurich", "+99:99",
    "6th,", "2031", "(America/New_York)", "(UTC)", "UTC", "tomorrow", "2", "days", "hours", "99", ":", "5", "{",
    '"resets_at"', '"resets_in_seconds"', "}", "\x1b[1m", "\xa0", "2030-03-14T01:00:00Z", "Feb", "30",
])  # fmt: skip
ZONES: st.SearchStrategy[tzinfo] = st.sampled_from([UTC, NEW_YORK, ZURICH, timezone(timedelta(hours=-12))])
INSTANTS = st.datetimes(timezones=ZONES)
OUR_TIMES = st.datetimes(datetime(2002, 1, 1), datetime(2100, 1, 1), timezones=ZONES)


@given(st.lists(WORDS, max_size=12).map(" ".join) | st.text(max_size=60), INSTANTS)
def test_whatever_is_said_the_end_is_plausible_or_none(text: str, now: datetime) -> None:
    found = reset_time(text, now=now)
    assert found is None or 1e9 <= found <= now.timestamp() + 35 * 86400


@given(st.integers(0, 23), st.integers(0, 59), OUR_TIMES)
def test_a_clock_time_is_within_a_day(hour: int, minute: int, now: datetime) -> None:
    found = reset_time(f"resets {hour}:{minute:02}", now=now)
    assert found is not None
    assert -900 <= found - now.timestamp() <= 90000


def test_long_texts_take_no_longer_than_they_should() -> None:
    for unit in (
        "resets ",
        "resets in 1 ",
        "resets at 1",
        "|1",
        '"resets_at":',
        "1 hour ",
        "\x1b[",
        "(",
        " ",
        "Mon Oct 6 ",
    ):
        reset_time(unit * (1_000_000 // len(unit)), now=NOW)
