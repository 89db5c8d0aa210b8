"""What people can configure: names, defaults, errors and help come from this one model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field


class ParrotOptions(BaseModel):
    """What a `Parrot` can be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    voice: Literal["plain", "loud"] = Field("plain", description="loud: in capitals")
    executable: Path = Field(Path(sys.executable), description="the Python that runs the parrot")


class ParrotFields(TypedDict, total=False):
    """The same as keyword arguments, for type checkers."""

    voice: Literal["plain", "loud"]
    executable: Path
