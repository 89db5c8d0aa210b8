"""Looking into JSON from strangers: whatever is not of the expected shape is simply not there."""

from __future__ import annotations

import json
import re
from typing import cast

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parsed(text: str | bytes) -> object:
    """The value, or None when it is no JSON, or nested too deeply to be read.

    Half a surrogate pair, which JSON can spell and no text can hold, becomes U+FFFD: who encodes it would fail.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    try:
        value = json.loads(text)
        if _ESCAPED_SURROGATE.search(text):
            # Whole pairs have become one character each by now.
            value = json.loads(_SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False)))
    except (ValueError, RecursionError):
        return None
    return value


def table(value: object) -> dict[str, object]:
    """The object, empty when it is none."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    """The list, empty when it is none."""
    return cast("list[object]", value) if isinstance(value, list) else []


def count(value: object) -> int | None:
    """The number of things that it is, or None: True is an int to Python, and fewer than none is no number of them."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def at(value: object, *path: str | int) -> object:
    """What lies at the path of keys and indexes, or None."""
    for step in path:
        if isinstance(step, str):
            value = table(value).get(step)
        else:
            value = items(value)[step] if len(items(value)) > step else None
    return value
