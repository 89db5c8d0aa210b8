"""Steps that any program has: those about bytes, time, the test, files, and the process itself."""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_*.py)

from __future__ import annotations

import os
import signal
from typing import Any

from .running import Context, Steps, Wait
from .wire import write_all

STDERR_PIECE = 65536
"""Bytes of standard error after which others get their turn."""


class Verbs(Context):
    """What any script can do."""

    def do_send(self, message: Any) -> None:
        """A message as it is: a response with a foreign id, say."""
        message = self.filled(message)
        if request := self.loop.request(message):
            self.loop.asks_with(*request)
        self.wire.send(message)

    def do_raw(self, value: Any) -> None:
        """Bytes: a text, or {"text" or "hex", "times", "cuts"}, cut into writes at these offsets."""
        how: dict[str, Any] = {"text": value} if isinstance(value, str) else value
        self.loop.wrote_raw = True
        data = bytes.fromhex(how["hex"]) if "hex" in how else how["text"].encode()
        self.wire.write(data * int(how.get("times", 1)), how.get("cuts", ()))

    def do_wire(self, value: Any) -> None:
        """How lines are written from now on: {"end", "chunk", "gap"}; what is not named is as at first."""
        self.wire.end = value.get("end", "\n").encode()
        self.wire.chunk = int(value.get("chunk", 0))
        self.wire.gap = float(value.get("gap", 0))

    def do_mute(self, value: Any) -> None:
        """Nothing is said any more, whatever is asked."""
        self.wire.mute = True

    def do_stderr(self, value: Any) -> Steps:
        """A text; or {"text", "times"}, for ever when `times` is null."""
        how: dict[str, Any] = {"text": value} if isinstance(value, str) else value
        text, times = how["text"].encode(), how.get("times", 1)
        piece = max(1, STDERR_PIECE // len(text))
        while times is None or times > 0:
            write_all(2, text * (piece if times is None else min(piece, times)))
            times = None if times is None else times - piece
            yield Wait(lambda: True)

    def do_wait(self, what: Any) -> Steps:
        """Until the client sends this method, or "EOF"."""
        before = self.loop.seen.get(what, 0)
        yield Wait(lambda: self.loop.seen.get(what, 0) > before)

    def do_gate(self, name: Any) -> Steps:
        """Until the test opens the gate; the test hears that somebody waits."""
        self.do_mark(name)
        yield Wait(lambda: name in self.test.opened)

    def do_mark(self, name: Any) -> None:
        """The test hears that the script has come here."""
        self.test.tell(name)

    def do_pause(self, seconds: Any) -> Steps:
        """So many seconds; others go on meanwhile."""
        yield Wait(lambda: False, seconds)

    def do_write(self, value: Any) -> None:
        """A file: {"path", "text"}, the path from the working folder."""
        with open(os.path.join(self.folder, value["path"]), "w", encoding="utf-8") as file:
            file.write(value["text"])

    def do_tick(self, seconds: Any) -> Steps:
        """An empty file `tick-N` in the working folder every so often, for ever."""
        number = 0
        while True:
            self.do_write({"path": f"tick-{number}", "text": ""})
            number += 1
            yield Wait(lambda: False, seconds)

    def do_spawn(self, argv: Any) -> None:
        """Start a program that keeps our standard streams, and leave it alone."""
        os.posix_spawn(argv[0], argv, os.environ)

    def do_ignore(self, names: Any) -> None:
        """Signals that have no effect any more: ["SIGTERM"]."""
        for name in names:
            signal.signal(getattr(signal, name), signal.SIG_IGN)

    def do_signal(self, name: Any) -> None:
        """A signal to itself: "SIGSTOP", "SIGKILL"."""
        os.kill(os.getpid(), getattr(signal, name))

    def do_exit(self, code: Any) -> None:
        """The end of the process."""
        os._exit(code)
