"""The one place of this package that reads the environment.

`child_env` is not the right reader here: it removes what looks like a credential, and an index of one's own is often
configured as an address with a password. Nothing that is read here goes to a child.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import subagent_process
from subagent_local.errors import CacheUnusable
from subagent_process.environment import person_home


def environment() -> Mapping[str, str]:
    """The environment of this process."""
    return os.environ  # noqa: TID251


def cache_root(env: Mapping[str, str]) -> Path:
    """Where everything is cached: ``$SUBAGENTS_CACHE``, else ``subagents`` in the platform's cache folder.

    Raises:
        CacheUnusable: the variable names the home of a person who does not exist.
    """
    try:
        return subagent_process.cache_root(env)
    except RuntimeError as error:
        raise CacheUnusable(env["SUBAGENTS_CACHE"], "nobody here has that name") from error


def config_homes(env: Mapping[str, str]) -> tuple[Path, tuple[Path, ...]]:
    """The person's configuration folder, and the machine's, the most important one first."""
    own = Path(env["XDG_CONFIG_HOME"]) if env.get("XDG_CONFIG_HOME") else person_home(env) / ".config"
    shared = env.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    return own, tuple(Path(entry) for entry in shared.split(":") if entry)
