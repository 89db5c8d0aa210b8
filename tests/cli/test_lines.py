"""The words by which things are told."""

from __future__ import annotations

import pytest

from subagents import Usage
from subagents._cli.lines import amount, one_line, seconds, usage_words


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0.0 s"), (59.94, "59.9 s"), (60, "1:00"), (187.6, "3:07"), (3723, "1:02:03")]
)
def test_durations_are_short(value: float, words: str) -> None:
    assert seconds(value) == words


@pytest.mark.parametrize(
    ("done", "total", "unit", "words"),
    [
        (1_500_000, 98_900_000, "bytes", "1.5 MB/98.9 MB"),
        (1_500_000, None, "bytes", "1.5 MB"),
        (1234, 5678, "tokens", "1,234/5,678 tokens"),
        (3, None, "", "3"),
    ],
)
def test_amounts_are_in_their_unit(done: float, total: float | None, unit: str, words: str) -> None:
    assert amount(done, total, unit) == words


def test_what_is_not_known_of_the_usage_is_not_shown() -> None:
    assert usage_words(Usage(), None) == ""
    assert usage_words(Usage(1200, 34), 0.5) == "1,200 in, 34 out tokens · $0.5000"
    assert usage_words(Usage(output_tokens=3), None) == "3 out tokens"


def test_a_long_text_is_cut_to_one_line_whose_hidden_characters_are_seen() -> None:
    assert one_line("a\nb\t c\x1b") == r"a b c\x1b"
    assert one_line("x" * 10_000_000, 5) == "xxxx…"
