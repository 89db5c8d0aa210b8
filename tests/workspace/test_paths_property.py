"""The decision about a path, against a rule that was written in another way."""

# ruff: noqa: RUF001  # names that look alike are the subject

from __future__ import annotations

import random
import unicodedata
from contextlib import nullcontext
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subagent_workspace.errors import PathsRefused
from subagent_workspace.paths import check_paths, refusal

SEED = 20_261_201
# From Unicode's DerivedCoreProperties.txt, Default_Ignorable_Code_Point, those that str.isprintable lets pass.
IGNORABLE = {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x3164, 0xFFA0}.union(
    range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0)
)
DEVICES = {"con", "prn", "aux", "nul", "conin$", "conout$", "clock$"} | {
    f"{d}{n}" for d in ("com", "lpt") for n in range(10)
}


def allowed(path: str) -> bool:
    """The rule once more: by characters, sizes and sets, with the path classes of Python as witnesses."""
    if not path or not path.isprintable() or any(ord(c) in IGNORABLE for c in path):
        return False
    if any(c in path for c in '\\:<>"|?*') or path[0] in "/~" or path[-1] == "/":
        return False
    pure = PurePosixPath(path)
    if pure.is_absolute() or PureWindowsPath(path).is_absolute() or str(pure) != path:  # // and . go in `pure`
        return False
    parts = pure.parts
    if any(part != part.strip(" ") or part.endswith(".") or len(part.encode("utf-8")) > 255 for part in parts):
        return False
    return sum(len(part.encode()) + 1 for part in parts) - 1 <= 4096 and not any(map(reserved, folded(path)))


def folded(path: str) -> list[str]:
    letters = unicodedata.normalize("NFKC", path).replace("\\", "/").upper().lower()
    return unicodedata.normalize("NFKC", letters.casefold()).split("/")


def reserved(part: str) -> bool:
    if part and not part.strip(". "):
        return True
    head = part.partition(":")[0]
    if head.rstrip(". ") == ".git" or head.partition(".")[0].rstrip(" ") in DEVICES:
        return True
    stem, dot, extension = part.partition(".")
    name, tilde, number = stem.partition("~")
    short = bool(tilde) and 1 <= len(name) <= 6 and number.isascii() and number.isdigit() and len(stem) <= 8
    return short and len(extension) <= 3 and "." not in extension and (bool(dot) or not extension)


NASTY = [
    *("", ".", "..", "...", "~", " ", "/", "\\", ":", "C:", "a", "b.py", "é", "e\u0301", "日本", "😀", "x" * 254),
    *("ü" * 127),
    *(".git", ".GIT", ".Git", "git~1", "GIT~2", "gi7eba~1", ".gi", "t", "::$INDEX_ALLOCATION", "．", "․", "ｇｉｔ"),
    *("ı", "İ"),
    *("con", "NUL", "aux", "com1", "COM¹", "lpt9", "com10", "CONIN$", "①", ".txt", ".tar.gz", "$", "0", "9"),
    *("~1", "~12"),
    *("\0", "\n", "\t", "\x1b", "\x7f", "\x85", "\u202e", "\u200b", "\u200d", "\ufeff", "\u2028", "\ud800"),
    *("\udcff", "\ue000"),
    *("\u00a0", "\u3000", "\u3164", "\u2800", "\ufe0f", "\u034f", "\U000e0101", "\u0378", "\uffff", "／", "＼"),
    *("：", "…", "℀"),
    *("?", "*", "|", "<", ">", '"', "'", "-", "_", "%2e", "ß", "ſ", "K", "ﬁ", "µ", "ς"),
]  # fmt: skip


def generated(rng: random.Random) -> str:
    joints = rng.choice(["/", "/", "/", "", "", "//", "\\", "/./", ". ", "."])
    pieces = [
        rng.choice(NASTY) if rng.random() < 0.45 else rng.choice(["a", "src", "main.py", "x-y_z", "日本", "Q", "é.md"])
        for _ in range(rng.choice([1, 1, 2, 2, 3, 4, 9]))
    ]
    if rng.random() < 0.1:
        pieces.append(chr(rng.randrange(0x110000)))
    return joints.join(pieces)


def test_ten_thousand_generated_paths_are_decided_as_by_a_rule_written_differently() -> None:
    rng = random.Random(SEED)
    decided = {path: refusal(path) for path in (generated(rng) for _ in range(10_000))}
    assert [path for path, reason in decided.items() if (reason is None) != allowed(path)] == []
    accepted = sum(reason is None for reason in decided.values())
    assert len(decided) * 0.1 < accepted < len(decided) * 0.6  # neither side is empty talk


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.text(), st.sampled_from(NASTY)), max_size=5).map("/".join))
def test_whatever_text_comes_is_decided_as_by_a_rule_written_differently(path: str) -> None:
    assert (refusal(path) is None) == allowed(path)


@settings(deadline=None)
@given(st.lists(st.one_of(st.text(max_size=3), st.sampled_from(NASTY)).filter(allowed), max_size=8))
def test_of_several_paths_those_that_fall_together_are_refused(paths: list[str]) -> None:
    keys = [tuple(folded(path)) for path in paths]
    apart = len(set(keys)) == len(keys) and not any(a != b and a == b[: len(a)] for a in keys for b in keys)
    with nullcontext() if apart else pytest.raises(PathsRefused, match="Refused"):
        check_paths(paths)


@pytest.mark.long
def test_every_single_character_is_decided_alike() -> None:
    wrong = [i for i in range(0x110000) if (refusal(f"a{chr(i)}b") is None) != allowed(f"a{chr(i)}b")]
    assert wrong == []
