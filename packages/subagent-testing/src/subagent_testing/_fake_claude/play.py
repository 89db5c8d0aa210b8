"""All the steps: those of any program, those of a turn, those that write, and here those about answers and the end."""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_claude*.py)

from __future__ import annotations

import os
from typing import Any

from subagent_testing._fake.running import Steps, Wait

from .turn_steps import TurnSteps
from .wire_steps import RECORDED


class Play(TurnSteps):
    """The verbs of a script: each is a method `do_VERB`."""

    def do_answer(self, members: Any) -> None:
        """The real one's answer to a control request, with these members in place of its own."""
        changed = False
        request: dict[str, Any] = self.request.get("request") or {}
        subtype = str(request.get("subtype"))
        around: dict[str, Any] = {}
        response: dict[str, Any] | None = None
        match subtype:
            case "initialize":
                around = {"pending_permission_requests": [], "pending_user_dialog_requests": []}
                response = RECORDED["initialize"]
            case "interrupt":
                response = {"still_queued": []}
            case "set_permission_mode":
                changed = self.session.mode != request.get("mode")
                self.session.mode = str(request.get("mode"))
                response = {"mode": "$mode"}
            case "set_model":
                self.session.model = str(request.get("model") or self.session.model)
                response = {"model": "$model"}
            case "end_session":
                pass
            case _:
                if members is None:
                    said = f"Unsupported control request subtype: {subtype}"
                    self._respond({"subtype": "error", "error": said, "error_code": "unsupported_request"})
                    return
        if members is not None:
            response = {**(response or {}), **members}
        self._respond({"subtype": "success", **({} if response is None else {"response": response}), **around})
        if changed:
            self.do_system({"subtype": "status", "status": None, "permissionMode": "$mode"})

    def do_error(self, text: Any) -> None:
        """An error in place of an answer."""
        self._respond({"subtype": "error", "error": text})

    def do_end(self, value: Any) -> Steps:
        """The end of the process, once no turn is under way, as the real one takes the end of its input."""
        yield Wait(lambda: not self.session.busy)
        os._exit(1 if self.session.failed else 0)

    def _respond(self, members: dict[str, Any]) -> None:
        response = self.filled({**members, "request_id": self.request.get("request_id")})
        self.wire.send({"type": "control_response", "response": response})


VERBS = frozenset(name.removeprefix("do_") for name in dir(Play) if name.startswith("do_"))
