"""Steps of a turn: its beginning, what the model says and does, its end, as the real one tells them."""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_claude*.py)

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from subagent_testing._fake.recorded import new_id
from subagent_testing._fake.running import Steps, Wait

from .session import Turn
from .wire_steps import RECORDED, WireSteps

Block = dict[str, Any]

REJECTED = "rejected: the turn was stopped"
BASH = {"command": "touch x", "description": "make a file"}


class TurnSteps(WireSteps):
    """What happens in a turn."""

    def do_turn(self, steps: Any) -> Steps:
        """A whole turn: begin, these steps or else the script's `turn`, and a result that says success."""
        self.do_begin(None)
        turn = self.session.turn
        yield from self.steps(self.fake.turn_steps if steps is None else steps)
        if not self.run.over and self.session.busy and self.session.turn is turn:
            self.do_result(None)

    def do_begin(self, value: Any) -> None:
        """The turn has begun: `system/init`; what it will come to is nothing yet."""
        if not self.session.busy:
            self.state("running")
        self.session.busy = True
        self.session.turn = Turn()
        self.wire.send(self.filled(RECORDED["init"]))

    def do_result(self, members: Any) -> None:
        """The end of the turn: success, with these members in place of its own; a message that waits is next."""
        own: dict[str, Any] = members or {}
        self.finish("success" if own.get("subtype", "success") == "success" else "error", own)

    def finish(self, template: str, own: Mapping[str, Any]) -> None:
        """The line with which a turn ends, and what comes after it."""
        session, turn = self.session, self.session.turn
        asked = self.request.get("uuid") if self.request.get("type") == "user" else None
        told: dict[str, Any] = {
            **RECORDED[template],
            **({"result": turn.answer} if template == "success" else {}),
            **({"user_message_uuid": asked, "user_message_uuids": [asked]} if asked else {}),
            **({"begun_message_ids": turn.messages} if session.partial and turn.messages else {}),
            "num_turns": 1 + turn.results,
            "permission_denials": turn.denials,
            "result_index": session.results,
            "usage": {**RECORDED[template]["usage"], **turn.tokens},
            **own,
        }
        session.results += 1
        session.failed = bool(told["is_error"])
        self.wire.send(self.filled(told))
        session.busy = bool(session.queue)
        if session.queue:  # the next turn begins without the session being idle in between
            self.fake.happen("user", session.queue.pop(0))
        else:
            self.state("idle")

    def do_fail(self, value: Any) -> None:
        """The API fails: {"text", "error", "type", "status"}: a synthetic message, and a result that says so."""
        how: dict[str, Any] = {"text": "API Error", "error": "server_error", "type": "api_error", "status": 500}
        how |= value or {}
        api: dict[str, Any] = {"api_error_status": how["status"], "api_error_type": how["type"]}
        synthetic: dict[str, Any] = RECORDED["synthetic"]
        message: dict[str, Any] = {**synthetic["message"], "content": [{"type": "text", "text": how["text"]}]}
        self.wire.send(self.filled({**synthetic, **api, "error": how["error"], "message": message}))
        self.finish("api_error", {**api, "result": how["text"]})
        self.run.stop()

    def do_interrupted(self, value: Any) -> None:
        """The end of the turn, interrupted; what was under way for it goes no further.  Nothing when none is."""
        if not self.session.busy:
            return
        for run in self.fake.runs:
            if run is not self.run:
                run.stop()
        if call := self.session.turn.call:
            self.state("running")
            self._rejected(call)
        self._aborted(in_tool=bool(call))

    def _rejected(self, call: str) -> None:
        self._tool_result(call, REJECTED, is_error=True, non_execution_kind="user-rejected")

    def _aborted(self, *, in_tool: bool) -> None:
        what = " for tool use" if in_tool else ""
        self._user([{"type": "text", "text": f"[Request interrupted by user{what}]"}])
        stop = "tool_use" if in_tool else None
        reason = "aborted_tools" if in_tool else "aborted_streaming"
        said = [f"[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={stop or 'null'}"]
        own = {"subtype": "error_during_execution", "terminal_reason": reason, "stop_reason": stop, "errors": said}
        self.do_result(own)

    def do_work(self, value: Any) -> Steps:
        """Work until it is interrupted."""
        yield Wait(lambda: False)

    def do_text(self, value: Any) -> None:
        """A text of the model: a text, or {"text" or "bytes", "deltas"}."""
        how: dict[str, Any] = {"text": value} if isinstance(value, str) else value
        text: str = how["text"] if "text" in how else "x" * int(how["bytes"])
        self.session.turn.answer = text
        size = -(-len(text) // how.get("deltas", 2)) if how.get("deltas", 2 if "text" in how else 0) else 0
        parts = [text[at : at + size] for at in range(0, len(text), size)] if size else []
        deltas = [{"type": "text_delta", "text": part} for part in parts]
        self.block({"type": "text", "text": text}, {"type": "text", "text": ""}, deltas)

    def do_thinking(self, text: Any) -> None:
        """What the model thinks."""
        whole: Block = {"type": "thinking", "thinking": text, "signature": "fake"}
        deltas: list[Block] = [
            {"type": "thinking_delta", "thinking": text},
            {"type": "signature_delta", "signature": "fake"},
        ]
        self.block(whole, {**whole, "thinking": "", "signature": ""}, deltas)

    def do_tool(self, value: Any) -> Steps:
        """A call of a tool: {"name", "input", "output", "is_error", "ask"}; with `ask` it asks first, and obeys.

        A `Write` is written; no other tool does anything.
        """
        how: dict[str, Any] = {"name": "Bash", "input": BASH, "output": "", "is_error": False, "ask": False}
        how |= value or {}
        name, given = str(how["name"]), dict[str, Any](how["input"])
        call: Block = {"type": "tool_use", "name": name, "input": given, "id": f"toolu_{new_id()}"}
        self.block(call, {**call, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(given)}])
        self.session.turn.call = call["id"]
        decision: dict[str, Any] = {}
        if how["ask"]:
            about = {"tool_name": name, "display_name": name, "input": given, "tool_use_id": call["id"]}
            answer = yield from self.asked({"subtype": "can_use_tool", **about})
            failed = {"behavior": "deny", "message": f"Tool permission request failed: Error: {answer.get('error')}"}
            taken: dict[str, Any] = answer.get("response") or failed
            if taken.get("behavior") != "allow":
                self._denied(call, taken)
                return
            given = taken.get("updatedInput") or given
            decision = {"permission_decision": {"decision": "accept", "source": "user_temporary"}}
        if name == "Write":
            with open(os.path.join(self.folder, given["file_path"]), "w", encoding="utf-8") as file:
                file.write(given["content"])
        self._tool_result(call["id"], how["output"], is_error=how["is_error"], **decision)

    def _denied(self, call: Block, taken: Mapping[str, Any]) -> None:
        denial = {"tool_name": call["name"], "tool_use_id": call["id"], "tool_input": call["input"]}
        self.session.turn.denials.append(denial)
        if taken.get("interrupt"):
            self._rejected(call["id"])
            self._aborted(in_tool=True)
            self.run.stop()
            return
        decision = {"decision": "reject", "source": "user_reject"}
        meta = {"non_execution_kind": "permission-rule", "permission_decision": decision}
        self._tool_result(call["id"], str(taken.get("message")), is_error=True, **meta)

    def _tool_result(self, call: str, text: str, *, is_error: bool, **meta: Any) -> None:
        self.session.turn.call = ""
        failed = {"is_error": True} if is_error else {}
        block = {"type": "tool_result", "content": text, **failed, "tool_use_id": call}
        told = f"Error: {text}" if is_error else {"stdout": text}
        self._user([block], tool_use_result=told, tool_result_meta=[{"id": call, **meta}])

    def _user(self, content: list[Block], **more: Any) -> None:
        self.session.turn.results += 1
        message = {"role": "user", "content": content}
        self.say("user", message=message, parent_tool_use_id=None, timestamp="$now", **more)

    def block(self, whole: Block, start: Block, deltas: list[Block]) -> None:
        """A message of the model with one block, in pieces too where the client wants them."""
        turn = self.session.turn
        turn.tokens["input_tokens"] += 100
        turn.tokens["output_tokens"] += 20
        message_id = f"msg_{new_id()}"
        turn.messages.append(message_id)
        template = self.filled(RECORDED["assistant"], message=message_id)
        template["message"]["content"] = [whole]
        if not self.session.partial:
            self.wire.send(template)
            return
        shown = {name: v for name, v in template["message"].items() if name != "context_management"}
        stop = "tool_use" if whole["type"] == "tool_use" else "end_turn"
        self.say("system", subtype="status", status="requesting")
        self._event({"type": "message_start", "message": {**shown, "content": []}}, message_id)
        self._event({"type": "content_block_start", "index": 0, "content_block": start}, message_id)
        for delta in deltas:
            self._event({"type": "content_block_delta", "index": 0, "delta": delta}, message_id)
        self.wire.send(template)
        self._event({"type": "content_block_stop", "index": 0}, message_id)
        usage = {**template["message"]["usage"], "output_tokens": 20}
        delta = {"stop_reason": stop, "stop_sequence": None}
        self._event({"type": "message_delta", "delta": delta, "usage": usage}, message_id)
        self._event({"type": "message_stop"}, message_id)

    def _event(self, event: Block, message_id: str) -> None:
        self.say("stream_event", event=event, parent_tool_use_id=None, api_message_id=message_id)
