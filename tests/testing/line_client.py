"""A bare exchange of JSON lines with a program, the real one or a fake, for tests that know nothing of our clients."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

Json: TypeAlias = dict[str, Any]

BOUND = 30.0
"""Seconds that any one wait may take."""


class LineClient:
    """A program that is written to and read from, line by line; `heard` is all that was read."""

    def __init__(self, argv: Sequence[str | Path], folder: Path, env: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(env),
            cwd=folder,
        )
        self.heard: list[Json] = []
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.ids: int = 0

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def send(self, message: Json) -> None:
        self.line(json.dumps(message).encode() + b"\n")

    def line(self, text: bytes) -> None:
        """Send bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def next(self) -> Json:
        line = self._lines.get(timeout=BOUND)
        assert line, f"the program has ended; it had said {self.heard}"
        self.heard.append(json.loads(line))
        return self.heard[-1]

    def until(self, so: Callable[[Json], object]) -> Json:
        while not so(message := self.next()):
            pass
        return message

    def said(self) -> str:
        """All that it says until it ends, as text."""
        return b"".join(iter(lambda: self._lines.get(timeout=BOUND), b"")).decode()

    def rest(self) -> list[Json]:
        """All that it says until it ends."""
        self.heard += [json.loads(line) for line in iter(lambda: self._lines.get(timeout=BOUND), b"")]
        return self.heard

    def close(self) -> int:
        """End its input; how it ended.  Again is the same."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            return self.process.wait(BOUND)
        finally:
            self.process.kill()  # nothing when it has ended
            self.process.wait(BOUND)
            self._reader.join(BOUND)
            assert not self._reader.is_alive(), "somebody it left behind holds its standard output"
            self.process.stdout.close()


AnyClient = TypeVar("AnyClient", bound=LineClient)


@contextmanager
def closing(client: AnyClient) -> Generator[AnyClient]:
    """A program, and its end."""
    try:
        yield client
    finally:
        client.close()
