"""What this package raises.

    AssertionError
    └── BrokenPromise           one promise was not kept; `.promise`, `.backend`
    ExceptionGroup
    └── BrokenPromises          all that a check found, one `BrokenPromise` each
    Exception
    └── NotApplicable           a promise cannot be shown with what the kit was given

They are assertion errors because whoever calls the kit is a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self


class BrokenPromise(AssertionError):
    """A promise that was not kept.

    Attributes:
        promise: its name, as in the table.
        backend: `asyncio` or `trio`.
    """

    def __init__(self, promise: str, backend: str, what: str) -> None:
        super().__init__(f"{promise} [{backend}]: {what}")
        self.promise, self.backend, self.what = promise, backend, what


class BrokenPromises(ExceptionGroup[BrokenPromise]):
    """Every promise that a check found broken; the message lists them, and each has its own traceback."""

    def __new__(cls, message: str, exceptions: Sequence[BrokenPromise], /) -> Self:
        """A group of them, its message the list."""
        return super().__new__(cls, "\n".join([message, *(f"  {e}" for e in exceptions)]), exceptions)

    def derive(self, excs: Sequence[BrokenPromise], /) -> ExceptionGroup[BrokenPromise]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A subgroup, for `except*` and `split`; a plain group, because its message would be listed twice."""
        return ExceptionGroup("broken promises", excs)


class NotApplicable(Exception):  # no error: an answer
    """What a promise needs was not given (`slow_task`, `ask_task`, …), or it has no meaning on this event loop."""
