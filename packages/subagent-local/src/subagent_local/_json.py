"""Looking into JSON from strangers: whatever is not of the expected shape is simply not there."""

from __future__ import annotations

import json
from typing import cast


def parsed(text: str | bytes) -> object:
    """The value, or None when it is no JSON, or nested too deeply to be read."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def table(value: object) -> dict[str, object]:
    """The object, empty when it is none."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    """The list, empty when it is none."""
    return cast("list[object]", value) if isinstance(value, list) else []


def at(value: object, *path: str | int) -> object:
    """What lies at the path of keys and indexes, or None."""
    for step in path:
        if isinstance(step, str):
            value = table(value).get(step)
        else:
            value = items(value)[step] if len(items(value)) > step else None
    return value
