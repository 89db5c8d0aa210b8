"""All the steps: those of any program, those of a turn, those that write, and here those about answers."""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_codex*.py)

from __future__ import annotations

from typing import Any

from .protocol import INVALID_REQUEST
from .replies import REPLIES
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


VERBS = frozenset(name.removeprefix("do_") for name in dir(Play) if name.startswith("do_"))
