"""What follows a run: `Screen` for people, `JsonLines` for programs."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Self

from subagents import Event, Result


class View:
    """Told what happens, in the event loop; this one shows nothing."""

    async def event(self, event: Event) -> None:
        """Show the event.

        Raises:
            OutputLost: standard output cannot be written.
        """

    async def result(self, result: Result) -> None:
        """Show how the run ended; called last.

        Raises:
            OutputLost: standard output cannot be written.
        """

    def stopping(self, why: str) -> None:
        """The run is being stopped."""

    def tick(self) -> None:
        """A tenth of a second has passed."""

    @contextmanager
    def paused(self) -> Generator[None]:
        """Inside, the terminal belongs to a question."""
        yield

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
