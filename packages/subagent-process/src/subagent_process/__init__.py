"""An owned child process: its environment, its home, its end.

::

    async with throwaway_home("codex") as home:
        env = child_env(home=home, set={"CODEX_HOME": str(home.path("codex"))})
        async with await open_process(["codex", "app-server"], env=env, home=home) as process:
            await process.send_line({"id": 0, "method": "initialize"})
            async for message in process.messages():
                ...
    print(process.report)
"""

from __future__ import annotations

from .command import CompletedCommand, run_command
from .environment import cache_root, child_env, depth, state_root
from .errors import (
    CommandTimeout,
    HomeError,
    InvalidAnswer,
    LineTooLong,
    PeerClosed,
    ProcessError,
    ProcessLost,
    RpcError,
    SpawnError,
    UnsupportedPlatform,
)
from .home import ThrowawayHome, throwaway_home
from .lines import LineReader, Messages
from .peer import JsonObject, Peer, PeerCounts
from .process import OwnedProcess
from .redaction import redact, remember
from .removal import Reason, removal_reason
from .report import Ladder, ShutdownReport
from .spawn import Containment, open_process
from .tail import StderrTail
from .toolenv import ToolEnv, tool_env

__all__ = [
    "CommandTimeout",
    "CompletedCommand",
    "Containment",
    "HomeError",
    "InvalidAnswer",
    "JsonObject",
    "Ladder",
    "LineReader",
    "LineTooLong",
    "Messages",
    "OwnedProcess",
    "Peer",
    "PeerClosed",
    "PeerCounts",
    "ProcessError",
    "ProcessLost",
    "Reason",
    "RpcError",
    "ShutdownReport",
    "SpawnError",
    "StderrTail",
    "ThrowawayHome",
    "ToolEnv",
    "UnsupportedPlatform",
    "cache_root",
    "child_env",
    "depth",
    "open_process",
    "redact",
    "remember",
    "removal_reason",
    "run_command",
    "state_root",
    "throwaway_home",
    "tool_env",
]
