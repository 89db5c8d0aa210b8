"""What a `ClaudeCode` can be told: one frozen model, from which names, defaults, errors and help come."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from subagent_claude_code._agents import Agent, AgentFields, AgentName
from subagent_claude_code._names import Effort, ModelName, check_names, tool_of
from subagent_claude_code._servers import HttpFields, HttpServer, Server, ServerName, StdioFields, StdioServer
from subagents.backend.fields import ApiKey, BaseUrl, Folder, Home, HomeKind, KeyVariable, Limit, Seconds

PermissionMode: TypeAlias = Literal["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]


class ClaudeCodeOptions(BaseModel):
    """The options of `ClaudeCode`. Every time is in seconds, as a float."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    model: ModelName | None = Field(
        default=None, description="the model, or an alias (sonnet, opus); else Claude Code's own"
    )
    effort: Effort | None = Field(default=None, description="how hard to think, as Claude Code names it")
    permission_mode: PermissionMode = Field(
        default="default", description="when Claude Code asks before it acts; the answer is the run's permission"
    )
    allowed_tools: tuple[str, ...] = Field(
        default=(),
        description="rules of what runs without asking, as `Bash(git status)`; a tool's bare name has no bounds",
    )
    disallowed_tools: tuple[str, ...] = Field(default=(), description="rules of what never runs")
    agents: Mapping[AgentName, Agent] = Field(
        default_factory=dict[str, Agent],
        description="sub-agents that the model may start, by name: a table of description, prompt, tools,"
        " disallowed_tools, model, effort, max_turns",
    )
    mcp_servers: Mapping[ServerName, Server] = Field(
        default_factory=dict[str, StdioServer | HttpServer],
        description="MCP servers of a run, by name: a table of command, args, env; or of url, headers",
    )
    home: Home = Field(
        default="isolated",
        description="isolated: a private one for each run; inherit: your own sign-in and settings; a path: that"
        " CLAUDE_CONFIG_DIR, made if missing, used by one run at a time, never removed",
    )
    tool_home: Literal["private", "real"] = Field(
        default="private",
        description="HOME of the commands of a task; real shows them everything in yours, tokens in its files included",
    )
    api_key: ApiKey | None = Field(default=None, description="an API key; commands of the task do not get it")
    api_key_env: KeyVariable | None = Field(
        default=None, description="the variable of this process that holds the API key"
    )
    base_url: BaseUrl | None = Field(default=None, description="a Messages API of your own instead of Anthropic's")
    executable: Folder | None = Field(
        default=None, description="the claude to run; else the one bundled with the SDK, else that on PATH"
    )
    project_instructions: bool = Field(
        default=False, description="whether the CLAUDE.md of the project is read; nothing else of it ever is"
    )
    max_refusals: int = Field(
        default=8, ge=1, description="after so many refused requests a run fails with kind policy"
    )
    max_retries: int = Field(default=2, ge=0, le=100, description="how often the engine repeats a failed request")
    request_timeout: Limit = Field(
        default=300.0,
        description="without a word of the model server in a request; the engine then gives it up, and repeats it",
    )
    ready_timeout: Limit = Field(default=30.0, description="for each step of the engine before the task is accepted")
    interrupt_grace: Seconds = Field(
        default=2.0, description="for the engine to interrupt the turn and end its commands"
    )
    eof_grace: Seconds = Field(default=1.0, description="from the end of its input to SIGTERM")
    term_grace: Seconds = Field(default=3.0, description="from SIGTERM, on which it ends its commands, to SIGKILL")

    @field_validator("allowed_tools", "disallowed_tools")
    @classmethod
    def _rules(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for rule in value:
            tool_of(rule)
        return value

    @model_validator(mode="after")
    def _together(self) -> ClaudeCodeOptions:
        if self.api_key is not None and self.api_key_env is not None:
            raise ValueError("give api_key or api_key_env, not both")
        if self.base_url is not None and self.home == "inherit":
            raise ValueError("base_url does not go with home='inherit': your own sign-in would be sent to that address")
        ruled = [tool_of(rule) for rule in (*self.allowed_tools, *self.disallowed_tools)]
        named = [*ruled, *(tool for agent in self.agents.values() for tool in agent.names)]
        check_names(
            named,
            servers=None if self.home == "inherit" else self.mcp_servers.keys(),
            newer=self.executable is not None,
        )
        return self


class ClaudeCodeFields(TypedDict, total=False):
    """The options as keywords of `ClaudeCode`, for type checkers; `ClaudeCodeOptions` says what they mean."""

    model: str | None
    effort: Effort | None
    permission_mode: PermissionMode
    allowed_tools: tuple[str, ...]
    disallowed_tools: tuple[str, ...]
    agents: Mapping[str, AgentFields]
    mcp_servers: Mapping[str, StdioFields | HttpFields]
    home: HomeKind | str | Path
    tool_home: Literal["private", "real"]
    api_key: str | SecretStr | None
    api_key_env: str | None
    base_url: str | None
    executable: str | Path | None
    project_instructions: bool
    max_refusals: int
    max_retries: int
    request_timeout: float
    ready_timeout: float
    interrupt_grace: float
    eof_grace: float
    term_grace: float
