"""The real Codex keeps the promises of every provider."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from codex_kit import against, shell

from subagent_codex import Codex
from subagent_testing import ScriptedResponses, Subject, responses
from subagents import Task


def turn(body: dict[str, object], n: int) -> list[responses.Step]:
    """What the prompt, the last message of the person, asks for."""
    items = body.get("input")
    assert isinstance(items, list)
    text = str(items)
    if "bursts" in text:
        return [responses.message("x" * 50 * 6000, chunks=6000)]
    if "lasts" in text:
        return [responses.message("soon"), responses.silence()]
    if "asks" in text and "_call_output" not in text:
        return [shell("touch asked")]
    return [responses.message("done")]


@pytest.fixture
def subject(codex_binary: Path, tmp_path: Path) -> Iterator[Subject]:
    work = tmp_path / "work"
    work.mkdir()
    with ScriptedResponses(turn) as api:
        yield Subject(
            make=lambda: against(api, approval_policy="untrusted", sandbox="workspace-write"),
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
