"""`--permission ask`: the question on the terminal.

The loop is never blocked: the terminal is waited for, and a line is read when it is there. It stays in its normal mode
(echo, whole lines), so an interrupted question leaves nothing to restore.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import anyio
from rich.text import Text

from subagents import Choice, PermissionOption, PermissionRequest, visible
from subagents._cli.lines import one_line
from subagents._cli.streams import stderr_console
from subagents._cli.view import View
from subagents._words import OptionKind

_KINDS: Final[Mapping[OptionKind, tuple[str, str]]] = {
    "allow_once": ("y", "yes, once"),
    "allow_always": ("a", "yes, always"),
    "reject_once": ("n", "no"),
    "reject_always": ("d", "no, never"),
}


class Asker:
    """A permission callback that asks the person at the terminal, one question at a time."""

    def __init__(self, view: View) -> None:
        self._console, self._view, self._turn = stderr_console(), view, anyio.Lock()

    async def __call__(self, request: PermissionRequest) -> Choice:
        """The answer; a closed terminal, or Ctrl-D, is a rejection."""
        async with self._turn:
            with self._view.paused():
                return await self._ask(request)

    async def _ask(self, request: PermissionRequest) -> Choice:
        import termios  # not on every platform, and only needed here

        self._console.print(*_question(request), sep="\n", soft_wrap=True)
        keys = _keys(request.options)
        # What was typed before the question was shown is no answer to it.
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        while True:
            self._console.print(Text(f"{_menu(keys)} ? ", "bold"), end="", soft_wrap=True)
            line = await self._line()
            if not line:
                return Choice("reject_once", None, "no answer from the terminal")
            if (chosen := keys.get(line.strip().lower())) is not None:
                return Choice(chosen.kind, chosen.id or None)
            self._console.print(Text(f"type one of: {', '.join(keys)}", "dim"))

    async def _line(self) -> str:
        """One line with its end; empty at the end of the terminal's input."""
        fd, line = sys.stdin.fileno(), b""
        try:
            await anyio.wait_readable(fd)
            with suppress(OSError):  # the terminal is gone: no answer
                line = os.read(fd, 4096)
        finally:
            if not line.endswith(b"\n"):
                self._console.print()  # the cursor stands behind the question
        return line.decode(errors="replace")


def _question(request: PermissionRequest) -> list[Text]:
    # The command and the paths whole: what is allowed must have been seen.
    lines = [Text(f"{request.kind}: {one_line(request.title)}", "bold yellow")]
    lines += [Text(f"  {visible(part)}") for part in (request.command or "", *request.paths) if part]
    if request.beyond:
        lines.append(Text("  this goes beyond what the configuration allows by itself", "bold"))
    return [*lines, Text(f"  {visible(request.reason)}", "dim")] if request.reason else lines


def _keys(options: tuple[PermissionOption, ...]) -> dict[str, PermissionOption]:
    """A key for every option: the letter of its kind where it is free, else its number."""
    keys: dict[str, PermissionOption] = {}
    for number, option in enumerate(options, 1):
        letter, _ = _KINDS[option.kind]
        keys[str(number) if letter in keys else letter] = option
    return keys


def _menu(keys: Mapping[str, PermissionOption]) -> str:
    return "  ".join(f"[{key}] {one_line(option.name, 60) or _KINDS[option.kind][1]}" for key, option in keys.items())
