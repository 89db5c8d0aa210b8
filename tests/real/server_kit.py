"""A scripted model server in a process of its own: here its threads and descriptors would count as left behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def served(program: str) -> Generator[str]:
    """The address that the program prints first; it ends with its standard input."""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        yield server.stdout.readline().decode().strip()
        assert server.stdin is not None
        server.stdin.close()
