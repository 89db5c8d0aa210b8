"""Task, Event and Result go through JSON unchanged; texts are safe to show and bounded."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import subagents
from subagents import (
    Choice,
    Evidence,
    Failure,
    NoticeEvent,
    PermissionEvent,
    PermissionOption,
    PermissionRequest,
    PlanEntry,
    PlanEvent,
    Result,
    RunFailed,
    ShutdownReport,
    StartedEvent,
    Task,
    TextEvent,
    ThoughtEvent,
    ToolEvent,
    Usage,
    UsageEvent,
    event_from_json,
    visible,
)
from subagents._visible import shorten
from subagents._words import EventType

REQUEST = PermissionRequest(
    "run rm",
    "execute",
    "r1",
    "rm -rf build",
    ("build",),
    "cleaning",
    (PermissionOption("allow_once", "y", "Yes"),),
    {"n": [1, None]},
)
EVENTS: tuple[subagents.Event, ...] = (
    StartedEvent("s", "m"),
    TextEvent("a\u2028b\n\x00", "1", "p"),
    ThoughtEvent("hm", "2"),
    ToolEvent("t", "edit a.py", "edit", "completed", "sed", ("a.py",), "out", 0, "p"),
    PlanEvent((PlanEntry("first", "completed"), PlanEntry("then"))),
    UsageEvent(Usage(1, 2), 0.5),
    PermissionEvent(REQUEST, Choice("allow_once", "y", "fine")),
    PermissionEvent(REQUEST),
    NoticeEvent("retrying", "retry", "warning", {"attempt": 2}),
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: e.type)
def test_an_event_goes_through_json_unchanged(event: subagents.Event) -> None:
    line = event.to_json()
    assert "\n" not in line
    assert "\u2028" not in line
    assert json.loads(line)["type"] == event.type
    assert event_from_json(line) == event
    assert type(event).from_json(line) == event


def test_every_event_type_is_covered() -> None:
    assert {e.type for e in EVENTS} == set(get_args(EventType))


def test_a_result_goes_through_json_unchanged() -> None:
    result = Result(
        "error",
        "partial",
        {"a": [1, 2.5, None, "ü"]},
        Failure("limit", "run", "later", True, 1.9e9, 429, 1),
        Usage(1, 2, 3, 4, 5),
        0.25,
        "s",
        "m",
        1e9,
        2.0,
        Evidence("turn/completed", 1, 2, 3, ShutdownReport(("eof", "term"), -15, True), True, ("note",)),
    )
    assert Result.from_json(result.to_json()) == result


def test_a_task_goes_through_json_unchanged() -> None:
    task = Task("x", ".", "m", "high", {"type": "object"}, ("a",), ("b",), ("Bash",), 3, 1.5, 10.0, 5.0, "s", "l", "i")
    assert Task.from_json(task.to_json()) == task
    assert Task.from_json('{"prompt": "x"}') == Task("x")


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_survives_the_way_through_json(text: str) -> None:
    event = TextEvent(text)
    assert event_from_json(event.to_json()) == event


def test_an_unknown_event_arrives_as_a_notice() -> None:
    notice = event_from_json('{"type": "future", "x": 1}')
    assert notice == NoticeEvent("an event of the unknown type future", "unknown", data={"type": "future", "x": 1})


@pytest.mark.parametrize("text", ["{}", '{"type": "text"}', '{"type": 5}', "[]", "null", '{"type": "tool", "id": 3}'])
def test_what_is_no_event_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"validation error|type"):
        event_from_json(text)


def test_half_of_a_surrogate_pair_is_written_as_a_replacement() -> None:
    for text, read in (("a\ud83d", "a\ufffd"), ("\ude00\U0001f600", "\ufffd\U0001f600"), ("\\ud83d", "\\ud83d")):
        assert event_from_json(TextEvent(text).to_json()) == TextEvent(read)


def test_reading_many_events_builds_one_parser() -> None:
    from subagents._events import _any_event  # pyright: ignore[reportPrivateUsage]

    for _ in range(3):
        event_from_json('{"type": "text", "text": "x"}')
    assert _any_event.cache_info().misses == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\tand\nlines", "plain\tand\nlines"),
        ("ünïcode 한글 🧪", "ünïcode 한글 🧪"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("a\rb", r"a\x0db"),
        ("bell\x07 del\x7f c1\x9b31m", r"bell\x07 del\x7f c1\x9b31m"),
        ("user\u202egnp.exe", r"user\u202egnp.exe"),
        ("zero\u200bwidth\ufeff\u2060", r"zero\u200bwidth\ufeff\u2060"),
        ("line\u2028sep", r"line\u2028sep"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("x\u200d", r"x\u200d"),
        ("❤\ufe0f 1\ufe0f\u20e3", "❤\ufe0f 1\ufe0f\u20e3"),
        ("👩🏽\u200d❤\ufe0f\u200d👨", "👩🏽\u200d❤\ufe0f\u200d👨"),
        ("a\ufe00b\U000e0102", r"a\ufe00b\U000e0102"),
        ("a\ufe0f\ufe0f", "a\ufe0f" + r"\ufe0f"),
        ("\u3164\u2800\u034f", r"\u3164\u2800\u034f"),
        ("nbsp\u00a0em\u2003", r"nbsp\xa0em\u2003"),
        ("a\u200d b", r"a\u200d b"),
    ],
)
def test_control_and_hidden_characters_are_shown_as_codes(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(), st.integers(min_value=3, max_value=50))
def test_a_shortened_text_is_valid_utf8_and_within_the_limit(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert len(short.encode()) <= limit
    if short != text.encode("utf-8", "replace").decode():
        assert short.endswith("…")


def test_a_failure_message_holds_at_most_4096_bytes() -> None:
    assert len(Failure("unknown", "run", "ü" * 5000).message.encode()) <= 4096


def test_usage_adds_up_field_by_field() -> None:
    assert Usage(1, None, 2) + Usage(2, 3) == Usage(3, 3, 2)
    assert Usage() + Usage() == Usage()


def test_raise_for_failure_raises_with_the_whole_result() -> None:
    ok = Result.completed("x")
    assert ok.ok
    assert ok.raise_for_failure() is ok
    bad = Result.error(Failure("auth", "start", "sign in"))
    with pytest.raises(RunFailed, match="auth: sign in") as caught:
        bad.raise_for_failure()
    assert caught.value.result is bad
    with pytest.raises(RunFailed, match="ended as aborted"):
        Result("aborted").raise_for_failure()
