"""What interrupts the command: SIGINT, SIGTERM and SIGHUP, from `main` to its end.

While Python is still importing the package (about a tenth of a second) they do what they do to any Python program.

Plain handlers that note the signal, and a look at the note ten times a second: the event loop's own handlers cover only
the time of the loop and give the signals back to their defaults afterwards, where a second Ctrl-C would break off the
printing of the answer or leave the cursor hidden; and a handler that reaches into the loop does so between any two
instructions. What was ignored when the command began (nohup, a background job of a script) stays ignored.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, Final, NoReturn, Self

EXIT_INTERRUPTED: Final = 130
"""For each of the signals: a run that they stop is `aborted`."""

_NAMES: Final = ("SIGINT", "SIGTERM", "SIGHUP")


class Interrupts:
    """While entered, a signal raises `KeyboardInterrupt`; while `held`, it is only noted.

    Attributes:
        caught: the first signal that came, by name.
    """

    def __init__(self) -> None:
        self.caught: str | None = None
        self._held = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (getattr(signal, name) for name in _NAMES if hasattr(signal, name)):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._catch)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self.caught = self.caught or signal.Signals(number).name
        if not self._held:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Generator[None]:
        """Only note what comes: whoever holds looks at `caught` and ends in good order."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    def leave(self, code: int) -> NoReturn:
        """End the process now, without the interpreter's own end.

        That waits for threads (a name lookup goes on for half a minute), the event loop's waits for tasks that swallow
        their cancellation, and a further Ctrl-C would break it off with a traceback. The supervisors of owned children
        see this process end, and end what is left.
        """
        self._held = True
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


INTERRUPTS: Final = Interrupts()
"""Of this process, as signal handlers are."""
