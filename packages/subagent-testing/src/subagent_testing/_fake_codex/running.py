"""What the steps of an app-server are about: `Context`."""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_codex*.py)

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from subagent_testing._fake.recorded import fill
from subagent_testing._fake.verbs import Verbs

from .protocol import Thread, Turn

if TYPE_CHECKING:
    from .program import Fake


class Context(Verbs):
    """What steps are about: the request for which they run, its thread, its turn."""

    def __init__(self, fake: Fake, request: Mapping[str, Any]) -> None:
        super().__init__(fake)
        self.fake = fake
        self.server = fake.server
        self.request = request
        self.params: dict[str, Any] = request.get("params") or {}
        self.started: Thread | None = None
        self.turn = (self.thread.turn if self.thread else None) or Turn()

    @property
    def thread(self) -> Thread | None:
        """The thread that the request started or names."""
        return self.started or self.server.threads.get(str(self.params.get("threadId")))

    @property
    def folder(self) -> str:
        """The thread's, or else the one in which the process was started."""
        return self.thread.cwd if self.thread else os.getcwd()

    @property
    def place(self) -> dict[str, Any]:
        """What most notifications begin with."""
        return {"threadId": self.thread.id if self.thread else "", "turnId": self.turn.id}

    def filled(self, value: Any, **names: Any) -> Any:
        """A value of the script; `$thread`, `$turn`, `$request` and `$cwd` are those of this run."""
        place, cwd = self.place, self.thread.cwd if self.thread else ""
        own = {"thread": place["threadId"], "turn": place["turnId"], "cwd": cwd, "request": self.request.get("id")}
        return fill(value, **own, **names)
