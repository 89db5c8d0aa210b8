"""The parrot keeps the promises of a provider, and is found by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

import subagents
from subagent_parrot import Parrot
from subagent_testing import Subject

SUBJECT = Subject(
    make=Parrot,
    task="say hi",
    slow_task="work",
    ask_task="ask",
    burst_task="burst",
    linger_task="linger",
    failing=lambda: Parrot(executable=Path("/nowhere/python")),
)


def test_it_keeps_every_promise(provider_promise: Callable[[Subject], None]) -> None:
    provider_promise(SUBJECT)


def test_it_is_found_by_its_name_and_takes_its_options_as_text() -> None:
    found = subagents.create("parrot", name="loud-parrot", options={"voice": "loud"})
    assert subagents.run_sync(found, "good morning").output == "GOOD MORNING"
    with pytest.raises(subagents.ConfigError, match="voice: input should be 'plain' or 'loud'"):
        subagents.create("parrot", options={"voice": "soft"})


def test_a_probe_says_what_to_do() -> None:
    missing = anyio.run(Parrot(executable=Path("/nowhere/python")).probe)
    assert (missing.available, missing.fix) == (False, "give a Python as the option executable")
    assert anyio.run(Parrot().probe).version == "1.0"


def test_a_parrot_that_falls_silent_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    sick = tmp_path / "python"
    sick.write_text("#!/bin/sh\nread task\necho '{\"type\": \"hello\"}'\necho 'no voice' >&2\nexit 3\n")
    sick.chmod(0o755)
    failure = subagents.run_sync(Parrot(executable=sick), "hi").failure
    assert failure is not None
    assert (failure.kind, failure.exit_code) == ("exit", 3)
    assert failure.message == "the parrot fell silent with exit code 3. no voice"
