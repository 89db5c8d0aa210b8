"""Text that a child or a model wrote, made safe to show, and cut without breaking a character."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_KEPT: Final = "\n\t"
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_PLAIN: Final = re.compile(r"[\n\t\x20-\x7e]*\Z")
# Format characters that are part of ordinary writing: the joiners of emoji and of Indic and Persian words.
_WRITING: Final = frozenset("\u200c\u200d\ufe0f")


def visible(text: str) -> str:
    r"""The text with control and hidden characters shown as codes (`\x1b`, `\u202e`); newline and tab stay.

    Terminal escapes, bidirectional overrides, zero-width and private characters cannot act on a terminal or hide in
    a client.  Joiners between two visible characters stay: emoji and several scripts are written with them.
    """
    if _PLAIN.match(text):
        return text
    out: list[str] = []
    for i, c in enumerate(text):
        if c in _KEPT or unicodedata.category(c) not in _HIDDEN or (c in _WRITING and _between(text, i)):
            out.append(c)
        else:
            code = ord(c)
            out.append(f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return "".join(out)


def _between(text: str, i: int) -> bool:
    return 0 < i < len(text) - 1 and all(unicodedata.category(text[j])[0] in "LMS" for j in (i - 1, i + 1))


def shorten(text: str, limit: int) -> str:
    """The text in at most `limit` bytes of UTF-8, cut at a character, the end marked with an ellipsis."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - 3].decode("utf-8", "ignore") + "…"
