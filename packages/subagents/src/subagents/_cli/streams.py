"""The three standard streams, made safe to use: closed ones, narrow encodings, readers that went away.

The answer goes to standard output and everything else to standard error, so that a pipe gets the answer alone.
"""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout, suppress
from io import TextIOWrapper
from typing import IO, Final, TextIO, cast

import anyio
from rich.console import Console, RenderableType
from rich.text import Text

from subagents import visible

_NAMES: Final = ("stdin", "stdout", "stderr")
_ATOMIC: Final = select.PIPE_BUF  # bytes that a pipe takes at once when it can be written at all
_WIDE: Final = 1000  # columns of a table that is not for a terminal: a cell stays on its line


class OutputLost(Exception):
    """Standard output cannot be written.

    Attributes:
        closed: because nobody reads it; that is how a pipe is ended, and no error.
    """

    def __init__(self, reason: str, *, closed: bool) -> None:
        super().__init__(f"standard output cannot be written: {reason}")
        self.closed = closed


def prepare_streams() -> None:
    """Open the null device where a standard stream is closed, and make every character writable.

    A closed descriptor 0, 1 or 2 would be given to the next file that anything opens.
    """
    for fd, name in enumerate(_NAMES):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, "w" if fd else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        cast("TextIOWrapper", stream).reconfigure(errors="backslashreplace")


@contextmanager
def aside() -> Generator[None]:
    """Inside, whatever writes to standard output writes to standard error: the code of a provider, and its children.

    By the descriptor as well: a C library prints past Python.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


async def write_stdout(text: str) -> None:
    """Write all of it; a reader that is slow holds up nothing else.

    Not by `sys.stdout.write`: where Python runs unbuffered (PYTHONUNBUFFERED, as in most containers) it loses what one
    call of the system did not take; buffered, it tries again at the interpreter's end, with a traceback.

    Raises:
        OutputLost: it could not be done.
    """
    fd, left = sys.stdout.fileno(), memoryview(text.encode(sys.stdout.encoding, "backslashreplace"))
    try:
        while left:
            with suppress(PermissionError):  # what can always be written (files, the null device) cannot be waited for
                await anyio.wait_writable(fd)
            with suppress(BlockingIOError):
                left = left[os.write(fd, left[:_ATOMIC]) :]
    except OSError as exc:
        raise OutputLost(exc.strerror or str(exc), closed=isinstance(exc, BrokenPipeError)) from None


def rendered(what: RenderableType, *, wrap: bool = True) -> str:
    """The text, colours included, by which standard output shows it."""
    width = None if sys.stdout.isatty() else _WIDE
    # rich writes nothing here, but flushes, also where that cannot be done.
    file = cast("IO[str]", _Lenient(sys.stdout))
    console = Console(file=file, markup=False, emoji=False, highlight=False, width=width)
    with console.capture() as capture:
        console.print(what, soft_wrap=not wrap)
    return capture.get()


class _Lenient:
    """A stream for rich: once it cannot be written it is silent, and the run goes on.

    A terminal that was closed or a pipe without a reader must not end a run whose answer somebody may still read.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.encoding = stream.encoding

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()


def stderr_console(*, quiet: bool = False) -> Console:
    """A console on standard error that takes text as it is: no markup, no emoji codes, no highlighting."""
    file = cast("IO[str]", _Lenient(sys.stderr))
    return Console(file=file, markup=False, emoji=False, highlight=False, quiet=quiet)


def can_draw(console: Console) -> bool:
    """Whether a region can be drawn again and again; not where the lines of --debug would run through it."""
    return console.is_interactive and sys.stderr.isatty() and not logging.getLogger().isEnabledFor(logging.DEBUG)


def say_error(message: str, hint: str = "") -> None:
    """One line on standard error, and what to do next in another."""
    console = stderr_console()
    console.print(Text(visible(f"error: {message}"), "red"), soft_wrap=True)
    if hint:
        console.print(Text(visible(hint)), soft_wrap=True)
