"""Reading values out of messages of which nothing is certain.

No models here: a model refuses a whole message for one field of another type, and what is left of it is what a
follower wants to see. A field that is missing or of the wrong type is empty, and nothing raises.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final, TypeAlias, cast

JsonObject: TypeAlias = dict[str, object]

OUTPUT_BYTES: Final = 4096
"""How much of an output is kept: its end."""
_TITLE: Final = 160
_BIG: Final = 1 << 63
_LOOKED_AT: Final = 4096  # characters of a text of which one line is made


def text_in(table: JsonObject, name: str) -> str:
    """The text of that name, or an empty one."""
    value = table.get(name)
    return value if isinstance(value, str) else ""


def number_in(table: JsonObject, name: str) -> int | None:
    """The integer of that name, of at most 64 bits; a boolean is none."""
    value = table.get(name)
    return value if type(value) is int and -_BIG <= value < _BIG else None


def amount_in(table: JsonObject, name: str) -> float | None:
    """The finite number of that name, from 0; a boolean is none."""
    value = table.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= sys.float_info.max:
        return None
    return float(value)


def object_in(table: JsonObject, name: str) -> JsonObject:
    """The object of that name, or an empty one."""
    value = table.get(name)
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def objects_in(table: JsonObject, name: str) -> list[JsonObject]:
    """The objects in the array of that name; whatever else is in it is left out."""
    return [cast("JsonObject", entry) for entry in _array(table, name) if isinstance(entry, dict)]


def texts_in(table: JsonObject, name: str) -> list[str]:
    """The texts in the array of that name; whatever else is in it is left out."""
    return [entry for entry in _array(table, name) if isinstance(entry, str)]


def _array(table: JsonObject, name: str) -> list[object]:
    value = table.get(name)
    return cast("list[object]", value) if isinstance(value, list) else []


def one_line(text: str) -> str:
    """The text as one line for a person, cut at 160 characters."""
    line = " ".join(text[:_LOOKED_AT].split())
    return line if len(line) <= _TITLE else line[: _TITLE - 1] + "…"


def tail(text: str) -> str:
    """The end of a text, at most 4,096 bytes of UTF-8, cut at a character."""
    data = text[-OUTPUT_BYTES:].encode("utf-8", "replace")
    return data[-OUTPUT_BYTES:].decode("utf-8", "ignore")


def listed(texts: Iterable[str], shown: int = 3) -> str:
    """`a, b, c and 4 more`."""
    found = list(texts)
    more = len(found) - shown
    return ", ".join(found[:shown]) + (f" and {more} more" if more > 0 else "")
