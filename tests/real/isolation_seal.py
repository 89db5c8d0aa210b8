"""Starts `isolation_sealed.py`, and reads what it saw."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

_PROGRAM: Final = Path(__file__).with_name("isolation_sealed.py")

OWN: Final = re.compile(r"/tmp/subagent-[0-9a-f]{8}/")
"""What is in the home of a run."""


@dataclass(frozen=True)
class Seen:
    """What `isolation_sealed.py` says."""

    result: str
    why: str
    names: list[str]
    contacted: list[str]
    asked: list[str]
    authorization: list[str]
    keys: list[str]
    during: list[str]
    after: list[str]


def sealed(engine: str, folder: Path, **order: Any) -> Seen:
    """A run of the engine as the order says, or a skip that names what is missing or not allowed here."""
    missing = [name for name in ("unshare", "ip", "mount", "openssl") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"a sealed run needs {', '.join(missing)}")
    order = {"engine": engine, "seconds": 0, **order}
    before = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    argv = [*before, sys.executable, str(_PROGRAM), str(folder)]
    done = subprocess.run(argv, input=json.dumps(order), capture_output=True, text=True, timeout=100, cwd=folder)
    if done.returncode != 0 and done.stderr.startswith("unshare: "):
        pytest.skip(f"no namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout)
    if "cannot" in said:
        pytest.skip(f"no sealed run here: {said['cannot']}")
    return Seen(**said)
