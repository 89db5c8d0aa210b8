"""Characters and names: what hides, what falls together, how a path is shown."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

__all__ = ["code", "fold", "hidden", "shown"]

# Control, format (bidirectional, zero-width), surrogate, private, unassigned; line and paragraph separators.  Private
# ones because Cygwin, WSL and Samba keep `:` and its kin there; unassigned ones because what they will do is not known.
_HIDING: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks by their category, and shown as nothing: Unicode's Default_Ignorable_Code_Point; the blank Braille.
_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_PLAIN: Final = re.compile(r"[\x20-\x7e]*\Z")
_SHOWN: Final = 200


def hidden(text: str) -> str | None:
    """The first character that does not show, or that shows as a space and is none; None if all do."""
    if _PLAIN.match(text):
        return None
    return next((c for c in text if _hides(c)), None)


def _hides(c: str) -> bool:
    category = unicodedata.category(c)
    return category in _HIDING or (category == "Zs" and c != " ") or _BLANK.match(c) is not None


def code(c: str) -> str:
    """A character as `U+202E`."""
    return f"U+{ord(c):04X}"


def fold(name: str) -> str:
    """One form for all names that some file system takes for the same: case, composed and compatible forms.

    Coarser than any one of them (a dotless i is an i, a long s an s): what falls together here is refused, not merged.
    """
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).upper().casefold())


def shown(path: str) -> str:
    """A path for a message: in quotes, what hides as a code, and cut."""
    cut = path if len(path) <= _SHOWN else path[:_SHOWN] + "…"
    return "'" + "".join(f"<{code(c)}>" if _hides(c) else c for c in cut) + "'"
