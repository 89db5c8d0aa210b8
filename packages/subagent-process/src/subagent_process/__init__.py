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
from .environment import child_env, depth
from .errors import (
    CommandTimeout,
    HomeError,
    LineTooLong,
    ProcessError,
    ProcessLost,
    SpawnError,
    UnsupportedPlatform,
)
from .home import ThrowawayHome, throwaway_home
from .lines import LineReader, Messages
from .process import OwnedProcess
from .redaction import redact
from .removal import Reason, removal_reason
from .report import Ladder, ShutdownReport
from .spawn import open_process
from .tail import StderrTail

__all__ = [
    "CommandTimeout",
    "CompletedCommand",
    "HomeError",
    "Ladder",
    "LineReader",
    "LineTooLong",
    "Messages",
    "OwnedProcess",
    "ProcessError",
    "ProcessLost",
    "Reason",
    "ShutdownReport",
    "SpawnError",
    "StderrTail",
    "ThrowawayHome",
    "UnsupportedPlatform",
    "child_env",
    "depth",
    "open_process",
    "redact",
    "removal_reason",
    "run_command",
    "throwaway_home",
]
