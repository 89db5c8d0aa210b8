"""What steps are about, and those that write: messages of the script, and requests of `claude` to its client."""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_claude*.py)

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from subagent_testing._fake.recorded import fill, new_id, recorded
from subagent_testing._fake.running import Steps, Wait
from subagent_testing._fake.verbs import Verbs
from subagent_testing._fake.wire import dump

from . import answers

if TYPE_CHECKING:
    from .program import Fake

RECORDED: Mapping[str, Any] = recorded(__file__)

ASKED: Mapping[str, Mapping[str, Any]] = {
    "can_use_tool": {
        "tool_name": "Bash",
        "display_name": "Bash",
        "input": {"command": "touch x", "description": "make a file"},
        "description": "make a file",
        "permission_suggestions": [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}],
        "blocked_path": "$cwd",
        "tool_use_id": "$uuid",
    },
    "hook_callback": {"callback_id": "hook_0", "input": {"session_id": "$session", "cwd": "$cwd"}, "tool_use_id": None},
    "mcp_message": {"server_name": "fake", "message": {"method": "tools/list", "jsonrpc": "2.0", "id": 1}},
}
"""The members of what it asks, when the script names none."""


class WireSteps(Verbs):
    """What a script writes itself."""

    def __init__(self, fake: Fake, request: Mapping[str, Any]) -> None:
        super().__init__(fake)
        self.fake = fake
        self.session = fake.session
        self.request = request

    @property
    def folder(self) -> str:
        """Where the process was started."""
        return os.getcwd()

    def filled(self, value: Any, **names: Any) -> Any:
        """A value of the script; `$session`, `$cwd`, `$model`, `$mode`, `$request` and `$uuid` put in."""
        own = {
            "session": self.session.id,
            "cwd": self.folder,
            "model": self.session.model,
            "mode": self.session.mode,
            "version": self.session.version,
            "config": self.session.config,
            "pid": os.getpid(),
            "request": self.request.get("request_id"),
            "uuid": new_id(),
            "now": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
        }
        return fill(value, **{**own, **names})

    def say(self, kind: str, **members: Any) -> None:
        """A message with the session's id and one of its own."""
        self.wire.send(self.filled({"type": kind, **members, "uuid": "$uuid", "session_id": "$session"}))

    def state(self, state: str) -> None:
        """What the session is at: running, requires_action, idle."""
        self.say("system", subtype="session_state_changed", state=state, sdk_host_only=True)

    def do_system(self, members: Any) -> None:
        """A message of the system: {"subtype", …}."""
        self.say("system", **members)

    def do_message(self, members: Any) -> None:
        """Any other message: {"type", …}."""
        self.do_send({**members, "uuid": "$uuid", "session_id": "$session"})

    def do_retry(self, members: Any) -> None:
        """A notice that it will ask the API again."""
        told = {"attempt": 1, "max_retries": 10, "retry_delay_ms": 500, "error_status": 529, "error": "overloaded"}
        self.say("system", subtype="api_retry", **{**told, **(members or {})})

    def do_rate_limit(self, info: Any) -> None:
        """How near a limit is: {"status", "resetsAt", "rateLimitType"}."""
        told = {
            "status": "allowed_warning",
            "resetsAt": 4102444800,
            "rateLimitType": "five_hour",
            "isUsingOverage": False,
        }
        self.say("rate_limit_event", rate_limit_info={**told, "isUsingOverage": False, **(info or {})})

    def do_burst(self, value: Any) -> None:
        """So many messages at once: {"count", "message"}."""
        line = dump(self.filled({**value["message"], "uuid": "$uuid", "session_id": "$session"})) + b"\n"
        for start in range(0, value["count"], 1000):
            self.wire.write(line * min(1000, value["count"] - start))

    def do_ask(self, value: Any) -> Steps:
        """A request to the client: a subtype, or {"subtype", "id", "wait", …}; waits for the answer."""
        yield from self.asked({"subtype": value} if isinstance(value, str) else value)

    def asked(self, value: Mapping[str, Any]) -> Generator[Wait, None, Mapping[str, Any]]:
        """Ask, and return the `response` of the answer; nothing when the script does not wait for it."""
        subtype = str(value["subtype"])
        own = {name: member for name, member in value.items() if name not in {"id", "wait"}}
        request_id = str(value.get("id", new_id()))
        request = {"subtype": subtype, **ASKED.get(subtype, {}), **own}
        if subtype == "can_use_tool":
            self.state("requires_action")
        key = self.fake.asks_with(request_id, subtype)
        self.fake.pending.append(request_id)
        self.wire.send({"type": "control_request", "request_id": request_id, "request": self.filled(request)})
        if not value.get("wait", True):
            return {}
        yield Wait(lambda: key in self.fake.answers)
        answer = self.fake.answers.pop(key)
        told = {"method": subtype, "answer": answer, "wrong": answers.wrong(subtype, answer)}
        self.test.tell("verdict", **told)
        if subtype == "can_use_tool":
            self.state("running")
        return answer

    def do_withdraw(self, value: Any) -> None:
        """What was asked and not answered yet is asked no more."""
        for request_id in self.fake.pending:
            self.wire.send({"type": "control_cancel_request", "request_id": request_id})
        self.fake.pending.clear()
