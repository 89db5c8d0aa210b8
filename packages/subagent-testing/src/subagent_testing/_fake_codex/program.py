"""`codex` as an app-server's client sees it: `--version`, `login status`, and `app-server`, which follows a script."""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_codex*.py)

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
from .protocol import VERSION, Refused, Server, Unanswered, codex_home


class Fake(Loop):
    """An app-server at work."""

    defaults: ClassVar[Mapping[str, list[Any]]] = {
        "start": [],
        "EOF": [{"exit": 0}],
        "turn/start": ["answer", "turn"],
        "turn/start on a busy thread": ["answer", "user"],
        "turn/interrupt": ["answer", "interrupted"],
    }

    def __init__(self, script: Mapping[str, Any], test: Test) -> None:
        super().__init__(script, test)
        self.server = Server(script)
        self.turn_steps: list[Any] = script.get("turn", [{"message": "Hello from the fake."}])
        self.asks = 0

    def context(self, request: Mapping[str, Any]) -> Play:
        """The verbs of a script, for this request."""
        return Play(self, request)

    def otherwise(self, request: Mapping[str, Any]) -> list[Any]:
        """A request is answered, a notification taken."""
        return ["answer"] if "id" in request else []

    def line(self, line: bytes) -> None:
        """Take a message, or answer noise as the real one does."""
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
            self.test.tell("answer", message=heard)
            self.answered(heard.get("id"), heard)
            return
        method = str(heard["method"])
        self.test.tell(method, message=heard)
        if "id" not in heard:
            self.happen(method)
        elif heard["id"] is not None:  # the real one drops a request whose id is null
            self._request(method, heard)

    def request(self, message: Any) -> tuple[object, str] | None:
        """A request has a method and an id."""
        match message:
            case {"method": method, "id": request_id}:
                return request_id, str(method)
            case _:
                return None

    def _request(self, method: str, request: Mapping[str, Any]) -> None:
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
    script, test = started(script_path, socket_path)
    arguments = sys.argv[1:]
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
