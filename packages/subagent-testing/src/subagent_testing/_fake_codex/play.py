"""All the steps: those of a turn, those that write, and here those about answers, time, the test, and the process."""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_codex*.py)

from __future__ import annotations

import os
import signal
from typing import Any

from .protocol import INVALID_REQUEST
from .replies import REPLIES
from .running import Steps, Wait
from .turn_steps import TurnSteps


class Play(TurnSteps):
    """The verbs of a script: each is a method `do_VERB`."""

    def do_answer(self, members: Any) -> None:
        """The real one's answer, with these members in place of its own, and the notifications that follow it."""
        reply = REPLIES.get(str(self.request.get("method")))
        answer, after = ({}, []) if reply is None else reply(self)
        self.do_result({**answer, **(members or {})})
        for method, params in after:
            self.wire.notify(method, params)

    def do_result(self, result: Any) -> None:
        """Exactly this result."""
        self.wire.send({"id": self.request.get("id"), "result": self.filled(result)})

    def do_error(self, error: Any) -> None:
        """An error: {"code", "message", "data"}; the turn that it would have answered is none."""
        if self.request.get("method") == "turn/start" and self.thread is not None:
            self.thread.turn = None
        self.wire.send({"error": {"code": INVALID_REQUEST, "message": "", **error}, "id": self.request.get("id")})

    def do_overloaded(self, value: Any) -> None:
        """The error of a server that has too much to do."""
        self.do_error({"code": -32001, "message": "Server overloaded; retry later."})

    def do_wait(self, what: Any) -> Steps:
        """Until the client sends this method, or "EOF"."""
        before = self.fake.seen.get(what, 0)
        yield Wait(lambda: self.fake.seen.get(what, 0) > before)

    def do_gate(self, name: Any) -> Steps:
        """Until the test opens the gate; the test hears that somebody waits."""
        self.do_mark(name)
        yield Wait(lambda: name in self.fake.test.opened)

    def do_mark(self, name: Any) -> None:
        """The test hears that the script has come here."""
        self.fake.test.tell(name)

    def do_pause(self, seconds: Any) -> Steps:
        """So many seconds; others go on meanwhile."""
        yield Wait(lambda: False, seconds)

    def do_write(self, value: Any) -> None:
        """A file: {"path", "text"}, the path from the thread's folder."""
        folder = self.thread.cwd if self.thread else os.getcwd()
        with open(os.path.join(folder, value["path"]), "w", encoding="utf-8") as file:
            file.write(value["text"])

    def do_tick(self, seconds: Any) -> Steps:
        """An empty file `tick-N` in the thread's folder every so often, for ever."""
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


VERBS = frozenset(name.removeprefix("do_") for name in dir(Play) if name.startswith("do_"))
