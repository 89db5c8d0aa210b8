"""Which `claude` runs: the configured one, else the one bundled with the SDK, else the first on PATH; and the probe."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

from anyio import to_thread

from subagent_claude_code.options import ClaudeCodeOptions
from subagent_process import ProcessError, child_env, redact, run_command, throwaway_home
from subagents import Failure, Probe, StartError
from subagents.backend.programs import on_path, unfit, version_of

Source = Literal["configured", "bundled", "path"]

PINNED: Final = "2.1.332"
"""The version that this was written and tested with: the one in claude-agent-sdk 0.2.189."""
FLOOR: Final = "2.1.248"
"""The oldest version that takes a prompt as text alone (`client_composed`; the SDK's words): with an older one an
`@/path` in a prompt would be read."""
SIGN_IN: Final = (
    "Claude Code is not signed in: use your own sign-in with home=inherit (after `claude auth login`), or give an API"
    " key with api_key or api_key_env, or a model server of your own with base_url"
)

_SOURCES: Final[Mapping[Source, str]] = {
    "configured": "the configured executable",
    "bundled": "from claude-agent-sdk",
    "path": "found on PATH",
}
_INSTALL: Final = "install subagent-claude-code[sdk], which brings the SDK and the program"
_VERSION: Final = re.compile(rb"([0-9][!-~]{0,49}) \(Claude Code\)")
_STATUS_LIMIT: Final = 9.0  # s; a probe has 15 for both


@dataclass(frozen=True, slots=True)
class Binary:
    """A `claude` that can be started.

    Attributes:
        path: absolute.
        source: where it was found.
    """

    path: Path
    source: Source


async def locate(options: ClaudeCodeOptions) -> Binary:
    """The `claude` of these options, in a worker thread: a slow disk holds up nobody.

    Raises:
        StartError: of kind `launch`: there is none, the configured one cannot be started, or the SDK is missing.
    """
    return await to_thread.run_sync(_locate, options.executable, abandon_on_cancel=True)


def _locate(configured: Path | None) -> Binary:
    spec = importlib.util.find_spec("claude_agent_sdk")  # does not import it
    if spec is None or spec.origin is None:
        raise StartError(Failure("launch", "start", f"claude-agent-sdk is not installed: {_INSTALL}"))
    if configured is not None:
        if why := unfit(configured, "claude"):
            raise StartError(Failure("launch", "start", f"the configured executable {configured} {why}"))
        return Binary(configured, "configured")
    bundled = Path(spec.origin).parent / "_bundled" / "claude"
    if not unfit(bundled, "claude"):
        return Binary(bundled, "bundled")
    for path in on_path("claude"):
        return Binary(path, "path")
    raise StartError(Failure("launch", "start", f"claude is neither bundled nor on PATH: {_INSTALL}"))


def too_old(version: str) -> bool:
    """Whether this version lacks what a run relies on; one that says no version does."""
    found = re.match(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", version)
    return found is None or tuple(map(int, found.groups())) < tuple(map(int, FLOOR.split(".")))


# -- the probe ---------------------------------------------------------------------------------------------------------


async def probe(options: ClaudeCodeOptions) -> Probe:
    """What is there, its version, and whether it is signed in; bounded, and no model is asked.

    Never raises but for cancellation.
    """
    try:
        binary = await locate(options)
        version = await version_of(binary.path, "claude", _VERSION)
    except StartError as error:
        return Probe(False, detail=error.failure.message, fix=_INSTALL)
    except ProcessError as error:
        return Probe(False, detail=redact(str(error)), fix=_INSTALL)
    detail = f"{binary.path}, {_SOURCES[binary.source]}"
    if version != PINNED:
        detail += f"; version {version}, tested with {PINNED}"
    signed_in, how, fix = await _sign_in(options, binary)
    return Probe(signed_in is not False, version, str(binary.path), signed_in, f"{detail}; {how}", fix)


async def _sign_in(options: ClaudeCodeOptions, binary: Binary) -> tuple[bool | None, str, str]:
    """Whether it is signed in, which credential would be billed, and what to do when there is none."""
    if options.api_key is not None:
        return True, "the configured API key would be billed", ""
    if (name := options.api_key_env) is not None:
        if child_env(passing=(name,)).get(name):
            return True, f"the API key in the variable {name} would be billed", ""
        return False, f"the variable {name} is not set", f"set {name}, which api_key_env names, to an API key"
    if options.base_url is not None:
        return None, "a model server of its own, asked without a key", ""
    if options.home == "isolated":
        return False, "an isolated home without an API key", SIGN_IN
    try:
        return await _status(options, binary)
    except ProcessError as error:
        return None, f"its sign-in could not be checked: {redact(str(error))}", ""


async def _status(options: ClaudeCodeOptions, binary: Binary) -> tuple[bool | None, str, str]:
    r"""What `claude auth status --json` says: `{"loggedIn": false, "authMethod": "none", …}`."""
    async with throwaway_home() as private:
        quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        if options.home == "inherit":
            env = child_env(set=quiet, passing=("CLAUDE_CONFIG_DIR",))
        else:
            env = child_env(minimal=True, home=private, set={**quiet, "CLAUDE_CONFIG_DIR": str(options.home)})
        done = await run_command([binary.path, "auth", "status", "--json"], env=env, timeout=_STATUS_LIMIT)
    try:
        found: object = json.loads(done.stdout)
    except ValueError:
        found = None
    table = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    signed_in = table.get("loggedIn")
    if not isinstance(signed_in, bool):
        return None, "its sign-in could not be read", ""
    method = redact(str(table.get("authMethod", "unknown"))[:80])
    return signed_in, f"signed in with {method}" if signed_in else "nobody is signed in", "" if signed_in else SIGN_IN
