r"""The text of a file apart from its form (BOM, line ends, final newline), and new text in the old form.

The rules, for a text that replaces that of a file:

- The BOM stays as it was; one in the text counts for nothing.
- A line end is `\n`, `\r\n` or a lone `\r`, in the file and in the text.  A file that has one kind gets only that
  kind.  In a file that mixes them a line that stays keeps its own, and a new one gets the kind that the file has most
  of.  A new file, and one without any line end, gets `\n`.
- The file ends as it did: with a line end if it had one, without if it had none.  One line end at the end of the text
  counts for nothing; further ones are empty lines.  A new file, and one that was empty, ends with a line end, unless
  the text is empty.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

from subagent_workspace._diff import blocks
from subagent_workspace._open import Unfit

__all__ = ["Form", "in_form", "parse"]

_BOM: Final = "\ufeff"
_END: Final = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Form:
    """How a text stands in its file."""

    lines: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()  # of each line; the last may be ""
    bom: bool = False

    @property
    def newline(self) -> str:
        """The most frequent line end; of two that are equally frequent, the first."""
        found = Counter(filter(None, self.ends)).most_common(1)
        return found[0][0] if found else "\n"

    @property
    def mixed(self) -> bool:
        """Whether there is more than one kind of line end."""
        return len(set(filter(None, self.ends))) > 1

    @property
    def final_newline(self) -> bool:
        """Whether the last line has a line end; true where there is no line."""
        return not self.ends or self.ends[-1] != ""

    @property
    def text(self) -> str:
        """Without BOM, with every line end as a newline."""
        return "".join(line + ("\n" if end else "") for line, end in zip(self.lines, self.ends, strict=True))


def parse(data: bytes) -> Form:
    """The text of a file.

    Raises:
        Unfit: it is not UTF-8, or holds a NUL.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        raise Unfit(f"it is not UTF-8 (at byte {exc.start:,})") from None
    if (at := data.find(b"\0")) >= 0:
        raise Unfit(f"it is no text: it holds a NUL (at byte {at:,})")
    lines, ends = _split(text.removeprefix(_BOM))
    return Form(tuple(lines), tuple(ends), text.startswith(_BOM))


def in_form(text: str, old: Form) -> bytes:
    """The bytes of a new text in the form of an old one (the rules stand above).

    Raises:
        Unfit: the text holds a NUL or a lone surrogate: it cannot stand in a text file.
    """
    if "\0" in text:
        raise Unfit("the new text holds a NUL")
    lines, ends = _split(text.removeprefix(_BOM))
    ends = [old.newline] * len(lines)
    if old.mixed:
        for i, j, size in blocks(old.lines, lines):
            ends[j : j + size] = [end or old.newline for end in old.ends[i : i + size]]
    if ends and not old.final_newline:
        ends[-1] = ""
    joined = "".join(line + end for line, end in zip(lines, ends, strict=True))
    try:
        return ((_BOM if old.bom else "") + joined).encode()
    except UnicodeEncodeError as exc:
        raise Unfit(f"the new text holds half of a character (U+{ord(joined[exc.start]):04X})") from None


def _split(text: str) -> tuple[list[str], list[str]]:
    ends = _END.findall(text)
    lines = _END.split(text)
    if lines[-1]:
        ends.append("")
    else:
        lines.pop()
    return lines, ends
