"""`codex` as an app-server's client sees it: `--version`, `login status`, and `app-server`, which follows a script.

One thread, one loop: it waits for a line of the client, for a word of the test, or for the next moment, and then lets
every running list of steps go on as far as it can.
"""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_codex*.py)

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any, NoReturn, cast

from .play import Play
from .protocol import VERSION, Refused, Server, Unanswered, codex_home
from .running import Run
from .wire import Test, Wire, write_all

DEFAULTS: Mapping[str, list[Any]] = {
    "start": [],
    "EOF": [{"exit": 0}],
    "turn/start": ["answer", "turn"],
    "turn/start on a busy thread": ["answer", "user"],
    "turn/interrupt": ["answer", "interrupted"],
}
"""What happens when a script says nothing about it; a request is answered, a notification taken."""


class Fake:
    """An app-server at work."""

    def __init__(self, script: Mapping[str, Any], test: Test) -> None:
        self.script = script
        self.test = test
        self.wire = Wire()
        self.server = Server(script)
        self.turn_steps: list[Any] = script.get("turn", [{"message": "Hello from the fake."}])
        self.seen: dict[str, int] = {}
        self.answers: dict[str, Mapping[str, Any]] = {}
        self.asked: dict[str, str] = {}
        self.owed: dict[str, int] = {}
        """How many answers are still to come, for each id that was asked with."""
        self.wrote_raw = False
        self.asks = 0
        self.runs: list[Run] = []
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
        default = DEFAULTS.get(what, [] if request is None or "id" not in request else ["answer"])
        steps = default if lists is None else lists[min(times, len(lists)) - 1]
        run = Run(Play(self, request or {}), steps)
        self.runs.append(run)
        run.go_on()

    def _read(self) -> None:
        chunk = os.read(0, 1 << 20)
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            self._line(line)
        if not chunk:
            self._listening = False
            self.test.tell("EOF")
            self.happen("EOF")

    def _line(self, line: bytes) -> None:
        try:
            message: Any = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict) or not message.keys() & {"method", "result", "error"}:
            self.test.tell("noise", text=line.decode("utf-8", "replace"))
            write_all(2, b"ERROR codex_app_server_transport::transport: Failed to deserialize JSONRPCMessage\n")
            return
        heard = cast("dict[str, Any]", message)
        if "method" not in heard:
            key = json.dumps(heard.get("id"))
            self.test.tell("answer", message=heard)
            if self.owed.get(key):
                self.owed[key] -= 1
                self.answers.setdefault(key, heard)
            elif key in self.asked:
                self.test.tell("verdict", method=self.asked[key], answer=heard, wrong="was answered before")
            elif not self.wrote_raw:  # else it may be the answer to a request that nobody here has read
                self.test.tell("verdict", method="", answer=heard, wrong="answers no request")
            return
        method = str(heard["method"])
        self.test.tell(method, message=heard)
        if "id" not in heard:
            self.happen(method)
        elif heard["id"] is not None:  # the real one drops a request whose id is null
            self._asked(method, heard)

    def asks_with(self, request_id: object, method: str) -> str:
        """A request of ours goes out; under which name its answer is kept."""
        key = json.dumps(request_id)
        self.asked[key] = method
        self.owed[key] = self.owed.get(key, 0) + 1
        return key

    def _asked(self, method: str, request: Mapping[str, Any]) -> None:
        try:
            self.server.check(method, request)
            busy = method == "turn/start" and not self.server.threads[request["params"]["threadId"]].begin()
            self.happen("turn/start on a busy thread" if busy else method, request)
        except Refused as refused:
            self.wire.send({"error": refused.error, "id": request["id"]})
        except Unanswered:
            pass


def main(script_path: str, socket_path: str) -> None:
    """Do what the command line says."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with open(script_path, encoding="utf-8") as file:
        script = json.load(file)
    arguments = sys.argv[1:]
    test = Test(socket_path)
    mask = os.umask(0o077)
    os.umask(mask)
    test.tell("run", argv=sys.argv, env=dict(os.environ), cwd=os.getcwd(), umask=mask, descriptors=_descriptors(test))
    command = " ".join(arguments)
    if command in script.get("on", {}):
        Fake(script, test).serve(command, listening=False)
    if arguments[:1] == ["app-server"]:
        if os.path.isdir(codex_home()):
            signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))  # as the real one, also while it writes
            Fake(script, test).serve("start", listening=True)
        say(2, f'Error: CODEX_HOME points to "{codex_home()}", but that path does not exist', exit_code=1)
    if arguments == ["--version"]:
        say(1, f"codex-cli {script.get('version', VERSION)}", exit_code=0)
    if arguments == ["login", "status"]:
        if Server(script).signed_in:
            say(2, "Logged in using an API key - sk-fake***fake", exit_code=0)
        say(2, "Not logged in", exit_code=1)
    say(2, "Error: stdin is not a terminal", exit_code=1)


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
