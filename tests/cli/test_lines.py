"""The words by which things are told."""

from __future__ import annotations

import pytest

from subagents import Changes, Commit, FileChange, Usage, WorktreeReport
from subagents._cli.lines import amount, change_lines, one_line, seconds, usage_words, worktree_lines


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


def test_what_changed_is_told_in_lines_that_show_everything() -> None:
    changes = Changes(
        (
            FileChange("a\u202e.py", "modified", 3, 1),
            FileChange("new.py", "renamed", 0, 0, "old.py"),
            FileChange("pic.png", "deleted"),
        ),
        2,
        (Commit("0123456789abcdef", "mend it"),),
        1,
        True,
        "/repo",
        ("sub/: not read",),
    )
    assert [line.plain for line in change_lines(changes)] == [
        "  M a\\u202e.py +3 -1",
        "  R old.py → new.py +0 -0",
        "  D pic.png",
        "  and 2 more files",
        "  0123456789ab mend it",
        "  and 1 more commits",
        "  HEAD moved: not all of this is the run's own work",
        "  not looked at: sub/: not read",
    ]


def test_only_so_many_files_are_told() -> None:
    files = tuple(FileChange(f"f{number}", "added", 1, 0) for number in range(30))
    assert change_lines(Changes(files))[-1].plain == "  and 10 more files"


def test_a_worktree_is_told_with_its_branch() -> None:
    kept = WorktreeReport("/state/w", "subagents/x", "0" * 40, notes=("the branch is odd",))
    assert [line.plain for line in worktree_lines(kept)] == [
        "worktree /state/w, branch subagents/x",
        "  the branch is odd",
    ]
    assert "removed" in worktree_lines(WorktreeReport(None, None, "0" * 40))[0].plain
    rescued = WorktreeReport(None, "subagents/x", "0" * 40, "1" * 40)
    assert "branch subagents/x" in worktree_lines(rescued)[0].plain
