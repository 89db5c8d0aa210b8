"""From an answer to new texts for files: exactly that, or nothing.

The grammar of the engine makes most of this true, and none of it is taken for granted: an answer is refused whole when
it is not the one JSON value that was asked for, names another file or one twice, repeats the boundary of the prompt but
as the first or the last tag around a file, or what looks like such a tag, changes nothing, or leaves nothing of a file.
What breaks the syntax of a file is judged afterwards (`syntax`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from subagent_local._json import items, table
from subagent_workspace import Rewrite, TextFile
from subagents import visible

_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_LIKE_A_TAG: Final = re.compile(r"</?file-[0-9a-f.\u2026]{3,}", re.IGNORECASE)


class Unusable(Exception):
    """Why an answer is refused whole."""


@dataclass(frozen=True, slots=True)
class Change:
    """What an answer wants: new texts for the files that change, and a word about it."""

    rewrites: tuple[Rewrite, ...]
    notes: str


def read_change(answer: str, write: Sequence[TextFile], boundary: str) -> Change:
    """The change that an answer describes.

    Args:
        answer: the text of the whole answer.
        write: the files that it may name.
        boundary: of the tags in the prompt.

    Raises:
        Unusable: it is refused, and why.
    """
    value = _value(answer)
    notes, entries = value.get("notes"), items(value.get("files"))
    if value.keys() != {"files", "notes"} or not isinstance(notes, str) or not entries:
        raise Unusable("it is not of the form {files: [{path, content}], notes}")
    files = {file.path: file for file in write}
    texts: dict[str, str] = {}
    for entry in map(table, entries):
        path, content = entry.get("path"), entry.get("content")
        if entry.keys() != {"path", "content"} or not isinstance(path, str) or not isinstance(content, str):
            raise Unusable("one of its files is not of the form {path, content}")
        if path not in files:
            raise Unusable(f"it names {visible(repr(path[:200]))}, which it was not given for writing")
        if path in texts:
            raise Unusable(f"it names {path} twice")
        texts[path] = _unwrapped(content, boundary)
    copied = any(
        set(_LIKE_A_TAG.findall(text)) - set(_LIKE_A_TAG.findall(files[path].text)) for path, text in texts.items()
    )
    if copied or any(boundary in text for text in (notes, *texts.values())):
        raise Unusable("it repeats the tags of the files in the middle of its text")
    changed = {path: text for path, text in texts.items() if _changes(files[path], text)}
    if not changed:
        raise Unusable("it leaves every file as it is")
    for path, text in changed.items():
        _check_text(files[path], text)
    return Change(tuple(Rewrite(files[path], text) for path, text in changed.items()), notes)


def _value(answer: str) -> dict[str, object]:
    try:
        return table(json.loads(answer, object_pairs_hook=_once))
    except (ValueError, RecursionError):
        raise Unusable("it is no JSON") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unusable("one of its objects has a key twice")
    return found


def _unwrapped(content: str, boundary: str) -> str:
    """The text without the tag before and the tag behind it, where the model has copied them."""
    content = re.sub(rf"\A\s*<file-{boundary}[^>\n]*>\n?", "", content)
    return re.sub(rf"\n?</file-{boundary}>\s*\Z", "\n", content)


def _changes(file: TextFile, text: str) -> bool:
    """Whether the file will differ: line ends, BOM and one line end at the end are kept as they are."""
    return not file.exists or _lines(text) != _lines(file.text)


def _lines(text: str) -> list[str]:
    lines = _LINE_END.split(text.removeprefix("\ufeff"))
    return lines if lines[-1] else lines[:-1]


def _check_text(file: TextFile, text: str) -> None:
    if re.search("[\0\ud800-\udfff]", text):
        raise Unusable(f"its text for {file.path} holds a character that no text file can hold")
    if "\ufffd" in text and "\ufffd" not in file.text:  # bytes of the stream that were no UTF-8, or half a pair
        raise Unusable(f"its text for {file.path} came broken: a character of it could not be read")
    if file.text.strip() and not text.strip():
        raise Unusable(f"it leaves nothing of {file.path}")
