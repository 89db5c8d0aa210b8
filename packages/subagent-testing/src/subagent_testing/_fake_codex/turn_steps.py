"""Steps of a turn: its beginning, its items, its end, as the real one tells them."""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_codex*.py)

from __future__ import annotations

import os
import time
from collections.abc import Generator
from typing import Any

from subagent_testing._fake.recorded import new_id
from subagent_testing._fake.running import Steps, Wait

from .recorded import RECORDED
from .wire_steps import WireSteps

Item = dict[str, Any]
DECISIONS = {"accept": "completed", "acceptForSession": "completed", "decline": "declined"}


class TurnSteps(WireSteps):
    """What happens in a turn."""

    def do_turn(self, steps: Any) -> Steps:
        """A whole turn: begin, these steps or else the script's `turn`, usage, complete."""
        self.do_begin(None)
        yield from self.steps(self.fake.turn_steps if steps is None else steps)
        if not self.run.over:
            self.do_usage(None)
            self.do_complete(None)

    def do_begin(self, value: Any) -> None:
        """The turn has started, with what the user said."""
        self.status("active", activeFlags=[])
        turn = self.turn.shown(startedAt=int(self.turn.started))
        self.wire.notify("turn/started", {"threadId": self.place["threadId"], "turn": turn})
        self.do_user(None)

    def do_user(self, value: Any) -> None:
        """What the user said, as an item."""
        said: list[dict[str, Any]] = self.params.get("input", [])
        content: list[dict[str, Any]] = [{**part, "text_elements": []} for part in said]
        item: Item = {"type": "userMessage", "id": new_id(), "clientId": None, "content": content}
        self.item_started(item)
        self.item_completed(item)

    def do_complete(self, members: Any) -> None:
        """The end of the turn, `completed` unless the members say otherwise."""
        turn, now = self.turn, time.time()
        own = self.filled(members or {})
        shown = turn.shown(
            startedAt=int(turn.started),
            completedAt=int(now),
            durationMs=int((now - turn.started) * 1000),
            **({"status": "completed", "items": turn.answer(), "itemsView": "summary"} if "status" not in own else {}),
        )
        if self.thread is not None:
            for request_id in self.thread.late:
                self.wire.send({"id": request_id, "result": {}})
            self.thread.late.clear()
        if not own.get("error"):
            self.status("idle")
        self.wire.notify("turn/completed", {"threadId": self.place["threadId"], "turn": {**shown, **own}})
        turn.interrupted = own.get("status") == "interrupted"
        if self.thread is not None:
            self.thread.end_turn(turn)

    def do_fail(self, error: Any) -> None:
        """The turn fails, as the real one tells it: an error that will not be retried, and then the end."""
        error = {"message": "", "codexErrorInfo": "other", "additionalDetails": None, "misalignment": None, **error}
        self.status("systemError")
        self.wire.notify("error", {"error": error, "willRetry": False, **self.place})
        self.do_complete({"status": "failed", "error": error})
        self.run.stop()

    def do_retry(self, message: Any) -> None:
        """A notice that it will try again."""
        info = {"responseStreamDisconnected": {"httpStatusCode": None}}
        error = {"message": message, "codexErrorInfo": info, "additionalDetails": None, "misalignment": None}
        self.wire.notify("error", {"error": error, "willRetry": True, **self.place})

    def do_interrupted(self, value: Any) -> None:
        """The end of the turn, interrupted; what was under way for it goes no further."""
        thread = self.thread
        self.do_complete({"status": "interrupted"})
        for run in self.fake.runs:
            if isinstance(run.context, TurnSteps) and run.context.thread is thread and run is not self.run:
                run.stop()

    def do_work(self, value: Any) -> Steps:
        """Work until it is interrupted."""
        yield Wait(lambda: False)

    def item_started(self, item: Item) -> None:
        """An item begins."""
        self.wire.notify("item/started", {"item": item, **self.place, "startedAtMs": int(time.time() * 1000)})

    def item_completed(self, item: Item) -> None:
        """An item ends."""
        self.wire.notify("item/completed", {"item": item, **self.place, "completedAtMs": int(time.time() * 1000)})

    def do_message(self, value: Any) -> None:
        """An answer: a text, or {"text" or "bytes", "phase", "deltas"}."""
        how: dict[str, Any] = {"text": value} if isinstance(value, str) else value
        text: str = how["text"] if "text" in how else "x" * int(how["bytes"])
        item: Item = {**self.filled(RECORDED["agentMessage"], item=f"msg_{new_id()}"), "phase": how.get("phase")}
        self.item_started(item)
        size = -(-len(text) // how.get("deltas", 2)) if how.get("deltas", 2 if "text" in how else 0) else 0
        for at in range(0, len(text) if size else 0, size or 1):
            delta = {**self.place, "itemId": item["id"], "delta": text[at : at + size]}
            self.wire.notify("item/agentMessage/delta", delta)
        self.item_completed({**item, "text": text})
        self.turn.messages.append({**item, "text": text})

    def do_reasoning(self, text: Any) -> None:
        """A summary of what it thinks."""
        item: Item = {"type": "reasoning", "id": f"rs_{new_id()}", "summary": [], "content": []}
        self.item_started(item)
        where = {**self.place, "itemId": item["id"], "summaryIndex": 0}
        self.wire.notify("item/reasoning/summaryPartAdded", where)
        self.wire.notify("item/reasoning/summaryTextDelta", {**where, "delta": text})
        self.item_completed({**item, "summary": [text]})

    def do_command(self, value: Any) -> Steps:
        """A command: {"command", "output", "exitCode", "ask"}; with `ask` it wants approval first."""
        how: dict[str, Any] = {"command": "echo hi", "output": "hi\n", "exitCode": 0, "ask": False, **(value or {})}
        ran = {"processId": "1", "source": "unifiedExecStartup"}
        item: Item = {
            **self.filled(RECORDED["commandExecution"], item=f"call_{new_id()}"),
            "command": f"/bin/bash -lc '{how['command']}'",
            "commandActions": [{"type": "unknown", "command": how["command"]}],
            **({} if how["ask"] else ran),
        }
        self.item_started(item)
        status = "completed"
        if how["ask"]:
            status = yield from self.approved("item/commandExecution/requestApproval", item, otherwise="failed")
        if status == "completed":
            status = "completed" if how["exitCode"] == 0 else "failed"
            item = {**item, **ran, "aggregatedOutput": how["output"], "exitCode": how["exitCode"], "durationMs": 0}
        if not self.run.over:
            self.item_completed({**item, "status": status})

    def do_file_change(self, value: Any) -> Steps:
        """A change of a file: {"path", "kind", "diff", "ask"}; one that is added is written."""
        how: dict[str, Any] = {"path": "a.txt", "kind": "add", "diff": "hello\n", "ask": False, **(value or {})}
        path = os.path.join(self.thread.cwd if self.thread else os.getcwd(), how["path"])
        changes = [{"path": path, "kind": {"type": how["kind"]}, "diff": how["diff"]}]
        item: Item = {"type": "fileChange", "id": f"call_{new_id()}", "changes": changes, "status": "inProgress"}
        self.item_started(item)
        status = "completed"
        if how["ask"]:
            status = yield from self.approved("item/fileChange/requestApproval", item, otherwise="declined")
        if status == "completed" and how["kind"] == "add":
            with open(path, "w", encoding="utf-8") as file:
                file.write(how["diff"])
        if not self.run.over:
            self.item_completed({**item, "status": status})

    def approved(self, method: str, item: Item, *, otherwise: str) -> Generator[Wait, None, str]:
        """Ask; the status that the item ends with.  `cancel` ends the turn, as it does in the real one."""
        answer = yield from self.asked({"method": method, "params": {"itemId": item["id"]}})
        result: dict[str, Any] = answer.get("result") or {}
        decision = result.get("decision")
        if decision == "cancel":
            if item["type"] == "commandExecution":
                self.item_completed({**item, "status": "declined"})
            self.do_complete({"status": "interrupted"})
            self.run.stop()
        if isinstance(decision, dict):  # accepted, and an amendment to a policy with it
            return "completed"
        return DECISIONS.get(str(decision), otherwise)

    def do_plan(self, steps: Any) -> None:
        """A plan: [{"step", "status"}]."""
        self.wire.notify("turn/plan/updated", {**self.place, "explanation": None, "plan": steps})

    def do_usage(self, figures: Any) -> None:
        """What a response of the model used; the thread's total grows by it."""
        last: dict[str, int] = {**RECORDED["usage"], **(figures or {})}
        total = self.thread.tokens if self.thread else {}
        total |= {name: total.get(name, 0) + number for name, number in last.items()}
        usage = {"total": total, "last": last, "modelContextWindow": 258400}
        self.wire.notify("thread/tokenUsage/updated", {**self.place, "tokenUsage": usage})
        self.wire.notify("account/rateLimits/updated", {"rateLimits": RECORDED["rateLimits"]})
