"""`claude` as its client sees it: `--version`, `auth status --json`, and a session on standard input and output."""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_claude*.py)

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from subagent_testing._fake.running import Loop, say, started
from subagent_testing._fake.wire import Test, write_all

from .play import Play
from .session import VERSION, Session, auth_status


class Fake(Loop):
    """A session at work.

    Attributes:
        pending: what was asked and not answered yet.
    """

    defaults: ClassVar[Mapping[str, list[Any]]] = {
        "start": [],
        "EOF": ["end"],
        "user": ["turn"],
        "interrupt": ["withdraw", "answer", "interrupted"],
        "end_session": ["answer", {"exit": 0}],
    }

    def __init__(self, script: Mapping[str, Any], test: Test) -> None:
        super().__init__(script, test)
        self.session = Session(script, sys.argv[1:])
        self.turn_steps: list[Any] = script.get("turn", [{"text": "Hello from the fake."}])
        self.pending: list[str] = []

    def context(self, request: Mapping[str, Any]) -> Play:
        """The verbs of a script, for this message."""
        return Play(self, request)

    def otherwise(self, request: Mapping[str, Any]) -> list[Any]:
        """A control request is answered, all else taken."""
        return ["answer"] if request.get("type") == "control_request" else []

    def line(self, line: bytes) -> None:
        """Take a message; what is no JSON is the end, as in the real one, and what is no message is ignored."""
        if not line.strip():
            return
        try:
            message: Any = json.loads(line)
        except ValueError:
            self.test.tell("noise", text=line.decode("utf-8", "replace"))
            write_all(2, b"Error parsing streaming input line\n")
            os._exit(1)
        if not isinstance(message, dict) or not isinstance(cast("dict[str, Any]", message).get("type"), str):
            self.test.tell("noise", text=line.decode("utf-8", "replace"))
            return
        heard = cast("dict[str, Any]", message)
        match heard:
            case {"type": "control_response", "response": {"request_id": request_id}}:
                self.test.tell("answer", message=heard)
                self.answered(request_id, heard["response"])
                self.pending = [each for each in self.pending if each != request_id]
            case {"type": "control_request", "request": {"subtype": str(subtype)}}:
                self.test.tell(subtype, message=heard)
                self.happen(subtype, heard)
            case {"type": "user"}:
                self.test.tell("user", message=heard)
                if self.session.busy:
                    self.session.queue.append(heard)
                else:
                    self.happen("user", heard)
            case _:
                self.test.tell(heard["type"], message=heard)

    def request(self, message: Any) -> tuple[object, str] | None:
        """A request says so, and has an id."""
        match message:
            case {"type": "control_request", "request_id": request_id, "request": {"subtype": subtype}}:
                return request_id, str(subtype)
            case _:
                return None


def main(script_path: str, socket_path: str) -> None:
    """Do what the command line says."""
    script, test = started(script_path, socket_path)
    arguments = sys.argv[1:]
    command = " ".join(arguments)
    if command in script.get("on", {}):
        Fake(script, test).serve(command, listening=False)
    session = Session(script, arguments)
    if session.option("--input-format") == "stream-json":
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(143))  # as the real one, also while it writes
        Fake(script, test).serve("start", listening=True)
    if command in {"--version", "-v"}:
        say(1, f"{script.get('version', VERSION)} (Claude Code)", exit_code=0)
    if command == "auth status --json":
        signed_in = bool(script.get("signed_in", "ANTHROPIC_API_KEY" in os.environ))
        told = auth_status(session.config, signed_in=signed_in)
        say(1, json.dumps(told, indent=2), exit_code=0 if signed_in else 1)
    say(2, "Error: Input must be provided through stdin", exit_code=1)
