"""What the scripts of all model servers are made of, whatever their API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

JsonObject: TypeAlias = Mapping[str, Any]
"""JSON as it goes over the wire: an object, and whatever is in it."""


@dataclass(frozen=True, slots=True)
class Status:
    """An answer that is no stream; a body of bytes goes as it is."""

    code: int
    body: JsonObject | bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection ends."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The figures that the response reports."""

    figures: JsonObject
