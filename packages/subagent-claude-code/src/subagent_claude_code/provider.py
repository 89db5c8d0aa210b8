"""`ClaudeCode`: Claude Code, through the official SDK, as a provider of subagents.

A run is: a home, one `claude` that we own, the SDK's client over a transport of ours, one task. The engine has accepted
the work with `system/init`; everything before that fails as a `StartError`. The `result` message is the verdict, once
the engine owes no further turn; without one the exit of the process is an `error`. Ending the process comes after the
verdict and cannot change it.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from typing import ClassVar, Final, Unpack, get_args

from pydantic import BaseModel

from subagent_claude_code._names import Effort, check_model, check_names, present_name, server_of
from subagent_claude_code._servers import secrets_of
from subagent_claude_code.options import ClaudeCodeFields, ClaudeCodeOptions
from subagent_process import remember
from subagents import Failure, Link, Probe, Provider, StartError, Task, TaskError
from subagents.backend.fields import read_key

_SCHEMA_BYTES: Final = 100_000  # it is an argument of the program, and Linux takes 131,072 bytes of one


class ClaudeCode(Provider):
    """Claude Code in a process of its own.

        ClaudeCode(home="inherit", permission_mode="acceptEdits")

    Capabilities: `model`, `effort`, `instructions`, `output_schema`, `tools`, `max_turns`, `budget`, `send` (a further
    message, taken when the turn allows), and `resume` where the home lasts.

    Attributes:
        options: what it was told.
    """

    options_type: ClassVar[type[BaseModel] | None] = ClaudeCodeOptions

    def __init__(self, name: str = "claude-code", **options: Unpack[ClaudeCodeFields]) -> None:
        """Configure; nothing starts, and no file is touched.

        Args:
            name: of this instance, kebab-case.
            options: fields of `ClaudeCodeOptions`.

        Raises:
            pydantic.ValidationError: an option is unknown or wrong.
        """
        self.name = name
        self.options = ClaudeCodeOptions.model_validate(options)
        lasting = {"resume"} if self.options.home != "isolated" else set[str]()
        self.capabilities = frozenset(
            {"model", "effort", "instructions", "output_schema", "tools", "max_turns", "budget", "send"} | lasting
        )

    def check(self, task: Task) -> None:
        """Refuse what Claude Code does not take: see `Provider.check`."""
        if self.options.permission_mode == "bypassPermissions" and os.geteuid() == 0:
            raise TaskError(
                "Claude Code refuses bypassPermissions for root: run as another user, or take acceptEdits"
                " and permission='allow'"
            )
        try:
            check_model(task.model or "none")
        except ValueError as error:
            raise TaskError(f"model {error}") from None
        if task.effort is not None and task.effort not in get_args(Effort):
            raise TaskError(f"effort {task.effort!r} is none of {', '.join(get_args(Effort))}")
        self._check_tools(task.tools or ())
        if "Agent" in map(present_name, task.tools or ()):
            self._check_agents(task.tools or ())
        if task.output_schema is not None and task.output_schema.get("type", "object") != "object":
            raise TaskError(
                f"output_schema describes {task.output_schema['type']!r}, and Claude Code takes an object alone: put it"
                " into one, as a property"
            )
        if task.output_schema is not None and len(json.dumps(task.output_schema)) > _SCHEMA_BYTES:
            raise TaskError(
                f"output_schema is longer than {_SCHEMA_BYTES:,} bytes, and Claude Code takes no longer one"
            )
        if task.resume is not None and not _is_uuid(task.resume):
            raise TaskError(f"resume is the session of an earlier run, a UUID, not {task.resume[:80]!r}")

    def _check_agents(self, tools: Sequence[str]) -> None:
        for name, agent in self.options.agents.items():
            if agent.tools is not None and not _shared(agent.tools, tools):
                raise TaskError(
                    f"the agent {name} may use {', '.join(agent.tools) or 'nothing'}, and the task none of it: an agent"
                    " gets what both name"
                )

    def _check_tools(self, tools: Sequence[str]) -> None:
        try:
            check_names(tools, servers=self.options.mcp_servers.keys(), newer=self.options.executable is not None)
        except ValueError as error:
            raise TaskError(f"tools: {error}") from None
        for tool in tools:
            server = server_of(tool)
            if server is not None and tool != f"mcp__{server}":
                raise TaskError(
                    f"tools: Claude Code offers the tools of a server together, so name mcp__{server} instead of"
                    f" {tool[:80]!r}, and forbid single ones with disallowed_tools"
                )

    async def drive(self, task: Task, link: Link) -> None:
        """Do one task. See the module for what counts when."""
        from subagent_claude_code._binary import SIGN_IN, locate
        from subagent_claude_code._drive import Drive
        from subagent_claude_code._home import open_home

        options, key = self.options, read_key(self.options.api_key, self.options.api_key_env)
        remember(secrets_of(options.mcp_servers))  # as `read_key` does with the key
        binary = await locate(options)
        if options.home == "isolated" and key is None and options.base_url is None:
            raise StartError(Failure("auth", "start", SIGN_IN))
        async with open_home(options, link) as home:
            await Drive(task, link, options, key, binary, home).run()

    async def _probe(self) -> Probe:
        from subagent_claude_code._binary import probe

        return await probe(self.options)


def _shared(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether both name a tool; those of a server count as one."""
    first, second = ({server_of(tool) or present_name(tool) for tool in tools} for tools in (one, other))
    return not first.isdisjoint(second)


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
