"""How a list of steps goes on: `Run` drives it, `Wait` is what it waits for, `Context` what its steps are about."""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_codex*.py)

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

from .protocol import Thread, Turn
from .recorded import fill

if TYPE_CHECKING:
    from .program import Fake


class Wait:
    """Until something is so, and, where seconds are given, no longer than that."""

    def __init__(self, ready: Callable[[], bool], seconds: float | None = None) -> None:
        self._ready = ready
        self.at = None if seconds is None else time.monotonic() + seconds

    def over(self) -> bool:
        """Whether to go on."""
        return self._ready() or (self.at is not None and time.monotonic() >= self.at)


Steps = Generator[Wait, None, None]


class Run:
    """A list of steps on its way."""

    def __init__(self, context: Context, steps: list[Any]) -> None:
        self.context = context
        context.run = self
        self._steps = context.steps(steps)
        self._wait: Wait | None = None
        self._inside = False
        self.over = False

    @property
    def at(self) -> float | None:
        """The moment at which it wants to go on, whatever happens."""
        return self._wait.at if self._wait and not self.over else None

    def go_on(self) -> bool:
        """Go on as far as possible; whether it went on at all."""
        moved = False
        while not self.over and not self._inside and (self._wait is None or self._wait.over()):
            self._inside, moved = True, True
            self._wait = next(self._steps, None)
            self._inside = False
            self.over = self.over or self._wait is None
        return moved

    def stop(self) -> None:
        """No further step, once the one at work is done."""
        self.over = True


class Context:
    """What steps are about: the request for which they run, its thread, its turn."""

    run: Run

    def __init__(self, fake: Fake, request: Mapping[str, Any]) -> None:
        self.fake = fake
        self.wire = fake.wire
        self.server = fake.server
        self.request = request
        self.params: dict[str, Any] = request.get("params") or {}
        self.started: Thread | None = None
        self.turn = (self.thread.turn if self.thread else None) or Turn()

    def steps(self, steps: list[Any]) -> Steps:
        """All of them, one after the other: `"answer"` is `do_answer(None)`, `{"message": "hi"}` `do_message("hi")`."""
        for step in steps:
            verb, value = (step, None) if isinstance(step, str) else next(iter(step.items()))
            waits = getattr(self, f"do_{verb}")(value)
            if waits is not None:
                yield from waits
            if self.run.over:
                return

    @property
    def thread(self) -> Thread | None:
        """The thread that the request started or names."""
        return self.started or self.server.threads.get(str(self.params.get("threadId")))

    @property
    def place(self) -> dict[str, Any]:
        """What most notifications begin with."""
        return {"threadId": self.thread.id if self.thread else "", "turnId": self.turn.id}

    def filled(self, value: Any, **names: Any) -> Any:
        """A value of the script; `$thread`, `$turn`, `$request` and `$cwd` are those of this run."""
        place, cwd = self.place, self.thread.cwd if self.thread else ""
        own = {"thread": place["threadId"], "turn": place["turnId"], "cwd": cwd, "request": self.request.get("id")}
        return fill(value, **own, **names)
