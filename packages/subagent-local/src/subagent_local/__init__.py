"""A small model on this machine as a provider of subagents.

    from subagent_local import Local

    result = await subagents.run(Local(model="smollm2-135m"), "What is a context manager?")

The table of models is in `subagent_local.models`. Every name is imported when it is first used: listing the installed
providers costs nothing of the 0.2 s that pydantic, anyio and the rest take.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subagent_local._pulling.pull import PullProgress, pull
    from subagent_local.errors import (
        BadModelFile,
        CacheUnusable,
        DiskFull,
        LocalError,
        PullError,
        ServerUnusable,
        SourcesFailed,
        UnknownModel,
    )
    from subagent_local.models import HubFile, LocalModel, WheelParts, find_model
    from subagent_local.options import LocalFields, LocalOptions
    from subagent_local.provider import Local

__all__ = [
    "BadModelFile",
    "CacheUnusable",
    "DiskFull",
    "HubFile",
    "Local",
    "LocalError",
    "LocalFields",
    "LocalModel",
    "LocalOptions",
    "PullError",
    "PullProgress",
    "ServerUnusable",
    "SourcesFailed",
    "UnknownModel",
    "WheelParts",
    "find_model",
    "pull",
]

_HOMES = {
    "_pulling.pull": ("PullProgress", "pull"),
    "errors": (
        "BadModelFile",
        "CacheUnusable",
        "DiskFull",
        "LocalError",
        "PullError",
        "ServerUnusable",
        "SourcesFailed",
        "UnknownModel",
    ),
    "models": ("HubFile", "LocalModel", "WheelParts", "find_model"),
    "options": ("LocalFields", "LocalOptions"),
    "provider": ("Local",),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
