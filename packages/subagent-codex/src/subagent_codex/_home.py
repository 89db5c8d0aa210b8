"""CODEX_HOME: a throwaway one, a pinned one, or the person's own."""

from __future__ import annotations

import fcntl
import os
import tomllib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio

from subagent_codex.options import CodexOptions
from subagent_process import ThrowawayHome, child_env, throwaway_home
from subagents import Failure, Link, NoticeEvent, StartError

_LOCK: Final = ".subagents.lock"
_LOCK_POLL: Final = (0.02, 0.5)  # s, from the first look to the longest pause

_held: Final[set[int]] = set()


def _after_fork() -> None:  # pragma: no cover - runs only in a fork of the harness, which a test starts
    """A fork of the harness shares the lock, and would hold it after the run."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True, slots=True)
class Home:
    """Where a run's engine keeps its files.

    Attributes:
        codex: CODEX_HOME.
        private: HOME, TMPDIR and the rest, removed after the run; in an inherited home only what tools need.
        lasts: threads are kept, and can be resumed.
    """

    codex: Path
    private: ThrowawayHome
    lasts: bool


@asynccontextmanager
async def open_home(options: CodexOptions, link: Link) -> AsyncGenerator[Home]:
    """The home of one run.

    Raises:
        StartError: a pinned home cannot be made, or there is none to inherit.
        subagent_process.HomeError: no private folder could be made.
    """
    async with throwaway_home("codex", "bin") as private:
        if options.home == "isolated":
            yield Home(private.path("codex"), private, lasts=False)
        elif options.home == "inherit":
            yield Home(inherited(), private, lasts=True)
        else:
            async with _pinned(Path(options.home), link):
                yield Home(Path(options.home), private, lasts=True)


def inherited() -> Path:
    """The person's CODEX_HOME.

    Raises:
        StartError: it is not there.
    """
    found = child_env(passing=("CODEX_HOME", "HOME"))
    path = Path(found.get("CODEX_HOME") or Path(found.get("HOME") or "~").expanduser() / ".codex").absolute()
    if not path.is_dir():
        raise StartError(
            Failure("auth", "start", f"there is no Codex home to inherit ({path}): sign in with `codex login` first")
        )
    return path


def speaks_about(home: Path, cwd: str) -> bool:
    """Whether the person's own configuration says if the folder is trusted."""
    try:
        return "trust_level" in _configuration(home)["projects"][cwd]
    except (LookupError, TypeError):
        return False


def key_variables(home: Path) -> tuple[str, ...]:
    """The variables from which the person's own configuration takes the key of its model provider."""
    found = _configuration(home)
    try:
        chosen = found.get("profiles", {}).get(found.get("profile"), {}).get("model_provider")
        provider = found["model_providers"][chosen or found["model_provider"]]
        named = [provider.get("env_key"), *provider.get("env_http_headers", {}).values()]
    except (LookupError, TypeError, AttributeError):
        return ()
    return tuple(name for name in named if isinstance(name, str))


def hidden_variables(home: Path) -> tuple[str, ...]:
    """What commands do not get: what the person says, and the keys of their model provider."""
    if not (keys := key_variables(home)):
        return ()
    try:
        theirs = _configuration(home)["shell_environment_policy"]["exclude"]
        return (*(name for name in theirs if isinstance(name, str)), *keys)
    except (LookupError, TypeError):
        return keys


def _configuration(home: Path) -> dict[str, Any]:
    try:
        return tomllib.loads((home / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


@asynccontextmanager
async def _pinned(path: Path, link: Link) -> AsyncGenerator[None]:
    descriptor = _made(path)
    _held.add(descriptor)
    try:
        await _locked(descriptor, path, link)
        yield
    finally:
        _held.discard(descriptor)
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a fork may not have closed its copy yet
        os.close(descriptor)


def _made(path: Path) -> int:
    """The folder, and its open lock file."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        reason = f"the home {path} cannot be used: {error.strerror}; give a folder that can be written in"
        raise StartError(Failure("launch", "start", reason)) from error


async def _locked(descriptor: int, path: Path, link: Link) -> None:
    pause, longest = _LOCK_POLL
    told = False
    while not _taken(descriptor, path):
        if not told:
            link.emit(NoticeEvent(f"waiting for the home {path}, which another run uses", "waiting"))
            told = True
        await anyio.sleep(pause)
        pause = min(pause * 2, longest)


def _taken(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        reason = f"the home {path} cannot be locked ({error.strerror}): give a folder on a local disk"
        raise StartError(Failure("launch", "start", reason)) from error
    return True
