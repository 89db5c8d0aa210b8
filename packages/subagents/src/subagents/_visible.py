"""Text that a child or a model wrote, made safe to show, and cut without breaking a character."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_KEPT: Final = "\n\t"
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_PLAIN: Final = re.compile(r"[\n\t\x20-\x7e]*\Z")
# Visible by their category, and shown as nothing: fillers and blanks that can hide a text between the letters.
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
# Part of ordinary writing: the joiners of emoji and of Indic and Persian words, and the two selectors of emoji.
_JOINERS: Final = "\u200c\u200d"
_SELECTORS: Final = "\ufe0e\ufe0f"


def visible(text: str) -> str:
    r"""The text with control and hidden characters shown as codes (`\x1b`, `\u202e`); newline and tab stay.

    Terminal escapes, bidirectional overrides, zero-width, blank and private characters cannot act on a terminal or hide
    in a client.  A joiner between two visible characters stays, and one emoji selector behind one: emoji and several
    scripts are written with them.
    """
    if _PLAIN.match(text):
        return text
    return "".join(c if _stays(text, i, c) else _code(c) for i, c in enumerate(text))


def _stays(text: str, i: int, c: str) -> bool:
    if c in _KEPT:
        return True
    if c in _JOINERS:
        return 0 < i < len(text) - 1 and _shows(text[i - 1], _SELECTORS) and _shows(text[i + 1])
    if c in _SELECTORS:
        return i > 0 and _shows(text[i - 1])
    return _shows(c) or c == " "


def _shows(c: str, also: str = "") -> bool:
    if c in also:
        return True
    selector = "\ufe00" <= c <= "\ufe0f" or "\U000e0100" <= c <= "\U000e01ef"
    return not selector and not c.isspace() and c not in _BLANK and unicodedata.category(c) not in _HIDDEN


def _code(c: str) -> str:
    code = ord(c)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shorten(text: str, limit: int) -> str:
    """The text in at most `limit` bytes of UTF-8, cut at a character, the end marked with an ellipsis."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - 3].decode("utf-8", "ignore") + "…"
