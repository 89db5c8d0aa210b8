"""What the tests of the Claude Code engine share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# pytest's importlib mode puts no folder on the path, and the helpers of this area are of no use to another one.
sys.path.insert(0, str(Path(__file__).parent))

_LONG_ON_TRIO = {
    "test_cases_process.py",
    "test_load_lines.py",
    "test_load_many.py",
    "test_drive_fake.py",
    "test_turns.py",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each of these starts a process and the SDK's client: on trio they run with the long tests."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and item.path.name in _LONG_ON_TRIO and "trio" in item.name.partition("[")[2]:
            item.add_marker(pytest.mark.long)
