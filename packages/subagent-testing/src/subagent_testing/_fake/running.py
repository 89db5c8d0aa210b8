"""How a list of steps goes on: `Run` drives it, `Wait` is what it waits for, `Loop` lets all of them go on.

One thread, one loop: it waits for a line of the client, for a word of the test, or for the next moment, and then lets
every running list of steps go on as far as it can.
"""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_*.py)

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from typing import Any, ClassVar, NoReturn

from .wire import Test, Wire, write_all


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


class Context(ABC):
    """What steps are about; each verb of a script is a method `do_VERB`."""

    run: Run

    def __init__(self, fake: Loop) -> None:
        self.loop = fake
        self.wire = fake.wire
        self.test = fake.test

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
    @abstractmethod
    def folder(self) -> str:
        """Where files are written."""

    @abstractmethod
    def filled(self, value: Any, **names: Any) -> Any:
        """A value of the script, what it names put in."""


class Loop(ABC):
    """A fake at work.

    Attributes:
        seen: how often each thing has happened.
        runs: the lists of steps that are under way.
        answers: what the client answered and nobody has taken yet, by the request's key.
        wrote_raw: bytes of the script went out, and nobody here has read whether they ask something.
    """

    defaults: ClassVar[Mapping[str, list[Any]]]
    """What happens when a script says nothing about it."""

    def __init__(self, script: Mapping[str, Any], test: Test) -> None:
        self.script = script
        self.test = test
        self.wire = Wire()
        self.seen: dict[str, int] = {}
        self.runs: list[Run] = []
        self.answers: dict[str, Mapping[str, Any]] = {}
        self.wrote_raw = False
        self._asked: dict[str, str] = {}
        self._owed: dict[str, int] = {}
        self._unread = b""
        self._listening = False

    def serve(self, first: str, *, listening: bool) -> NoReturn:
        """Do what the script has for this, and go on until something ends the process."""
        self._listening = listening
        self.happen(first)
        while True:
            while sum(run.go_on() for run in self.runs):
                pass
            self.runs = [run for run in self.runs if not run.over]
            moments = [run.at - time.monotonic() for run in self.runs if run.at is not None]
            inputs: list[Any] = [self.test.socket, *([0] if self._listening else [])]
            ready = select.select(inputs, [], [], max(0.0, min(moments)) if moments else None)[0]
            if self.test.socket in ready:
                self.test.hear()
            if 0 in ready:
                self._read()

    def happen(self, what: str, request: Mapping[str, Any] | None = None) -> None:
        """Start what the script has for the n-th time that this happens; its last list serves for all that follow."""
        times = self.seen[what] = self.seen.get(what, 0) + 1
        lists = self.script.get("on", {}).get(what)
        default = self.defaults.get(what, self.otherwise(request or {}))
        steps = default if lists is None else lists[min(times, len(lists)) - 1]
        run = Run(self.context(request or {}), steps)
        self.runs.append(run)
        run.go_on()

    @abstractmethod
    def context(self, request: Mapping[str, Any]) -> Context:
        """What the steps for a message of the client are about."""

    @abstractmethod
    def otherwise(self, request: Mapping[str, Any]) -> list[Any]:
        """What happens on a message for which neither the script nor `defaults` has anything."""

    @abstractmethod
    def line(self, line: bytes) -> None:
        """Take a line of the client."""

    @abstractmethod
    def request(self, message: Any) -> tuple[object, str] | None:
        """The id and the name of what a message of the script asks of the client; None when it asks nothing."""

    def asks_with(self, request_id: object, what: str) -> str:
        """A request of ours goes out; under which key its answer is kept."""
        key = json.dumps(request_id)
        self._asked[key] = what
        self._owed[key] = self._owed.get(key, 0) + 1
        return key

    def answered(self, request_id: object, answer: Mapping[str, Any]) -> None:
        """The client answers; what it does unasked gets its verdict here."""
        key = json.dumps(request_id)
        if self._owed.get(key):
            self._owed[key] -= 1
            self.answers.setdefault(key, answer)
        elif key in self._asked:
            self.test.tell("verdict", method=self._asked[key], answer=answer, wrong="was answered before")
        elif not self.wrote_raw:  # else it may be the answer to a request that nobody here has read
            self.test.tell("verdict", method="", answer=answer, wrong="answers no request")

    def _read(self) -> None:
        chunk = os.read(0, 1 << 20)
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            self.line(line)
        if not chunk:
            self._listening = False
            self.test.tell("EOF")
            self.happen("EOF")


def started(script_path: str, socket_path: str) -> tuple[dict[str, Any], Test]:
    """The script, and the test, which has heard how this process was started."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with open(script_path, encoding="utf-8") as file:
        script = json.load(file)
    test = Test(socket_path)
    mask = os.umask(0o077)
    os.umask(mask)
    test.tell("run", argv=sys.argv, env=dict(os.environ), cwd=os.getcwd(), umask=mask, descriptors=_descriptors(test))
    return script, test


def say(number: int, text: str, *, exit_code: int) -> NoReturn:
    """The last word."""
    write_all(number, f"{text}\n".encode())
    os._exit(exit_code)


def _descriptors(test: Test) -> list[int]:
    """What is open, but for the test's socket."""
    return [n for n in map(int, os.listdir("/dev/fd")) if n != test.socket.fileno() and _is_open(n)]


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:  # the one that listed the folder
        return False
    return True
