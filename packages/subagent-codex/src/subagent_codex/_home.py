"""CODEX_HOME: a throwaway one, a pinned one, or the person's own."""

from __future__ import annotations

import tomllib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from subagent_codex.options import CodexOptions
from subagent_process import ThrowawayHome, child_env, throwaway_home
from subagents import Failure, Link, StartError
from subagents.backend.homes import pinned_home


@dataclass(frozen=True, slots=True)
class Home:
    """Where a run's engine keeps its files.

    Attributes:
        codex: CODEX_HOME.
        private: HOME, TMPDIR and the rest, removed after the run; in an inherited home only what tools need.
        lasts: threads are kept, and can be resumed.
        theirs: the person's own configuration, as far as it can be read; empty in another home.
    """

    codex: Path
    private: ThrowawayHome
    lasts: bool
    theirs: Mapping[str, Any] = field(default_factory=dict[str, Any])


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
            codex = inherited()
            yield Home(codex, private, lasts=True, theirs=configuration(codex))
        else:
            async with pinned_home(Path(options.home), link):
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


def speaks_about(theirs: Mapping[str, Any], cwd: str) -> bool:
    """Whether the person's own configuration says if the folder is trusted."""
    try:
        return "trust_level" in theirs["projects"][cwd]
    except (LookupError, TypeError):
        return False


def key_variables(theirs: Mapping[str, Any]) -> tuple[str, ...]:
    """The variables from which the person's own configuration takes the key of its model provider."""
    try:
        chosen = theirs.get("profiles", {}).get(theirs.get("profile"), {}).get("model_provider")
        provider = theirs["model_providers"][chosen or theirs["model_provider"]]
        named = [provider.get("env_key"), *provider.get("env_http_headers", {}).values()]
    except (LookupError, TypeError, AttributeError):
        return ()
    return tuple(name for name in named if isinstance(name, str))


def hidden_variables(theirs: Mapping[str, Any]) -> tuple[str, ...]:
    """What commands do not get: what the person says, and the keys of their model provider."""
    if not (keys := key_variables(theirs)):
        return ()
    try:
        excluded = theirs["shell_environment_policy"]["exclude"]
        return (*(name for name in excluded if isinstance(name, str)), *keys)
    except (LookupError, TypeError):
        return keys


def configuration(home: Path) -> dict[str, Any]:
    """The person's own `config.toml`; empty where it cannot be read."""
    try:
        return tomllib.loads((home / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
