"""On which line of a TOML text a key stands: tomllib does not say it, and an error has to.

The text is one that tomllib has accepted; nothing is checked here a second time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""`("providers", "coder", "roots", 0)`: keys, and numbers in arrays, as pydantic counts them."""

_BETWEEN: Final = re.compile(r"(?:[ \t\r\n,]|#[^\n]*)*")
_BLANK: Final = re.compile(r"[ \t]*")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_STRING: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'  # up to two quotes belong to the text
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.S,
)
_DOT: Final = re.compile(r"[ \t]*\.[ \t]*")
_EQUALS: Final = re.compile(r"[ \t]*=[ \t]*")
_HEADER_END: Final = re.compile(r"[ \t]*\]\]?")
_SCALAR: Final = re.compile(r"[^,\]}#\n]*")


def key_lines(text: str) -> Mapping[KeyPath, int]:
    """The line, from 1, of every key, table and element of an array: of the first place that names it."""
    reader = _Reader(text)
    with suppress(RecursionError):  # nested deeper than tomllib's own recursion: the keys before it are known
        reader.read()
    return reader.found


def line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> tuple[int, KeyPath]:
    """The line of that key, or of the nearest table around it, and which it is; 1 and nothing where there is none.

    pydantic's paths go on below a key: into the members of a union, and to keys that are missing.
    """
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1), path


class _Reader:
    def __init__(self, text: str) -> None:
        self.found: dict[KeyPath, int] = {}
        self._text, self._at = text, 0
        self._breaks = [found.start() for found in re.finditer("\n", text)]
        self._last: dict[KeyPath, int] = {}  # of an array of tables: the number of its last one

    def read(self) -> None:
        table: KeyPath = ()
        while self._skip(_BETWEEN) < len(self._text):
            line = self._line()
            if self._text.startswith("[[", self._at):
                *front, name = self._key(2)
                array = (*self._within(front), name)
                self._last[array] = self._last.get(array, -1) + 1
                table = (*array, self._last[array])
            elif self._text[self._at] == "[":
                table = self._within(self._key(1))
            else:
                self._pair(table)
                continue
            self._note(table, line)
            self._skip(_HEADER_END)

    def _pair(self, table: KeyPath) -> None:
        line = self._line()
        path = (*table, *self._key())
        self._note(path, line)
        self._skip(_EQUALS)
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        first = self._text[self._at]
        if first == "{":
            self._at += 1
            while self._text[self._skip(_BETWEEN)] != "}":
                self._pair(path)
            self._at += 1
        elif first == "[":
            self._at += 1
            count = 0
            while self._text[self._skip(_BETWEEN)] != "]":
                self._note((*path, count), self._line())
                self._value((*path, count))
                count += 1
            self._at += 1
        elif _STRING.match(self._text, self._at):
            self._skip(_STRING)
        else:
            self._skip(_SCALAR)

    def _key(self, brackets: int = 0) -> KeyPath:
        self._at += brackets
        self._skip(_BLANK)
        names = [self._name()]
        while _DOT.match(self._text, self._at):
            self._skip(_DOT)
            names.append(self._name())
        return tuple(names)

    def _name(self) -> str:
        import tomllib

        start = self._at
        if _BARE.match(self._text, start):
            return self._text[start : self._skip(_BARE)]
        quoted = self._text[start : self._skip(_STRING)]
        return tomllib.loads(f"key = {quoted}")["key"]

    def _within(self, path: KeyPath | list[str | int]) -> KeyPath:
        """The path with the number of the table that a name of an array of tables stands for: its last one."""
        full: KeyPath = ()
        for name in path:
            full = (*full, name)
            if full in self._last:
                full = (*full, self._last[full])
        return full

    def _note(self, path: KeyPath, line: int) -> None:
        for end in range(1, len(path) + 1):
            self.found.setdefault(path[:end], line)

    def _skip(self, pattern: re.Pattern[str]) -> int:
        """Go to the end of what stands here, if it does; where that is."""
        matched = pattern.match(self._text, self._at)
        self._at = matched.end() if matched else self._at
        return self._at

    def _line(self) -> int:
        return bisect_right(self._breaks, self._at) + 1
