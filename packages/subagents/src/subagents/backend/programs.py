"""The program of an engine: where it is, what version it is, and how it ended."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio

from subagent_process import OwnedProcess, ProcessError, ProcessLost, child_env, run_command

_VERSION_LIMIT: Final = 5.0  # s; some milliseconds are usual


def unfit(path: Path, name: str) -> str:
    """Why it cannot be started as the program of that name, as the end of a sentence; empty when it can."""
    if not os.path.exists(path):  # not Path.exists, which raises where a folder may not be searched
        return f"does not exist: give the path of a {name}"
    if os.path.isdir(path):
        return f"is a folder: give the path of the {name} in it"
    return "" if os.access(path, os.R_OK | os.X_OK) else "may not be read and executed: give one that may"


def on_path(name: str) -> Iterator[Path]:
    """Where a child would find a program of that name, in the order of PATH."""
    for folder in child_env(minimal=True).get("PATH", os.defpath).split(os.pathsep):
        # A relative folder would mean another one in the working folder of the task, which may be hostile.
        if os.path.isabs(folder) and not unfit(path := Path(folder, name), name):
            yield path


async def version_of(path: Path, name: str, pattern: re.Pattern[bytes]) -> str:
    """What `--version` says, within 5 s.

    Args:
        path: of the program.
        name: what it should be.
        pattern: matched at the start of its output; its first group is the version, in ASCII.

    Raises:
        ProcessError: it does not start, does not end, or is none.
    """
    done = await run_command([path, "--version"], env=child_env(minimal=True), timeout=_VERSION_LIMIT)
    if done.exit != 0 or (found := pattern.match(done.stdout)) is None:
        raise ProcessError(f"{path} is no {name}: --version ended with exit code {done.exit} and named no version.")
    return found[1].decode("ascii")


async def has_ended(process: OwnedProcess, within: float) -> bool:
    """Whether it ends within so many seconds, or its supervisors have."""
    with anyio.move_on_after(within) as patience, suppress(ProcessLost):
        await process.wait()
    return not patience.cancelled_caught


def exit_words(exit_code: int | None) -> str:
    """How a process ended, in words, with what to do about it where that is known."""
    if exit_code is None:
        return "closed its output"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    memory = " (the system may have run out of memory)" if name == "SIGKILL" else ""
    return f"was ended by {name}{memory}"
