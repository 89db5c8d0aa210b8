"""A folder outside of a home, which the removal of the home must not touch (the fixture `victim`)."""

from __future__ import annotations

import stat
from pathlib import Path


def unharmed(victim: Path) -> bool:
    file = victim / "keep.txt"
    return (
        file.read_text() == "precious"
        and stat.S_IMODE(file.stat().st_mode) == 0o640
        and stat.S_IMODE(victim.stat().st_mode) == 0o750
    )
