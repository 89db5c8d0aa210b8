"""Exactly what a child gets as its environment.

The only place that reads this process's environment for a child.  The tables and the doubtful decisions are in
``removal``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from .redaction import remember
from .removal import removal_reason

if TYPE_CHECKING:
    from .home import ThrowawayHome

__all__ = ["cache_root", "child_env", "depth", "state_root"]

DEPTH = "SUBAGENT_DEPTH"
_NOTHING: Mapping[str, str] = MappingProxyType({})

_MINIMAL = frozenset(
    """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TERM COLORTERM NO_COLOR TMPDIR TEMP TMP
    HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy
    SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GIT_SSL_CAINFO
    """.split()  # noqa: SIM905  # one word beside the other is easier to read
)


_SYSTEM = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin")


def depth() -> int:
    """How deep in delegations this process runs: 0 for one that no agent of ours started."""
    return _depth(os.environ)


def _depth(ambient: Mapping[str, str]) -> int:
    value = ambient.get(DEPTH)
    if value is None:
        return 0
    # Rubbish means that somebody tampered with it: not a reason to start at 0 again.
    return int(value) if re.fullmatch(r"[0-9]{1,9}", value) else 1


def child_env(
    *,
    set: Mapping[str, str] = _NOTHING,  # noqa: A002 - the word of the interface
    passing: Collection[str] = (),
    minimal: bool = False,
    home: ThrowawayHome | None = None,
    ambient: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The whole environment of a child, as a new dict; this process's own is not touched.

    The ambient environment without credentials, session markers of other agents, loader, git location and virtual
    environment variables (see ``removal_reason``), and with the bin folder of this library's virtual environment
    taken out of PATH.  Then the home's variables, then ``set``. ``SUBAGENT_DEPTH`` is always the ambient depth + 1:
    ``set`` and ``passing`` have no say in it.

    Args:
        set: what configuration gives the child; wins over everything but the depth.
        passing: names that are let through although they would be removed, where they exist.
        minimal: start from a short list (PATH, HOME, language, terminal, proxies, certificates) and not from
            everything.
        home: a throwaway home whose HOME, TMPDIR and XDG folders the child is to have.
        ambient: instead of ``os.environ``.
    """
    if isinstance(passing, str):
        raise TypeError(f"passing is the text {passing!r}: give a collection of names.")
    ambient = os.environ if ambient is None else ambient
    env = {name: value for name, value in ambient.items() if name in passing or _passes(name, value, minimal=minimal)}
    if "PATH" in env and "PATH" not in passing:
        env["PATH"] = _without_own_folders(env["PATH"], ambient)
    if home is not None:
        env |= home.env()
    env |= set
    env[DEPTH] = str(_depth(ambient) + 1)
    remember(value for name, value in env.items() if removal_reason(name, value) == "credential")
    return env


def _passes(name: str, value: str, *, minimal: bool) -> bool:
    if minimal and not (name in _MINIMAL or name.startswith("LC_")):
        return False
    return removal_reason(name, value) is None


def _without_own_folders(path: str, ambient: Mapping[str, str]) -> str:
    """PATH without the bin folders of the virtual environments that this library runs in or that is active."""
    prefixes = [sys.prefix] if sys.prefix != sys.base_prefix or sys.prefix == ambient.get("CONDA_PREFIX") else []
    if active := ambient.get("VIRTUAL_ENV"):
        prefixes.append(active)
    own = {os.path.realpath(os.path.join(prefix, "bin")) for prefix in prefixes}
    own -= {os.path.realpath(folder) for folder in _SYSTEM}  # VIRTUAL_ENV may be set to anything, /usr too
    kept = [entry for entry in path.split(os.pathsep) if not entry or os.path.realpath(entry) not in own]
    # Nothing but our own folder: an empty PATH would mean the working folder to a shell.
    return os.pathsep.join(kept) if any(kept) else os.defpath


def person_home(ambient: Mapping[str, str]) -> Path:
    """The person's home folder, by `HOME` first, like pip and uv see it; ``/`` when there is none, as in containers."""
    try:
        return Path(ambient["HOME"]) if ambient.get("HOME") else Path.home()
    except RuntimeError:
        return Path("/")


def cache_root(ambient: Mapping[str, str] | None = None) -> Path:
    """What can be made anew lies here: ``$SUBAGENTS_CACHE``, else ``subagents`` in the platform's cache folder.

    Args:
        ambient: instead of ``os.environ``.

    Raises:
        RuntimeError: the variable names the home of a person who does not exist.
    """
    ambient = os.environ if ambient is None else ambient
    if chosen := ambient.get("SUBAGENTS_CACHE"):
        return Path(chosen).expanduser()
    return _shared(ambient, "XDG_CACHE_HOME", {"darwin": "Library/Caches", "win32": "AppData/Local"}, ".cache")


def state_root(ambient: Mapping[str, str] | None = None) -> Path:
    """What must outlive a program, and is no configuration, lies here: ``subagents`` in the platform's state folder.

    Args:
        ambient: instead of ``os.environ``.
    """
    ambient = os.environ if ambient is None else ambient
    places = {"darwin": "Library/Application Support", "win32": "AppData/Local"}
    return _shared(ambient, "XDG_STATE_HOME", places, ".local/state")


def _shared(ambient: Mapping[str, str], variable: str, places: Mapping[str, str], other: str) -> Path:
    """Our folder in one that all programs share."""
    if chosen := ambient.get(variable):
        return Path(chosen, "subagents")
    return person_home(ambient) / places.get(sys.platform, other) / "subagents"
