"""Claude Code keeps the promises of every provider, on the fake engine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from subagent_claude_code import ClaudeCode
from subagent_testing import Subject
from subagents import Link, Task

pytest.importorskip("claude_agent_sdk")

NOWHERE = "http://127.0.0.1:9"
LINGERS = 0.5

SCRIPTS: dict[str, Any] = {
    "completes": {"turn": [{"text": "done"}]},
    "lasts": {"turn": [{"text": "soon"}, "work"]},
    "asks": {"turn": [{"tool": {"ask": True}}, {"text": "done"}]},
    "bursts": {"turn": [{"text": {"text": "x" * 300_000, "deltas": 6000}}]},
    "lingers": {"turn": [{"text": "done"}], "on": {"EOF": [[{"pause": LINGERS}, {"exit": 0}]]}},
}
"""By prompt."""

# In a process of its own: in this one its threads and descriptors would count as left behind.
FAKES = """
import json, sys
from subagent_testing import FakeClaude

fakes = {prompt: FakeClaude(script) for prompt, script in json.loads(sys.stdin.readline()).items()}
print(json.dumps({prompt: str(fake.executable) for prompt, fake in fakes.items()}), flush=True)
sys.stdin.read()
for fake in fakes.values():
    fake.close()
"""


class OnFakes(ClaudeCode):
    """A Claude Code with an engine for each prompt: a fake has one script, and a subject several tasks."""

    def __init__(self, executables: dict[str, str]) -> None:
        super().__init__(base_url=NOWHERE, eof_grace=2 * LINGERS)
        self._executables = executables

    async def drive(self, task: Task, link: Link) -> None:
        engine, given = self._executables[task.prompt], self.options.model_dump(include={"base_url", "eof_grace"})
        await ClaudeCode(executable=engine, **given).drive(task, link)


@pytest.fixture(scope="module")
def executables() -> Iterator[dict[str, str]]:
    with subprocess.Popen([sys.executable, "-c", FAKES], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as fakes:
        assert fakes.stdin is not None
        assert fakes.stdout is not None
        fakes.stdin.write(json.dumps(SCRIPTS).encode() + b"\n")
        fakes.stdin.flush()
        yield json.loads(fakes.stdout.readline())
        fakes.stdin.close()


@pytest.fixture
def subject(executables: dict[str, str], tmp_path: Path) -> Subject:
    work = tmp_path / "work"
    work.mkdir()
    return Subject(
        make=lambda: OnFakes(executables),
        task=Task("completes", cwd=work),
        slow_task=Task("lasts", cwd=work),
        ask_task=Task("asks", cwd=work),
        burst_task=Task("bursts", cwd=work),
        linger_task=Task("lingers", cwd=work),
        lingers=LINGERS,
        failing=ClaudeCode,  # nobody is signed in
    )


@pytest.mark.long
def test_claude_keeps_the_promises_of_every_provider(
    provider_promise: Callable[[Subject], None], subject: Subject
) -> None:
    provider_promise(subject)
