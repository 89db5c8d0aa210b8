"""Fixtures of the tests of the command."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

# pytest's importlib mode puts no folder on the path, and the helpers of this area are of no use to another one.
sys.path.insert(0, str(Path(__file__).parent))

from cli_kit import ENGINES, Done

from subagents._cli import main
from subagents._cli.signals import INTERRUPTS


class _Left(BaseException):
    """A command has ended its process, which here is that of all tests."""

    def __init__(self, code: int) -> None:
        self.code = code


def _leave(code: int) -> NoReturn:
    raise _Left(code)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Done]]:
    """The command inside this process: for the many cases where a process of its own would prove nothing more."""
    monkeypatch.setattr("sys.path", [str(ENGINES), *sys.path])
    for name in ("NO_COLOR", "FORCE_COLOR", "SUBAGENT_DEPTH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SUBAGENTS_CONFIG", os.devnull)  # not the file of whoever runs the tests
    monkeypatch.setattr(INTERRUPTS, "leave", _leave)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def run(*args: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["subagents", *args])
        capfd.readouterr()
        try:
            code = main()
        except _Left as left:
            code = left.code
        seen = capfd.readouterr()
        return Done(code, seen.out, seen.err)

    yield run
    root.handlers[:] = handlers
    root.setLevel(level)
