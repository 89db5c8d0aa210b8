"""Steps that write: messages of the script, requests of the server, bytes that are no message at all."""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_codex*.py)

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from . import answers
from .recorded import RECORDED
from .running import Context, Steps, Wait
from .wire import dump, write_all

STDERR_PIECE = 65536
"""Bytes of standard error after which others get their turn."""


class WireSteps(Context):
    """What a script writes itself."""

    def do_notify(self, value: Any) -> None:
        """A notification: {"method", "params"}."""
        self.wire.notify(value["method"], self.filled(value.get("params", {})))

    def do_send(self, message: Any) -> None:
        """A message as it is: a response with a foreign id, say."""
        message = self.filled(message)
        if "method" in message and "id" in message:
            self.fake.asks_with(message["id"], str(message["method"]))
        self.wire.send(message)

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

    def do_raw(self, value: Any) -> None:
        """Bytes: a text, or {"text" or "hex", "times", "cuts"}, cut into writes at these offsets."""
        how: dict[str, Any] = {"text": value} if isinstance(value, str) else value
        self.fake.wrote_raw = True
        data = bytes.fromhex(how["hex"]) if "hex" in how else how["text"].encode()
        self.wire.write(data * int(how.get("times", 1)), how.get("cuts", ()))

    def do_wire(self, value: Any) -> None:
        """How lines are written from now on: {"end", "chunk", "gap"}; what is not named is as at first."""
        self.wire.end = value.get("end", "\n").encode()
        self.wire.chunk = int(value.get("chunk", 0))
        self.wire.gap = float(value.get("gap", 0))

    def do_mute(self, value: Any) -> None:
        """Nothing is said any more, whatever is asked."""
        self.wire.mute = True

    def do_stderr(self, value: Any) -> Steps:
        """A text; or {"text", "times"}, for ever when `times` is null."""
        how: dict[str, Any] = {"text": value} if isinstance(value, str) else value
        text, times = how["text"].encode(), how.get("times", 1)
        piece = max(1, STDERR_PIECE // len(text))
        while times is None or times > 0:
            write_all(2, text * (piece if times is None else min(piece, times)))
            times = None if times is None else times - piece
            yield Wait(lambda: True)
