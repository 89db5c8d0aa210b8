"""Every step that the engine asks about gets one answer.

Claude Code has no sandbox, so that `permission="allow"` has no wall to stay behind. What it grants ends where the
configuration ends, and is told by paths and by the mode: a file outside the working folder, or in its `.git` or
`.claude` (where it becomes a program that the person's next `git` or `claude` starts), is `beyond`; so is everything
under `plan`, which promises to change nothing; so is a tool that is not known, and every tool of an MCP server: to name
a server is not to name what it may do, and `allowed_tools` can say that exactly. A command of the shell is not: nothing
can be told about what it will do, and refusing all of them would make `allow` mean nothing. Only where the engine
itself says that it reaches outside is it beyond.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from subagent_claude_code._tools import step_of
from subagent_claude_code.options import PermissionMode
from subagent_process import redact
from subagents import Failure, Link, PermissionRequest
from subagents.backend.values import JsonObject

_QUESTION: Final = "AskUserQuestion"
_NOBODY: Final = "Nobody is here to be asked. Decide yourself, and say in the end what you chose."
_REFUSED: Final = "This step was refused."
_KNOWN: Final = frozenset(
    {"Bash", "Monitor", "Read", "Write", "Edit", "NotebookEdit", "WebFetch", "WebSearch", "Skill", "ExitPlanMode"}
)
_CLOSED: Final = frozenset({".git", ".claude", ".mcp.json"})
_WARNED: Final = (
    "sensitive file",  # the engine's word for more of that kind: .envrc, .vscode, .husky, .bashrc …
    "Dangerous rm operation",  # on the working folder, on one above it, on a home
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine is told."""

    allowed: bool
    reason: str = ""


class Answers:
    """The answers of one run; it belongs to the run's event loop."""

    def __init__(
        self,
        link: Link,
        *,
        mode: PermissionMode,
        roots: Sequence[str],
        max_refusals: int,
        give_up: Callable[[Failure], object],
    ) -> None:
        """Nothing is asked yet.

        Args:
            link: who decides.
            mode: when the engine asks.
            roots: where a task may write, absolute; the working folder first.
            max_refusals: after so many refusals the run is given up.
            give_up: told once; it does not wait.
        """
        self._link, self._mode, self._roots = link, mode, tuple(roots)
        self._max, self._give_up, self._refusals = max_refusals, give_up, 0

    async def decide(self, tool: str, given: JsonObject, context: Any) -> Answer:
        """Ask, and say what the engine is told.

        Args:
            tool: its name.
            given: its input.
            context: the SDK's `ToolPermissionContext`.
        """
        if tool == _QUESTION:
            return Answer(False, _NOBODY)
        choice = await self._link.ask(self._request(tool, given, context))
        if choice.allowed:
            return Answer(True)
        self._refusals += 1
        if self._refusals == self._max:
            reason = (
                f"{self._max} steps were refused, the last one was {tool}. To do: allow what the task needs, or ask for"
                " less; max_refusals is the bound."
            )
            self._give_up(Failure("policy", "run", reason))
        return Answer(False, choice.reason or _REFUSED)

    def _request(self, tool: str, given: JsonObject, context: Any) -> PermissionRequest:
        step = step_of(tool, given)
        blocked = _text(context, "blocked_path")
        paths = (*step.paths, *((blocked,) if blocked and blocked not in step.paths else ()))
        return PermissionRequest(
            redact(step.title),
            step.kind,
            _text(context, "tool_use_id"),
            step.command,
            paths,
            redact(_text(context, "decision_reason") or _text(context, "description")),
            data={"tool": tool, "input": given},
            beyond=self._beyond(tool, paths) or any(word in _text(context, "decision_reason") for word in _WARNED),
        )

    def _beyond(self, tool: str, paths: Sequence[str]) -> bool:
        return self._mode == "plan" or tool not in _KNOWN or not all(map(self._open, paths))

    def _open(self, path: str) -> bool:
        """Whether the configuration lets a task write there; links are followed."""
        if path.startswith("~"):  # whose home that is, the engine decides
            return False
        real = os.path.realpath(os.path.join(self._roots[0], path))
        for root in self._roots:
            parts = os.path.relpath(real, os.path.realpath(root)).split(os.sep)
            if parts[0] != os.pardir:
                return not any(part.casefold() in _CLOSED for part in parts)
        return False


def _text(context: Any, name: str) -> str:
    value = getattr(context, name, None)
    return value if isinstance(value, str) else ""
