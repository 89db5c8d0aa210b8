"""How the tests drive the real Claude Code against a scripted model server."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from subagent_claude_code import ClaudeCode
from subagent_testing import ScriptedMessages, messages
from subagents import Event, Permission, PermissionRequest, Result, ToolEvent

if importlib.util.find_spec("claude_agent_sdk") is None:
    pytest.skip("the real claude is missing: subagent-claude-code[sdk]", allow_module_level=True)

KEY = "sk-ant-api03-test-0123456789abcdef"


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

    @property
    def asked(self) -> list[PermissionRequest]:
        return [e.request for e in self.events if e.type == "permission" and e.choice is None]

    def notices(self, code: str) -> list[str]:
        return [e.text for e in self.events if e.type == "notice" and e.code == code]


def against(api: ScriptedMessages, **options: Any) -> ClaudeCode:
    """A Claude Code whose models are those of the scripted server."""
    given: dict[str, Any] = {"base_url": api.base_url, "api_key": KEY, "max_retries": 0, **options}
    return ClaudeCode(**given)


async def told(
    provider: ClaudeCode,
    prompt: str,
    cwd: Path,
    *,
    permission: Permission = "reject",
    within: float = 60,
    **fields: Any,
) -> Told:
    """One run, followed to its end."""
    with anyio.fail_after(within):
        async with provider.start(prompt, cwd=cwd, permission=permission, **fields) as run:
            events = [event async for event in run.events()]
        return Told(await run.closed(), tuple(events))


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


def bash(command: str) -> messages.Block:
    """The model runs a command."""
    return messages.tool_use("Bash", {"command": command, "description": "d"})


def write(path: Path | str, content: str = "hi\n") -> messages.Block:
    """The model writes a file."""
    return messages.tool_use("Write", {"file_path": str(path), "content": content})


def results(api: ScriptedMessages) -> list[str]:
    """What the model was told that its calls gave, in order."""
    found: dict[str, str] = {}
    for request in api.requests:
        for message in request.body.get("messages", ()):
            content: Any = message["content"]
            for block in () if isinstance(content, str) else content:
                if block.get("type") == "tool_result":
                    found[block["tool_use_id"]] = str(block["content"])
    return list(found.values())


def prompts(api: ScriptedMessages) -> str:
    """Everything that the model was sent."""
    return "\n".join(request.raw.decode() for request in api.requests)


def kinds(found: Sequence[ToolEvent]) -> list[tuple[str, str]]:
    return [(tool.kind, tool.status) for tool in found]
