"""A `Turn` with its events, and notifications as the app-server writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

from subagent_codex._turn import Turn
from subagent_process import child_env, run_command
from subagents import Event

THREAD, TURN, CWD = "01a22fc6-8f76-7773", "01a22fc6-8f80-7093", "/work/project"

E = TypeVar("E")

COMMAND: dict[str, object] = {
    "type": "commandExecution",
    "id": "call_1",
    "command": "/bin/bash -lc 'make test'",
    "cwd": CWD,
    "processId": "72024",
    "source": "unifiedExecStartup",
    "status": "inProgress",
    "commandActions": [{"type": "unknown", "command": "make test"}],
    "aggregatedOutput": None,
    "exitCode": None,
    "durationMs": None,
}
TOTALS = ("inputTokens", "outputTokens", "cachedInputTokens", "cacheWriteInputTokens", "reasoningOutputTokens")


class Told:
    """A turn and what it told."""

    def __init__(self, *, thread: str | None = THREAD) -> None:
        self.events: list[Event] = []
        self.moments: list[str] = []
        self.turn = Turn(
            self.events.append,
            accepted=lambda: self.moments.append("accepted"),
            ended=lambda: self.moments.append("ended"),
            cwd=CWD,
        )
        self.turn.thread = thread

    def of(self, kind: type[E]) -> list[E]:
        """Its events of that class."""
        return [event for event in self.events if isinstance(event, kind)]

    def say(self, method: str, **params: object) -> Told:
        """A notification of the run's own thread and turn."""
        self.turn.notified(method, {"threadId": THREAD, "turnId": TURN, **params})
        return self

    def start(self) -> Told:
        return self.say("turn/started", turn={"id": TURN, "items": [], "status": "inProgress", "error": None})

    def begin(self, item: dict[str, object], **params: object) -> Told:
        return self.say("item/started", item=item, startedAtMs=1796097871000, **params)

    def complete(self, item: dict[str, object], **params: object) -> Told:
        return self.say("item/completed", item=item, completedAtMs=1796097871000, **params)

    def delta(self, text: str, item: str = "msg_1", **params: object) -> Told:
        return self.say("item/agentMessage/delta", itemId=item, delta=text, **params)

    def message(self, text: str, item: str = "msg_1", phase: str | None = None, **params: object) -> Told:
        """A message with its deltas, two of them."""
        self.begin(message(item, "", phase), **params)
        half = len(text) // 2
        for piece in (text[:half], text[half:]):
            self.delta(piece, item, **params)
        return self.complete(message(item, text, phase), **params)

    def raw(self, item: dict[str, object], **params: object) -> Told:
        return self.say("rawResponseItem/completed", item=item, **params)

    def use(self, total: Iterable[int], last: Iterable[int] = (), **params: object) -> Told:
        usage = {"total": counts(total), "last": counts(last or total), "modelContextWindow": 258400}
        return self.say("thread/tokenUsage/updated", tokenUsage=usage, **params)

    def end(self, status: str = "completed", error: object = None, items: Iterable[object] = ()) -> Told:
        turn = {"id": TURN, "items": list(items), "itemsView": "summary", "status": status, "error": error}
        return self.say("turn/completed", turn=turn)


def message(item: str, text: str, phase: str | None = None) -> dict[str, object]:
    return {"type": "agentMessage", "id": item, "text": text, "phase": phase, "memoryCitation": None}


def counts(total: Iterable[int]) -> dict[str, int]:
    found = dict(zip(TOTALS, total, strict=True))
    return {"totalTokens": found["inputTokens"] + found["outputTokens"], **found}


def error(words: str, info: object = "other", details: str | None = None) -> dict[str, object]:
    return {"message": words, "codexErrorInfo": info, "additionalDetails": details, "misalignment": None}


def call(name: str, arguments: str, call_id: str = "call_1", **more: object) -> dict[str, object]:
    return {"type": "function_call", "id": "fc_1", "name": name, "arguments": arguments, "call_id": call_id, **more}


def patch(text: str, call_id: str = "call_1") -> dict[str, object]:
    return {"type": "custom_tool_call", "id": "ct_1", "call_id": call_id, "name": "apply_patch", "input": text}


def output(text: object, call_id: str = "call_1", kind: str = "function_call_output") -> dict[str, object]:
    return {"type": kind, "id": "fco_1", "call_id": call_id, "output": text}


def exited(code: int, text: str) -> str:
    """The answer to a command that ran."""
    head = "Chunk ID: 744234\nWall time: 0.0000 seconds\n"
    return f"{head}Process exited with code {code}\nOriginal token count: 1\nOutput:\n{text}"


def bundled_schema(folder: Path, name: str) -> Any:
    """A JSON Schema that the bundled engine writes about itself."""
    cli = pytest.importorskip("codex_cli_bin", reason="the bundled codex is not installed: extra [cli]")

    async def generate() -> int:
        argv = [cli.bundled_codex_path(), "app-server", "generate-json-schema", "--out", folder / "schema"]
        env = child_env(minimal=True, set={"CODEX_HOME": str(folder), "HOME": str(folder)})
        return (await run_command(argv, env=env, cwd=folder, timeout=30)).exit

    assert anyio.run(generate) == 0
    return json.loads((folder / "schema" / name).read_text())
