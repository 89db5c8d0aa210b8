"""The page about testing says what is true: its examples run, and its table is the kit's."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from subagent_testing import provider_checks

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
FILES: dict[str, str] = dict(re.findall(r"^```python file=(\S+)\n(.*?)^```", PAGE, re.M | re.S))


def _run(folder: Path, *argv: str, timeout: float = 60) -> list[str]:
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, *argv], cwd=folder, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_the_table_of_promises_is_the_kits() -> None:
    rows = [f"| `{c.promise.name}` | {c.promise.says} |" for c in provider_checks(["asyncio"])]
    assert re.findall(r"^\| `[a-z-]+` \| [A-Z`].*$", PAGE.partition("## The promises")[2], re.M) == rows


@pytest.mark.long
def test_the_provider_of_the_page_keeps_every_promise(tmp_path: Path) -> None:
    kept, *skipped = _run(tmp_path, "check_echo.py", timeout=110)
    assert [line.partition(": ")[2] for line in skipped] == ["only asyncio has raw cancellation"] * 2
    assert kept == f"{len(provider_checks()) - 2} kept"


@pytest.mark.long
def test_the_provider_of_the_page_keeps_some_promises_as_tests(tmp_path: Path) -> None:
    *_, last = _run(tmp_path, "-m", "pytest", "-q", "-p", "no:asyncio", "-k", "completes or dropped or failed or asked")
    assert re.match(r"6 passed, 78 deselected", last), last


def test_the_scripted_provider_of_the_page_does_what_the_page_says(tmp_path: Path) -> None:
    first, second = _run(tmp_path, "use_scripted.py")
    assert first == "done while teardown goes on: True"
    assert "kind='auth'" in second


def test_the_family_of_the_page_is_alive_and_then_it_is_not(tmp_path: Path) -> None:
    assert _run(tmp_path, "use_family.py") == [
        "alive: leader same-group deaf own-group own-session daemon bare-daemon",
        "alive:",
    ]
