"""Claude Code as a provider of subagents.

    from subagent_claude_code import ClaudeCode

    result = await subagents.run(ClaudeCode(home="inherit"), "What does this project do?")

Every name is imported when it is first used; the SDK (a second, 70 MB) only when a run needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subagent_claude_code.options import ClaudeCodeFields, ClaudeCodeOptions
    from subagent_claude_code.provider import ClaudeCode

__all__ = ["ClaudeCode", "ClaudeCodeFields", "ClaudeCodeOptions"]

_HOMES = {"options": ("ClaudeCodeFields", "ClaudeCodeOptions"), "provider": ("ClaudeCode",)}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
