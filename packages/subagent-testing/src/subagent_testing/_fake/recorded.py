"""Messages as a real program wrote them, with `$names` for what differs each time; `fill` puts that in."""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_*.py)

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any, cast


def recorded(program: str) -> Mapping[str, Any]:
    """What is recorded beside this module of a program."""
    with open(os.path.join(os.path.dirname(program), "recorded.json"), encoding="utf-8") as file:
        return json.load(file)


def fill(template: Any, **names: Any) -> Any:
    """A copy in which each string `$NAME` is replaced by that value, and `$now` by the time in milliseconds."""
    return _fill(template, {"$now": int(time.time() * 1000), **{f"${name}": value for name, value in names.items()}})


def _fill(value: Any, names: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {name: _fill(member, names) for name, member in members.items()}
    if isinstance(value, list):
        elements = cast("list[Any]", value)
        return [_fill(element, names) for element in elements]
    return names.get(value, value) if isinstance(value, str) else value


def new_id() -> str:
    """A UUID of version 7, without the import: it takes longer than everything else here."""
    text = (int(time.time() * 1000).to_bytes(6, "big") + os.urandom(10)).hex()
    return f"{text[:8]}-{text[8:12]}-7{text[13:16]}-8{text[17:20]}-{text[20:]}"
