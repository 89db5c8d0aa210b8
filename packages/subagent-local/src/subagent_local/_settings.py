"""The one place of this package that reads the environment.

`child_env` is not the right reader here: it removes what looks like a credential, and an index of one's own is often
configured as an address with a password. Nothing that is read here goes to a child.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from subagent_local.errors import CacheUnusable


def environment() -> Mapping[str, str]:
    """The environment of this process."""
    return os.environ  # noqa: TID251


def home(env: Mapping[str, str]) -> Path:
    """The person's home folder, by `HOME` first, like pip and uv see it; ``/`` when there is none, as in containers."""
    try:
        return Path(env["HOME"]) if env.get("HOME") else Path.home()
    except RuntimeError:
        return Path("/")


def cache_root(env: Mapping[str, str]) -> Path:
    """Where everything is cached: ``$SUBAGENTS_CACHE``, else ``subagents`` in the platform's cache folder.

    Raises:
        CacheUnusable: the variable names the home of a person who does not exist.
    """
    if chosen := env.get("SUBAGENTS_CACHE"):
        try:
            return Path(chosen).expanduser()
        except RuntimeError as error:
            raise CacheUnusable(chosen, "nobody here has that name") from error
    if env.get("XDG_CACHE_HOME"):
        return Path(env["XDG_CACHE_HOME"]) / "subagents"
    platform_folder = {"darwin": "Library/Caches", "win32": "AppData/Local"}.get(sys.platform, ".cache")
    return home(env) / platform_folder / "subagents"


def config_homes(env: Mapping[str, str]) -> tuple[Path, tuple[Path, ...]]:
    """The person's configuration folder, and the machine's, the most important one first."""
    own = Path(env["XDG_CONFIG_HOME"]) if env.get("XDG_CONFIG_HOME") else home(env) / ".config"
    shared = env.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    return own, tuple(Path(entry) for entry in shared.split(":") if entry)
