"""Sub-agents that the model may start, as configuration. They reach the engine in the SDK's `initialize` request."""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypedDict

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from subagent_claude_code._names import Effort, ModelName

AgentName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")]


def _plain_text(value: str) -> str:
    if not value.strip() or "\0" in value:
        raise ValueError("text is wanted, without a null character")
    return value


_Text: TypeAlias = Annotated[str, AfterValidator(_plain_text)]


class Agent(BaseModel):
    """One sub-agent. What it asks before it acts is answered as what the task itself asks.

    Its permission mode is that of the run: an agent with one of its own could do more than the run was given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    description: _Text = Field(description="when to start it, told to the model that does")
    prompt: _Text = Field(description="its system prompt")
    tools: tuple[str, ...] | None = Field(default=None, description="the tools that it gets; by default the task's")
    disallowed_tools: tuple[str, ...] = Field(default=(), description="tools that it does not get")
    model: ModelName | None = Field(
        default=None, description="its model, an alias, or inherit; else Claude Code's choice"
    )
    effort: Effort | None = Field(default=None, description="how hard it thinks")
    max_turns: int | None = Field(default=None, ge=1, description="the most turns that it takes")

    @property
    def names(self) -> tuple[str, ...]:
        """Every tool that it names."""
        return (*(self.tools or ()), *self.disallowed_tools)


class AgentFields(TypedDict, total=False):
    """An `Agent` as a table, for type checkers: `{"description": "reviews code", "prompt": "You review code."}`."""

    description: str
    prompt: str
    tools: tuple[str, ...] | None
    disallowed_tools: tuple[str, ...]
    model: str | None
    effort: Effort | None
    max_turns: int | None


def definition(agent: Agent) -> dict[str, object]:
    """The keywords of the SDK's `AgentDefinition`, which are the engine's words."""
    return {
        "description": agent.description,
        "prompt": agent.prompt,
        "tools": None if agent.tools is None else list(agent.tools),
        "disallowedTools": list(agent.disallowed_tools) or None,
        "model": agent.model,
        "effort": agent.effort,
        "maxTurns": agent.max_turns,
    }
