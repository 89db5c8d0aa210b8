"""The tokens of one turn, out of the totals of threads.

`thread/tokenUsage/updated` counts a thread from its beginning, over turns and resumptions; the difference to the total
before the turn is the turn's. Resuming a thread tells that total before the turn begins (observed). A response that
overflows the context is followed by a made-up total: the whole window, and zero in every part.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from subagents import Usage
from subagents.backend.values import JsonObject, number_in, object_in

Counts: TypeAlias = tuple[int | None, ...]

# In the order of the fields of Usage.
_PARTS: Final = ("inputTokens", "outputTokens", "cachedInputTokens", "cacheWriteInputTokens", "reasoningOutputTokens")


class Meter:
    """What the threads of a run have used in it; those of sub-agents count too."""

    def __init__(self) -> None:
        self._before: dict[str, Counts] = {}
        self._now: dict[str, Counts] = {}

    def read(self, thread: str, usage: JsonObject, *, earlier: bool) -> bool:
        """Take a total; whether the usage of the turn changed.

        Args:
            thread: whose it is.
            usage: `{"total": {"inputTokens": 100, …}, "last": {…}}`.
            earlier: it is from before the turn.
        """
        total, last = _counts(object_in(usage, "total")), _counts(object_in(usage, "last"))
        if not any(total):
            return False
        if earlier:
            self._before[thread] = total
            return False
        if thread not in self._before:
            # Without its last response, all of it is taken for the turn's.
            self._before[thread] = _minus(total, tuple(a if b is None else b for a, b in zip(total, last, strict=True)))
        changed = self._now.get(thread) != total
        self._now[thread] = total
        return changed

    @property
    def usage(self) -> Usage:
        """Of the turn, so far."""
        found = Usage()
        for thread, total in self._now.items():
            found += Usage(*_minus(total, self._before[thread]))
        return found


def _counts(table: JsonObject) -> Counts:
    found = (number_in(table, name) for name in _PARTS)
    return tuple(None if count is None else max(count, 0) for count in found)


def _minus(total: Counts, part: Counts) -> Counts:
    return tuple(None if a is None else max(a - (b or 0), 0) for a, b in zip(total, part, strict=True))
