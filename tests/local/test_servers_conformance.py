"""`Local` with a server keeps the promises of every provider: with scripted servers, and with a real llama-server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from llama_kit import Llama, running_llama

from subagent_local import Local
from subagent_testing import Subject

pytestmark = pytest.mark.long

Promise = Callable[[Subject], None]


@pytest.fixture(scope="module", params=["llama.cpp", "ollama"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A scripted server for each of the two ways to be answered."""
    argv = [sys.executable, str(Path(__file__).with_name("server_program.py")), request.param]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()


def test_with_a_scripted_server(provider_promise: Promise, url: str, unused_port: int) -> None:
    subject = Subject(
        make=lambda: Local(url=url),
        task="completes",
        slow_task="lasts",
        burst_task="bursts",
        failing=lambda: Local(url=f"http://127.0.0.1:{unused_port}"),
    )
    provider_promise(subject)


@pytest.fixture(scope="module")
def busy(small_model: Path) -> Iterator[Llama]:
    """A real llama-server for more than one at a time."""
    with running_llama(small_model, slots=4) as running:
        yield running


def test_with_a_real_llama_server(provider_promise: Promise, busy: Llama, unused_port: int) -> None:
    subject = Subject(
        make=lambda: busy.local(max_tokens=1500),
        task="Explain in one sentence what a Python context manager is.",
        slow_task="Count from one to a thousand, one number on each line.",
        failing=lambda: Local(url=f"http://127.0.0.1:{unused_port}"),
    )
    provider_promise(subject)
