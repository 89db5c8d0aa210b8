"""The real Codex keeps the promises of every provider."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from server_kit import served

from subagent_codex import Codex
from subagent_testing import Subject
from subagents import Task

SERVER = """
import sys
from subagent_testing import ScriptedResponses, responses

def turn(body, n):
    text = str(body["input"])
    if "bursts" in text:
        return [responses.message("x" * 50 * 6000, chunks=6000)]
    if "lasts" in text:
        return [responses.message("soon"), responses.silence()]
    if "asks" in text and "_call_output" not in text:
        return [responses.function_call("exec_command", {"cmd": "touch asked"})]
    return [responses.message("done")]

with ScriptedResponses(turn) as api:
    print(api.base_url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with served(SERVER) as url:
        yield url


@pytest.fixture
def subject(codex_binary: Path, base_url: str, tmp_path: Path) -> Subject:
    work = tmp_path / "work"
    work.mkdir()
    return Subject(
        make=lambda: Codex(base_url=base_url, approval_policy="untrusted", sandbox="workspace-write"),
        task=Task("completes", cwd=work),
        slow_task=Task("lasts", cwd=work),
        ask_task=Task("asks", cwd=work),
        burst_task=Task("bursts", cwd=work),
        failing=Codex,  # nobody is signed in
    )


@pytest.mark.long
def test_the_real_codex_keeps_the_promises_of_every_provider(
    provider_promise: Callable[[Subject], None], subject: Subject
) -> None:
    provider_promise(subject)
