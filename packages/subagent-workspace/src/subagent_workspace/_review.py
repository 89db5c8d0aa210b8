"""What a person should see of a file that was rewritten: its diff, and what looks like lost work."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from subagent_workspace._diff import unified
from subagent_workspace._names import code, hidden, shown
from subagent_workspace._text import Form

__all__ = ["Written", "review"]

_DIFF: Final = 65_536  # characters
_TOLD: Final = 5  # warnings of a kind
_LINE: Final = 120  # characters of a line that a warning repeats

_THING: Final = r"(code|file|function|method|class|content|implementation|import|logic|test|line|definition|section)s?"
_KEPT: Final = r"(unchanged|omitted|elided|truncated|snip|snipped|skipped|not shown|the same)"
_OLD: Final = r"(existing|remaining|rest|previous|original|(all )?other|more)"
# What a model writes for code that it leaves out, behind a comment sign or inside of brackets; without regard to case.
_LEFT_OUT: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"^(\.{3,}|…)$",
        rf"^(?=.*(\.{{3}}|…)).*\b({_OLD}|{_KEPT}|remains?|code|as before)\b",
        rf"\brest of (the |this |your )?(\w+ )?{_THING}\b",
        r"\brest (remains|stays|is)\b",
        rf"^(the )?(existing|remaining|unchanged) (\w+ )?{_THING}$",
        rf"^(the )?{_OLD} (\w+ )?{_THING} (goes |stays? |remains? |is |are )?(here|as is|as before|{_KEPT})\b",
        rf"^(the )?{_OLD} (\w+ )?{_THING} (remains?|stays?)$",
        rf"^(your|add|insert|put) (\w+ )?{_THING} here\b",
        rf"^(no changes?|{_KEPT})( {_THING})?( here| from here| below| above)?$",
        rf"\b{_THING} ((is|are|remains?|stays?) )?{_KEPT}\b",
        r"\bomitted for (brevity|clarity)\b",
        r"\bsame as (before|above|(in )?the original)\b",
    )
)
_SIGNS: Final = ("#+", "//+", r"/\*+", r"\{/\*+", "<!--+", "--+", ";+", "%+", r"\*+", '"{3}', "'{3}")
_SIGN: Final = re.compile(rf"^\s*({'|'.join(_SIGNS)})[\s<\[({{]*")
_BRACKET: Final = re.compile(r"^\s*[<\[({]+\s*(?!.*\.{3}\w)")  # not { ...state }
_DOTS: Final = re.compile(r"^\s*(\.{3,}|…)\s*$")


@dataclass(frozen=True, slots=True)
class Written:
    r"""What became of one file of a rewrite.

    Attributes:
        path: as it was given.
        status: `added`, `modified`, or `unchanged`: the bytes were the same, and the file was not touched.
        lines_before: 0 for a file that is new.
        lines_after: a last line without a line end counts.
        diff: unified, with `\n` as line end, at most 65,536 characters; "" where nothing or only the form of
            line ends changed.  It is text that a model wrote: show control and hidden characters as codes.
        warnings: for a person, each a sentence: a line that looks like a placeholder for code left out, more than half
            of the lines lost, a hidden character that the file did not hold, what could not be kept or removed.
    """

    path: str
    status: Literal["added", "modified", "unchanged"]
    lines_before: int
    lines_after: int
    diff: str = ""
    warnings: tuple[str, ...] = ()


def review(path: str, old: Form | None, new: Form, *, unchanged: bool = False) -> Written:
    """How a file changed from one text to another; `old` is None for a file that is new."""
    before = old or Form()
    status = "added" if old is None else "unchanged" if unchanged else "modified"
    if unchanged:
        return Written(path, status, len(before.lines), len(new.lines))
    diff = unified(
        *(_lines(before), _lines(new)),
        names=("/dev/null" if old is None else f"a/{path}", f"b/{path}"),
        limit=_DIFF,
    )
    found = [*_few(_placeholders(before.lines, new.lines)), *_few(_hidden(before.text, new.lines)), *_lost(before, new)]
    return Written(path, status, len(before.lines), len(new.lines), diff, tuple(found))


def _lines(form: Form) -> list[str]:
    return [line + ("\n" if end else "") for line, end in zip(form.lines, form.ends, strict=True)]


def _few(warnings: Iterable[str]) -> Iterator[str]:
    found = list(warnings)
    yield from found[:_TOLD]
    if len(found) > _TOLD:
        yield f"… and {len(found) - _TOLD} more of this kind"


def _placeholders(old: tuple[str, ...], new: tuple[str, ...]) -> Iterator[str]:
    known = {line.strip() for line in old}
    for number, line in enumerate(new, 1):
        if line.strip() not in known and stands_for_more(line):
            yield f"line {number} looks like a placeholder for code left out: {shown(line.strip()[:_LINE])}"


def stands_for_more(line: str) -> bool:
    """Whether a line looks like what a model writes for code: `# ... rest of the code`, `<unchanged>`, `...`."""
    line = line[:500]  # the patterns are for what a person reads
    if _DOTS.match(line):
        return True
    if (sign := _SIGN.match(line) or _BRACKET.match(line)) is None:
        return False
    said = line[sign.end() :].rstrip(" \t*/->\"'}])")
    return any(pattern.search(text) for pattern in _LEFT_OUT for text in (said, said.rstrip(".!…").rstrip()))


def _hidden(old: str, new: tuple[str, ...]) -> Iterator[str]:
    for number, line in enumerate(new, 1):
        if (c := hidden(line.replace("\t", " "))) is not None and c not in old:
            yield f"line {number} holds a character that does not show ({code(c)}), and the file held none"


def _lost(old: Form, new: Form) -> Iterator[str]:
    before, after = (sum(bool(line.strip()) for line in form.lines) for form in (old, new))
    if after * 2 < before:
        yield f"more than half of the lines are gone: {before} that are not empty became {after}"
