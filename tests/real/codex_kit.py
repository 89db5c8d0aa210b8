"""How the tests drive the real Codex against a scripted model server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from subagent_codex import Codex
from subagent_testing import ScriptedResponses, responses
from subagents import Event, Permission, Result, ToolEvent

KEY = "sk-test-0123456789abcdef"


@dataclass(frozen=True)
class Told:
    """What one run told, and how it ended."""

    result: Result
    events: tuple[Event, ...]

    @property
    def tools(self) -> list[ToolEvent]:
        """The last state of each step."""
        last: dict[str, ToolEvent] = {e.id: e for e in self.events if isinstance(e, ToolEvent)}
        return list(last.values())

    def notices(self, code: str) -> list[str]:
        return [e.text for e in self.events if e.type == "notice" and e.code == code]


def against(api: ScriptedResponses, **options: Any) -> Codex:
    """A Codex whose models are those of the scripted server."""
    given: dict[str, Any] = {"base_url": api.base_url, "api_key": KEY, **options}
    return Codex(**given)


async def told(
    provider: Codex, prompt: str, cwd: Path, *, permission: Permission = "reject", within: float = 60, **fields: Any
) -> Told:
    """One run, followed to its end."""
    with anyio.fail_after(within):
        async with provider.start(prompt, cwd=cwd, permission=permission, **fields) as run:
            events = [event async for event in run.events()]
        return Told(await run.closed(), tuple(events))


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


def shell(command: str, **more: object) -> responses.Item:
    """The model runs a command."""
    return responses.function_call("exec_command", {"cmd": command, **more})


def patch(path: str, line: str) -> responses.Item:
    """The model adds a file by a patch."""
    return responses.custom_tool_call("apply_patch", f"*** Begin Patch\n*** Add File: {path}\n+{line}\n*** End Patch\n")


def shell_outputs(api: ScriptedResponses) -> list[str]:
    """What the model was told that its calls gave, in order."""
    found: dict[str, str] = {}
    for request in api.requests:
        for item in request.body.get("input", ()):
            if str(item.get("type", "")).endswith("_call_output"):
                found[item["call_id"]] = str(item["output"])
    return list(found.values())
