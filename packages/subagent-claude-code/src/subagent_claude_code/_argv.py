"""How `claude` is started, as data: the SDK's own names of options, and the arguments that the SDK would build.

The SDK applies its options only to a process that it starts itself (0.2.189), so the arguments are built here. A test
hands the same options to the SDK, and compares.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from subagent_claude_code._names import present_name, server_of
from subagent_claude_code.options import ClaudeCodeOptions
from subagents import Task

Settings: TypeAlias = dict[str, Any]
"""Fields of `claude_agent_sdk.ClaudeAgentOptions`."""


# What the engine does without a question in every mode, `plan` too, and what reaches beyond the task: a branch and a
# folder of git, also for a sub-agent; a sub-agent on another machine; a schedule (a `durable` one lies in the project,
# and is carried out in the person's next session); a message to another session. A rule makes it ask (observed).
_ASKED: Final = (
    *("Agent(isolation:worktree)", "Agent(isolation:remote)", "CronCreate", "CronDelete", "EnterWorktree"),
    *("ExitWorktree", "PushNotification", "RemoteTrigger", "SendFeedback", "SendMessage", "SendUserFile"),
)


_NEVER: Final = ("ScheduleWakeup",)
"""Not offered: the model would end its turn in the belief that somebody wakes it."""


def settings(options: ClaudeCodeOptions, task: Task, instructions: Path | None, servers: Path | None) -> Settings:
    """What this run says.

    Args:
        options: of the provider.
        task: the work.
        instructions: the file that holds what is added to the system prompt: an argument ends at 128 KiB, and is seen.
        servers: the file that names the MCP servers.
    """
    own = options.home == "inherit"
    found: Settings = {
        "system_prompt": {"type": "preset", "preset": "claude_code"},  # None would be an empty one
        "tools": None if task.tools is None else [tool for tool in task.tools if server_of(tool) is None],
        "allowed_tools": list(options.allowed_tools),
        "max_turns": task.max_turns,
        "max_budget_usd": task.budget,
        "disallowed_tools": [*options.disallowed_tools, *_NEVER],
        "model": task.model or options.model,
        "permission_prompt_tool_name": "stdio",
        "permission_mode": options.permission_mode,
        "resume": task.resume,
        "settings": json.dumps(_rules(options)),
        "mcp_servers": servers,
        "include_partial_messages": True,
        # Never the project's: its settings name programs that are then started (hooks, servers). The person's servers
        # do not come into a task that says which tools it may use: `--tools` leaves those of servers in.
        "strict_mcp_config": not own or task.tools is not None,
        "setting_sources": ["user"] if own else [],
        "extra_args": {} if instructions is None else {"append-system-prompt-file": str(instructions)},
        "effort": task.effort or options.effort,
    }
    if task.output_schema is not None:
        found["output_format"] = {"type": "json_schema", "schema": dict(task.output_schema)}
    return found


def _rules(options: ClaudeCodeOptions) -> Settings:
    named = {present_name(rule) for rule in options.allowed_tools}
    asked = () if options.permission_mode == "bypassPermissions" else _ASKED
    own_server: Settings = {"skipWebFetchPreflight": True} if options.base_url else {}  # it asks Anthropic's server
    return {
        **own_server,
        # Under `plan`, which the model may also enter by itself, a check at the model server would decide about
        # commands, and not the run's permission (observed: without that check every command is refused).
        "useAutoModeDuringPlan": False,
        "permissions": {"ask": [rule for rule in asked if rule not in named]},  # a question outweighs what is allowed
    }


def _pair(flag: str) -> Callable[[Any], list[str]]:
    return lambda value: [flag, str(value)]


def _list(flag: str) -> Callable[[Any], list[str]]:
    return lambda value: [flag, ",".join(value)] if value else []


def _switch(flag: str) -> Callable[[Any], list[str]]:
    return lambda value: [flag] if value else []


_FLAGS: Final[Mapping[str, Callable[[Any], list[str]]]] = {  # in the order in which the SDK writes them
    "tools": lambda value: ["--tools", ",".join(value)],  # an empty list means none
    "allowed_tools": _list("--allowedTools"),
    "max_turns": _pair("--max-turns"),
    "max_budget_usd": _pair("--max-budget-usd"),
    "disallowed_tools": _list("--disallowedTools"),
    "model": _pair("--model"),
    "permission_prompt_tool_name": _pair("--permission-prompt-tool"),
    "permission_mode": _pair("--permission-mode"),
    "resume": lambda value: [f"--resume={value}"],
    "settings": _pair("--settings"),
    "mcp_servers": _pair("--mcp-config"),
    "include_partial_messages": _switch("--include-partial-messages"),
    "strict_mcp_config": _switch("--strict-mcp-config"),
    "setting_sources": lambda value: [f"--setting-sources={','.join(value)}"],
    "extra_args": lambda value: [word for name, text in value.items() for word in (f"--{name}", text)],
    "effort": _pair("--effort"),
    "output_format": lambda value: ["--json-schema", json.dumps(value["schema"])],
}


def arguments(given: Settings) -> list[str]:
    """The arguments of `claude`, without the program."""
    found = ["--output-format", "stream-json", "--verbose"]
    for name, write in _FLAGS.items():
        if (value := given.get(name)) is not None:
            found += write(value)
    return [*found, "--input-format", "stream-json"]
