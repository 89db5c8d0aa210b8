"""What two texts have in common, and a unified diff, in bounded time.

`difflib` alone takes minutes for some pairs of 256 KiB.  So lines that stand once in both are matched first (as in a
patience diff), and only what lies between them goes to `difflib`; a gap that is too large counts as replaced whole.
Such a diff is right, only longer than need be.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import Match, SequenceMatcher
from typing import Final

__all__ = ["blocks", "unified"]

_LARGEST_GAP: Final = 1_000_000  # lines of the one times lines of the other
_CONTEXT: Final = 3


def blocks(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int]]:
    """Runs of equal lines as (index in old, index in new, length), in order, none empty; the last is (len, len, 0)."""
    found: list[tuple[int, int, int]] = []
    i = j = 0
    for next_i, next_j in [*_anchors(old, new), (len(old), len(new))]:
        for at, to, size in _gap(old[i:next_i], new[j:next_j]):
            _append(found, i + at, j + to, size)
        if next_i < len(old):
            _append(found, next_i, next_j, 1)
        i, j = next_i + 1, next_j + 1
    return [*found, (len(old), len(new), 0)]


def _append(found: list[tuple[int, int, int]], i: int, j: int, size: int) -> None:
    if found and (found[-1][0] + found[-1][2], found[-1][1] + found[-1][2]) == (i, j):
        i, j, size = found[-1][0], found[-1][1], found.pop()[2] + size
    found.append((i, j, size))


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Lines that stand once in each, as the longest series that rises in both."""
    here = _once(old)
    pairs = [(here[line], j) for line, j in _once(new).items() if line in here]
    tops: list[int] = []  # the smallest index in old at which a series of each length ends
    ends: list[int] = []  # … and which pair that is
    before: list[int] = []
    for k, (i, _) in enumerate(pairs):
        at = bisect_left(tops, i)
        before.append(ends[at - 1] if at else -1)
        tops[at : at + 1], ends[at : at + 1] = [i], [k]
    series: list[tuple[int, int]] = []
    k = ends[-1] if ends else -1
    while k >= 0:
        series.append(pairs[k])
        k = before[k]
    return series[::-1]


def _once(lines: Sequence[str]) -> dict[str, int]:
    count = Counter(lines)
    return {line: i for i, line in enumerate(lines) if count[line] == 1}


def _gap(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    inner_old, inner_new = old[start : len(old) - end], new[start : len(new) - end]
    if start:
        yield 0, 0, start
    if 0 < len(inner_old) * len(inner_new) <= _LARGEST_GAP:
        for i, j, size in SequenceMatcher(None, inner_old, inner_new).get_matching_blocks()[:-1]:
            yield start + i, start + j, size
    if end:
        yield len(old) - end, len(new) - end, end


def unified(old: Sequence[str], new: Sequence[str], *, names: tuple[str, str], limit: int) -> str:
    """A unified diff of lines with their line ends (a last one without gets git's remark); "" when they are equal.

    At most `limit` characters, cut after a whole line, with a last line that says how many more there are.
    """
    lines = list(_hunks(old, new))
    if not lines:
        return ""
    lines = [f"--- {names[0]}\n", f"+++ {names[1]}\n", *lines]
    size = 0
    for k, line in enumerate(lines):
        size += len(line)
        if size > limit:
            return "".join([*lines[:k], f"… and {len(lines) - k:,} more lines\n"])
    return "".join(lines)


class _Known(SequenceMatcher[str]):
    """What is equal is known already; only the grouping of `difflib` is used."""

    def __init__(self, known: list[tuple[int, int, int]]) -> None:
        super().__init__(None, (), ())
        self._known = [Match(*block) for block in known]

    def get_matching_blocks(self) -> list[Match]:
        return self._known


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    for group in _Known(blocks(old, new)).get_grouped_opcodes(_CONTEXT):
        (_, i1, _, j1, _), (_, _, i2, _, j2) = group[0], group[-1]
        yield f"@@ -{_range(i1, i2)} +{_range(j1, j2)} @@\n"
        for tag, a, b, c, d in group:
            yield from _signed(" " if tag == "equal" else "-", old[a:b])
            if tag != "equal":
                yield from _signed("+", new[c:d])


def _range(start: int, stop: int) -> str:
    size = stop - start
    return f"{start + 1 if size else start},{size}"  # of nothing: the line before it, as diff says


def _signed(sign: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"
