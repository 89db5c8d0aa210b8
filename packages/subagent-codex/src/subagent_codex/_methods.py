"""The part of the app-server's protocol that this package speaks or knows, as data.

`tools/codex_schema.py` compares it with the schema that a `codex` generates of itself. What is not listed here may
still arrive: it is passed over, and counted.
"""

from __future__ import annotations

from typing import Final

PINNED: Final = "0.163.0"
"""The version of `codex` that these tables, and the facts of RFC 0004, hold for."""
