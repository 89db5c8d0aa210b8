"""Codex keeps the promises of every provider, on the fake app-server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from protocol_kit import NOWHERE

from subagent_codex import Codex
from subagent_testing import Subject
from subagents import Link, Task

LINGERS = 0.5

SCRIPTS: dict[str, Any] = {
    "completes": {"turn": [{"message": "done"}]},
    "lasts": {"turn": [{"message": "soon"}, "work"]},
    "asks": {"turn": [{"command": {"ask": True}}, {"message": "done"}]},
    "bursts": {"turn": [{"message": {"text": "x" * 300_000, "deltas": 6000}}]},
    "lingers": {"turn": [{"message": "done"}], "on": {"EOF": [[{"pause": LINGERS}, {"exit": 0}]]}},
}
"""By prompt."""

# In a process of its own: in this one its threads and descriptors would count as left behind.
FAKES = """
import json, sys
from subagent_testing import FakeCodex

fakes = {prompt: FakeCodex(script) for prompt, script in json.loads(sys.stdin.readline()).items()}
print(json.dumps({prompt: str(fake.executable) for prompt, fake in fakes.items()}), flush=True)
sys.stdin.read()
for fake in fakes.values():
    fake.close()
"""


class OnFakes(Codex):
    """A Codex with an engine for each prompt: a fake has one script, and a subject several tasks."""

    def __init__(self, executables: dict[str, str]) -> None:
        super().__init__(base_url=NOWHERE, eof_grace=2 * LINGERS)
        self._executables = executables

    async def drive(self, task: Task, link: Link) -> None:
        engine = self._executables[task.prompt]
        await Codex(executable=engine, **self.options.model_dump(include={"base_url", "eof_grace"})).drive(task, link)


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
        failing=Codex,  # nobody is signed in
    )


@pytest.mark.long
def test_codex_keeps_the_promises_of_every_provider(
    provider_promise: Callable[[Subject], None], subject: Subject
) -> None:
    provider_promise(subject)
