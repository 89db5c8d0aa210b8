"""Lines added and removed, from a number per line: the text of a file is not kept."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Final

__all__ = ["count_edits", "is_text", "line_numbers"]

_SNIFFED: Final = 8000  # bytes; git's rule for what is text
_FARTHEST: Final = 100  # edits that are looked for exactly: five thousand steps, some milliseconds


def is_text(data: bytes) -> bool:
    """Whether git would show its lines."""
    return b"\0" not in data[:_SNIFFED]


def line_numbers(data: bytes) -> array[int]:
    """One number for each line: equal lines have equal ones, within this process."""
    lines = data.split(b"\n")
    last = lines.pop()
    numbers = array("q", map(hash, lines))
    if last:  # without its line end it is another line
        numbers.append(hash((last, None)))
    return numbers


def count_edits(old: array[int], new: array[int]) -> tuple[int, int]:
    """Lines added and removed on the shortest way from one to the other, as ``git diff --minimal`` counts them.

    Where more than a hundred edits are needed, lines that only moved are not counted.
    """
    start, end_old, end_new = 0, len(old), len(new)
    while start < min(end_old, end_new) and old[start] == new[start]:
        start += 1
    while start < min(end_old, end_new) and old[end_old - 1] == new[end_new - 1]:
        end_old, end_new = end_old - 1, end_new - 1
    a, b = old[start:end_old], new[start:end_new]
    grown = len(b) - len(a)
    if (edits := _distance(a, b)) is not None:
        return (edits + grown) // 2, (edits - grown) // 2
    kept = (Counter(a) & Counter(b)).total()
    return len(b) - kept, len(a) - kept


def _distance(a: array[int], b: array[int]) -> int | None:
    """Insertions and deletions (Myers 1986, the greedy form); None: more than are looked for."""
    n, m = len(a), len(b)
    if not n or not m:
        return n + m
    if abs(n - m) > _FARTHEST:
        return None
    reached = {1: 0}  # on each diagonal, how far into `a`
    for edits in range(min(n + m, _FARTHEST) + 1):
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (diagonal != edits and reached[diagonal - 1] < reached[diagonal + 1])
            x = reached[diagonal + 1] if down else reached[diagonal - 1] + 1
            y = x - diagonal
            while x < n and y < m and a[x] == b[y]:
                x, y = x + 1, y + 1
            reached[diagonal] = x
            if x >= n and y >= m:
                return edits
    return None
