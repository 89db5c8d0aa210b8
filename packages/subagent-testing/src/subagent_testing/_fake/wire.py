"""The two ends of the fake: the client's pipe, written as a script says, and the test's socket.

Every line goes out in writes of its own; nothing is buffered.
"""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_*.py)

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterable, Mapping
from itertools import pairwise


def dump(message: object) -> bytes:
    """JSON as the real one writes it: compact, its text unescaped."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


class Wire:
    """Standard output.

    Attributes:
        end: what ends a line; empty glues objects together.
        chunk: bytes for each write; 0 writes whole lines.
        gap: seconds between two writes of a line that is cut.
        mute: nothing is written any more.
    """

    def __init__(self) -> None:
        self.end = b"\n"
        self.chunk = 0
        self.gap = 0.0
        self.mute = False

    def send(self, message: Mapping[str, object]) -> None:
        """A message and the end of its line."""
        self.write(dump(message) + self.end)

    def notify(self, method: str, params: object) -> None:
        """A notification, with the time at which it was sent, as the real one's."""
        self.send({"method": method, "params": params, "emittedAtMs": int(time.time() * 1000)})

    def write(self, data: bytes, cuts: Iterable[int] = ()) -> None:
        """Bytes, cut at these offsets or else as `chunk` says."""
        if self.mute:
            return
        edges = list(cuts) or list(range(self.chunk, len(data), self.chunk) if self.chunk else ())
        for start, stop in pairwise([0, *edges, len(data)]):
            if start and self.gap:
                time.sleep(self.gap)
            write_all(1, data[start:stop])


def write_all(number: int, data: bytes) -> None:
    """Write to a descriptor until all is written; who no longer reads has ended, and so do we, as the real one."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(number, view) :]
    except BrokenPipeError:
        os._exit(0)


class Test:
    """The test that made this fake: it hears what happens, and opens gates.  When it ends, the fake ends.

    It has heard of something before the fake goes on: what a client sees later, the test knows already.
    """

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.opened: set[str] = set()
        self._unheard = 0
        self._unread = b""

    def tell(self, what: str, **members: object) -> None:
        """Tell it that something happened, and wait until it has heard."""
        self.socket.sendall(json.dumps({"what": what, "pid": os.getpid(), **members}).encode() + b"\n")
        self._unheard += 1
        while self._unheard:
            self.hear()

    def hear(self) -> None:
        """Take what it says, line by line: the name of a gate that it opens, or nothing: that it has heard."""
        heard = self.socket.recv(4096)
        if not heard:
            os._exit(0)
        *lines, self._unread = (self._unread + heard).split(b"\n")
        self._unheard -= lines.count(b"")
        self.opened.update(line.decode() for line in lines if line)
