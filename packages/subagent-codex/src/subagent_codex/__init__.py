"""OpenAI Codex as a provider of subagents.

    from subagent_codex import Codex

    result = await subagents.run(Codex(home="inherit"), "What does this project do?")

Every name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subagent_codex.options import CodexFields, CodexOptions
    from subagent_codex.provider import Codex

__all__ = ["Codex", "CodexFields", "CodexOptions"]

_HOMES = {"options": ("CodexFields", "CodexOptions"), "provider": ("Codex",)}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
