"""Sub-agents as configuration, in the words of the SDK."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from subagent_claude_code._agents import Agent, definition

WHOLE = {
    "description": "reviews",
    "prompt": "You review.",
    "tools": ("Read",),
    "disallowed_tools": ("Bash",),
    "model": "haiku",
    "effort": "high",
    "max_turns": 3,
}


def test_everything_that_an_agent_says_reaches_the_engine() -> None:
    assert definition(Agent.model_validate(WHOLE)) == {
        "description": "reviews",
        "prompt": "You review.",
        "tools": ["Read"],
        "disallowedTools": ["Bash"],
        "model": "haiku",
        "effort": "high",
        "maxTurns": 3,
    }


def test_what_is_not_said_is_the_engines_choice() -> None:
    found = definition(Agent(description="d", prompt="p"))
    assert {name for name, value in found.items() if value is not None} == {"description", "prompt"}


@pytest.mark.parametrize("text", ["", " ", "a\0b"])
def test_a_text_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        Agent(description="d", prompt=text)
