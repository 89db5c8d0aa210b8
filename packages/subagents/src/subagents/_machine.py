"""What the machine offers to any provider: Python, the process floor, places to write, git.

Each look is bounded and raises nothing: it is made where things are broken.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import anyio
from anyio import to_thread

from subagent_process import cache_root, child_env, depth, open_process, redact
from subagents._registry import unreadable
from subagents._verdict import leaves, told
from subagents._wire import Wire

_LIMIT: Final = 15.0  # s for one look
_VERSION: Final = re.compile(rb"git version ([!-~]{1,50})")
_OWNED: Final = "a child's whole tree ends with it, also when this program is killed"
_MISSING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "daemons": "a daemon that clears its environment outlives its run",
        "forked-harness": "a fork of a killed program can delay the end of its children",
    }
)


@dataclass(frozen=True, slots=True)
class Fact(Wire):
    """One thing about the machine.

    Attributes:
        name: what it is about.
        ok: nothing is missing.
        detail: what is there.
        fix: what to do when something is missing; empty when nothing is.
    """

    name: str
    ok: bool
    detail: str
    fix: str = ""


async def look_at_machine() -> list[Fact]:
    """What is here, in a fixed order, and what is wrong besides; all looks at once."""
    looks: dict[str, Callable[[], Awaitable[Fact | None]]] = {
        "python": _python,
        "processes": _processes,
        "cache": _cache,
        "temporary files": _temporary,
        "git": _git,
        "packages": _packages,
        "delegation": _delegation,
    }
    facts: dict[str, Fact | None] = {}

    async def look(name: str, body: Callable[[], Awaitable[Fact | None]]) -> None:
        facts[name] = Fact(name, False, f"no answer within {_LIMIT:g} s")
        with anyio.move_on_after(_LIMIT):
            try:
                facts[name] = await body()
            except Exception as exc:  # noqa: BLE001  # a machine can be broken in every way
                facts[name] = Fact(name, False, redact(told(leaves(exc)[0])))

    async with anyio.create_task_group() as tasks:
        for name, body in looks.items():
            tasks.start_soon(look, name, body)
    return [fact for name in looks if (fact := facts[name]) is not None]


async def _python() -> Fact:
    system = os.uname()
    where = sys.executable or "no executable is known"
    return Fact(
        "python",
        True,
        f"{platform.python_version()} on {system.sysname} {system.release} {system.machine}, {where}",
    )


async def _processes() -> Fact:
    """By a child that does nothing: what a platform promises is known when its supervisor has spoken."""
    argv = [sys.executable or "python3", "-I", "-S", "-c", ""]
    async with await open_process(argv, env=child_env(minimal=True), cwd="/") as child:
        await child.wait()
    missing = child.report.missing if child.report is not None else ()
    return Fact("processes", True, "; ".join(_MISSING.get(word, word) for word in missing) or _OWNED)


async def _cache() -> Fact:
    fix = "set SUBAGENTS_CACHE to a folder that can be written"
    try:
        folder = cache_root()
    except RuntimeError as exc:
        return Fact("cache", False, f"SUBAGENTS_CACHE: {exc}", fix)
    if why := await to_thread.run_sync(_unwritable, folder, abandon_on_cancel=True):
        return Fact("cache", False, f"{folder} {why}", fix)
    return Fact("cache", True, f"{folder}, {_free(folder)}")


async def _temporary() -> Fact:
    fix = "set TMPDIR to a folder that can be written"
    try:
        folder = Path(await to_thread.run_sync(tempfile.gettempdir, abandon_on_cancel=True))
    except FileNotFoundError as exc:
        return Fact("temporary files", False, exc.strerror or str(exc), fix)
    return Fact("temporary files", True, f"{folder}, {_free(folder)}")


async def _git() -> Fact:
    from subagents.backend.programs import on_path, version_of

    paths = list(on_path("git"))
    if not paths:
        detail = "not on PATH: what a run changed is not told, and --worktree is refused"
        return Fact("git", False, detail, "install git")
    return Fact("git", True, f"{await version_of(paths[0], 'git', _VERSION)}, {paths[0]}")


async def _packages() -> Fact | None:
    if not (found := await to_thread.run_sync(unreadable, abandon_on_cancel=True)):
        return None
    detail = f"{'; '.join(found)}: providers that it offers are not there"
    return Fact("packages", False, detail, "install that package anew, or remove it")


async def _delegation() -> Fact | None:
    if not (deep := depth()):
        return None
    detail = f"this program runs inside a run already (level {deep}): its own runs are refused"
    return Fact("delegation", False, detail, f"allow them with --max-depth {deep + 1}")


def _unwritable(folder: Path) -> str:
    """Why nothing can be put there, as the end of a sentence; nothing is made to find out."""
    there = _existing(folder)
    if not os.path.isdir(there):
        return f"cannot be made: {there} is no folder"
    if os.access(there, os.W_OK | os.X_OK):
        return ""
    return "cannot be written" if there == folder else f"cannot be made: {there} cannot be written"


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one around it that is there."""
    return next((one for one in (folder, *folder.absolute().parents) if os.path.lexists(one)), Path("/"))


def _free(folder: Path) -> str:
    return f"{shutil.disk_usage(_existing(folder)).free / 1e9:,.1f} GB free"
