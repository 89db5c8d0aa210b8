"""Fixtures of the tests of the conformance kit."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest

# pytest's importlib mode puts no folder on the path, and the mutants are of no use to another area.
sys.path.insert(0, str(Path(__file__).parent))

from provider_mutants import HELD


@pytest.fixture(autouse=True)
def outside_of_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a repository a run is looked at before it begins, and these tests are about the moments of its beginning."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def held() -> Iterator[None]:
    """What mutants share or leak is let go after the test, and what they leak is found quickly."""
    with pytest.MonkeyPatch.context() as patch:
        for where in ("Snapshot.left", "tasks_left"):
            patch.setitem(resolve_name(f"subagent_testing.leaks.{where}").__kwdefaults__, "within", 0.3)
        yield
    for thing in HELD:
        match thing:
            case subprocess.Popen():
                thing.kill()
                thing.wait()
            case threading.Event():
                thing.set()
            case int():
                os.close(thing)
            case _:
                pass
    HELD.clear()
