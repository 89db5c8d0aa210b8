"""Every example runs, and prints what it is there to show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTS = {
    "own_provider.py": ["completed - GOOD MORNING, HOUSE", "left behind: nothing"],
    "many_at_once.py": ["ls: done", "rm -rf build: nothing is removed here", "make: done"],
}


def test_every_example_is_run() -> None:
    assert {p.name for p in EXAMPLES.glob("*.py")} == set(PRINTS)


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_prints_what_it_is_there_to_show(name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, timeout=60, check=True
    )
    assert sorted(done.stdout.splitlines()) == sorted(PRINTS[name])
    assert done.stderr == ""
