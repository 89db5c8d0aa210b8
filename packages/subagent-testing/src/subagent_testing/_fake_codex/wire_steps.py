"""Steps that write: messages of the script, requests of the server, bytes that are no message at all."""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_codex*.py)

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from subagent_testing._fake.running import Steps, Wait
from subagent_testing._fake.wire import dump

from . import answers
from .recorded import RECORDED
from .running import Context


class WireSteps(Context):
    """What a script writes itself."""

    def do_notify(self, value: Any) -> None:
        """A notification: {"method", "params"}."""
        self.wire.notify(value["method"], self.filled(value.get("params", {})))

    def do_burst(self, value: Any) -> None:
        """So many notifications at once: {"count", "method", "params"}."""
        line = dump(self.filled({"method": value["method"], "params": value["params"]})) + b"\n"
        for start in range(0, value["count"], 1000):
            self.wire.write(line * min(1000, value["count"] - start))

    def do_ask(self, value: Any) -> Steps:
        """A request of the server: a method, or {"method", "params", "id", "wait"}; waits for the answer."""
        yield from self.asked({"method": value} if isinstance(value, str) else value)

    def asked(self, value: Mapping[str, Any]) -> Generator[Wait, None, Mapping[str, Any]]:
        """Ask, and return the client's answer; nothing when the script does not wait for it."""
        method, number = str(value["method"]), self.fake.asks
        self.fake.asks += 1
        request_id = self.filled(value.get("id", number))
        key = self.fake.asks_with(request_id, method)
        unknown = {"threadId": "$thread", "turnId": "$turn"}
        template = {**RECORDED["requests"].get(method, unknown), **value.get("params", {})}
        approval = self.thread is not None and method.endswith("/requestApproval")
        if approval:
            self.status("active", activeFlags=["waitingOnApproval"])
        self.wire.send({"method": method, "id": request_id, "params": self.filled(template, item=f"call_{number}")})
        if not value.get("wait", True):
            return {}
        yield Wait(lambda: key in self.fake.answers)
        answer = self.fake.answers.pop(key)
        self.fake.test.tell("verdict", method=method, answer=answer, wrong=answers.wrong(method, answer))
        self.wire.notify("serverRequest/resolved", {"threadId": self.place["threadId"], "requestId": request_id})
        if approval:
            self.status("active", activeFlags=[])
        return answer

    def status(self, kind: str, **members: Any) -> None:
        """The thread's status."""
        status = {"type": kind, **members}
        self.wire.notify("thread/status/changed", {"threadId": self.place["threadId"], "status": status})
