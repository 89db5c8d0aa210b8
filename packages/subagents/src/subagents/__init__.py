"""Hand a task to another agent in another process, follow it, stop it, and get one honest answer back.

result = await subagents.run("local", "Explain in one sentence what a Python context manager is.")
"""

from subagent_process import ShutdownReport
from subagent_workspace import Changes, Commit, FileChange, FileStatus, WorktreeReport
from subagents._config import Config
from subagents._events import (
    Event,
    NoticeEvent,
    PermissionEvent,
    PlanEntry,
    PlanEvent,
    StartedEvent,
    TextEvent,
    ThoughtEvent,
    ToolEvent,
    UsageEvent,
    event_from_json,
)
from subagents._link import Link
from subagents._permission import Choice, Permission, PermissionOption, PermissionRequest
from subagents._provider import Model, Probe, Provider
from subagents._registry import create, installed
from subagents._result import Evidence, Failure, Result, Usage
from subagents._run import Run
from subagents._runtime import Runtime
from subagents._short import as_tool, run, run_sync, start
from subagents._task import Task
from subagents._visible import visible
from subagents._words import FailureKind, OptionKind, StopReason, ToolKind, ToolStatus
from subagents.errors import (
    Busy,
    ConfigError,
    DuplicateProvider,
    RegistryError,
    RunEnded,
    RunFailed,
    StartError,
    SubagentError,
    TaskError,
    Unavailable,
    UnknownProvider,
    Unsupported,
)

__all__ = [
    "Busy",
    "Changes",
    "Choice",
    "Commit",
    "Config",
    "ConfigError",
    "DuplicateProvider",
    "Event",
    "Evidence",
    "Failure",
    "FailureKind",
    "FileChange",
    "FileStatus",
    "Link",
    "Model",
    "NoticeEvent",
    "OptionKind",
    "Permission",
    "PermissionEvent",
    "PermissionOption",
    "PermissionRequest",
    "PlanEntry",
    "PlanEvent",
    "Probe",
    "Provider",
    "RegistryError",
    "Result",
    "Run",
    "RunEnded",
    "RunFailed",
    "Runtime",
    "ShutdownReport",
    "StartError",
    "StartedEvent",
    "StopReason",
    "SubagentError",
    "Task",
    "TaskError",
    "TextEvent",
    "ThoughtEvent",
    "ToolEvent",
    "ToolKind",
    "ToolStatus",
    "Unavailable",
    "UnknownProvider",
    "Unsupported",
    "Usage",
    "UsageEvent",
    "WorktreeReport",
    "as_tool",
    "create",
    "event_from_json",
    "installed",
    "run",
    "run_sync",
    "start",
    "visible",
]
