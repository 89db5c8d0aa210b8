"""The real Claude Code keeps the promises of every provider."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from claude_kit import KEY
from server_kit import served

from subagent_claude_code import ClaudeCode
from subagent_testing import Subject
from subagents import Task

SERVER = """
import sys
from subagent_testing import ScriptedMessages, messages

def turn(body, n):
    text = str(body["messages"])
    if "bursts" in text:
        return [messages.text("x" * 50 * 6000, chunks=6000)]
    if "lasts" in text:
        return [messages.text("soon"), messages.silence()]
    if "asks" in text and "tool_result" not in text:
        return [messages.tool_use("Bash", {"command": "touch asked", "description": "d"})]
    return [messages.text("done")]

with ScriptedMessages(turn) as api:
    print(api.base_url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with served(SERVER) as url:
        yield url


@pytest.fixture
def subject(base_url: str, tmp_path: Path) -> Subject:
    work = tmp_path / "work"
    work.mkdir()
    return Subject(
        make=lambda: ClaudeCode(base_url=base_url, api_key=KEY, max_retries=0),
        task=Task("completes", cwd=work),
        slow_task=Task("lasts", cwd=work),
        ask_task=Task("asks", cwd=work),
        burst_task=Task("bursts", cwd=work),
        failing=ClaudeCode,  # nobody is signed in
    )


@pytest.mark.long
def test_the_real_claude_keeps_the_promises_of_every_provider(
    provider_promise: Callable[[Subject], None], subject: Subject
) -> None:
    provider_promise(subject)
