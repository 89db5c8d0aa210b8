"""A harness of a test: `harness.py` as a process of its own, with a family as the child that it holds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio

from subagent_testing import Family

HARNESS = str(Path(__file__).with_name("harness.py"))


class Program:
    """Started when it is made, in a session of its own; killed with everything of it at the end.

    By plain means and not by `open_process`, which would end what the harness leaves, and so hide a survivor.
    """

    def __init__(self, family: Family, context: str, ending: str, mutant: str = "") -> None:
        order = {"context": context, "ending": ending, "argv": family.argv, "mutant": mutant}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, HARNESS, json.dumps(order)], text=True, start_new_session=True, stdin=pipe, stdout=pipe
        )
        up = self.hear("up")
        self.pid: int = up["up"]
        self._guard = os.pidfd_open(up["guard"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process as process:
            os.killpg(process.pid, signal.SIGKILL)  # its forks too; it is not reaped yet, so that the number is its own
        os.close(self._guard)

    def go(self) -> None:
        """The test has met the relatives."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def hear(self, word: str) -> dict[str, Any]:
        """The next of its lines that has this word."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if word in said:
                return said
        raise AssertionError(f"the harness ended and did not say {word!r}")

    def leave(self) -> None:
        """Let it come to its end, if it lives."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def helpers_end(self) -> None:
        """Wait for the end of the guard, which is the last of our helpers."""
        with anyio.fail_after(20):
            await anyio.wait_readable(self._guard)
