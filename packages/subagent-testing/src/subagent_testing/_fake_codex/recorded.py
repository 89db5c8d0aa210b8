"""Messages as the real 0.163.0 wrote them, with `$names` for what differs each time."""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_codex*.py)

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from subagent_testing._fake.recorded import recorded

RECORDED: Mapping[str, Any] = recorded(__file__)
