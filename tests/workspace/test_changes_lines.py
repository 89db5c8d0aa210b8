"""Lines are counted as `git diff --minimal` counts them."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subagent_workspace._lines import count_edits, is_text, line_numbers

LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=12)


def counted(old: str, new: str) -> tuple[int, int]:
    return count_edits(line_numbers(old.encode()), line_numbers(new.encode()))


def longest_common(old: list[str], new: list[str]) -> int:
    """The textbook's table."""
    row = [0] * (len(new) + 1)
    for line in old:
        above = row
        row = [0]
        for index, other in enumerate(new):
            row.append(above[index] + 1 if line == other else max(above[index + 1], row[index]))
    return row[-1]


@given(LINES, LINES)
@settings(max_examples=400, deadline=None)
def test_the_shortest_way_is_counted(old: list[str], new: list[str]) -> None:
    common = longest_common(old, new)
    texts = ["".join(f"{line}\n" for line in lines) for lines in (old, new)]
    assert counted(*texts) == (len(new) - common, len(old) - common)


def test_git_counts_the_same(tmp_path: Path) -> None:
    chance = random.Random(7)
    for number in range(12):
        old = [f"{chance.randrange(40)}\n" for _ in range(200)]
        new = [line for line in old if chance.random() > 0.1]
        for _ in range(15):
            new.insert(chance.randrange(len(new)), f"{chance.randrange(60)}\n")
        texts = ["".join(old)[: -(number % 2) or None], "".join(new)]
        for name, text in zip("ab", texts, strict=True):
            (tmp_path / name).write_text(text)
        argv = ["git", "diff", "--no-index", "--minimal", "--numstat", "a", "b"]
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=30)
        assert counted(*texts) == tuple(map(int, done.stdout.split()[:2]))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", (0, 0)),
        ("", "a\nb", (2, 0)),
        ("a\nb\n", "", (0, 2)),
        ("a\n", "a", (1, 1)),
        ("a\r\n", "a\n", (1, 1)),
        ("a\rb\n", "a\rb\nc\n", (1, 0)),
    ],
)
def test_a_line_is_what_ends_in_a_newline(old: str, new: str, expected: tuple[int, int]) -> None:
    assert counted(old, new) == expected


def test_far_apart_the_lines_that_only_moved_are_not_counted() -> None:
    lines = [f"{number}\n" for number in range(30_000)]
    mixed = lines.copy()
    random.Random(1).shuffle(mixed)
    assert counted("".join(lines), "".join([*mixed, "new\n"])) == (1, 0)
    assert counted("".join(lines), "x\n" * 5) == (5, 30_000)


def test_what_has_a_nul_in_front_is_no_text() -> None:
    assert is_text(b"a" * 9000 + b"\0")
    assert not is_text(b"a\0")
