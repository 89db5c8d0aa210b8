"""A harness of a test: `harness.py` as a process of its own, with families as the children that it holds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio

from subagent_testing import Family

HARNESS, MACINTOSH = (str(Path(__file__).with_name(name)) for name in ("harness.py", "macintosh.py"))


class Program:
    """Started when it is made, in a session of its own; killed with everything of it at the end.

    By plain means and not by `open_process`, which would end what the harness leaves, and so hide a survivor.
    """

    def __init__(self, context: str, mutant: str = "", containment: str = "subreaper") -> None:
        order = json.dumps({"context": context, "mutant": mutant, "containment": containment})
        pipe, before = subprocess.PIPE, [MACINTOSH] if mutant == "macintosh" else []
        self._process = subprocess.Popen(
            [sys.executable, *before, HARNESS, order], text=True, start_new_session=True, stdin=pipe, stdout=pipe
        )
        self.pid: int = self.hear("ready")["ready"]
        self._guard = -1

    def start(self, family: Family, ending: str) -> None:
        """Have it start a family, which is to end in this way."""
        self._say(json.dumps({"ending": ending, "argv": family.argv}))
        guard = self.hear("up")["guard"]
        self._forget()
        with suppress(ProcessLookupError):  # it has ended with its harness already
            self._guard = os.pidfd_open(guard)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process as process:
            os.killpg(process.pid, signal.SIGKILL)  # its forks too; it is not reaped yet, so that the number is its own
        self._forget()

    def go(self) -> None:
        """The test has met the relatives."""
        self._say("go")

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

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _forget(self) -> None:
        if self._guard >= 0:
            os.close(self._guard)
        self._guard = -1

    async def helpers_end(self) -> None:
        """Wait for the end of the guard, which is the last of our helpers."""
        if self._guard < 0:
            return
        with anyio.fail_after(20):
            await anyio.wait_readable(self._guard)
