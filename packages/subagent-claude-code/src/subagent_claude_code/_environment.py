"""What the engine gets as its environment, and what the commands of a task get.

The engine hands its own environment to every command, the API key too. `CLAUDE_ENV_FILE` is sourced before each
command (observed on 2.1.332; read once, a missing file is ignored): there we export what tools are to have, and unset
all that only the engine is to know.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from subagent_claude_code._home import Home
from subagent_claude_code.options import ClaudeCodeOptions
from subagent_process import child_env

ENV_FILE: Final = "CLAUDE_ENV_FILE"
_KEY: Final = "ANTHROPIC_API_KEY"
_NO_KEY: Final = "none"  # without one the engine says that nobody is signed in, and asks no server
_SHELL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_SPOKEN: Final = {
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",  # as the SDK says it
    "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1",  # else nothing says whether a further turn is owed
    # No look-ups, no update check, and no second paid call that names the session.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}
# The engine gives these to its commands: with them a command could speak to its engine.
_ENGINE_ONLY: Final = ("CLAUDE_CODE_MESSAGING_SOCKET", "CLAUDE_CODE_MESSAGING_TOKEN")


def engine_env(options: ClaudeCodeOptions, home: Home, key: str | None, version: str) -> dict[str, str]:
    """The whole environment of `claude`.

    Args:
        options: of the provider.
        home: of the run.
        key: the API key.
        version: of the SDK.
    """
    given = {**_SPOKEN, "CLAUDE_AGENT_SDK_VERSION": version, "CLAUDE_CODE_MAX_RETRIES": str(options.max_retries)}
    given[ENV_FILE] = str(home.own / "tools.sh")
    if key is not None or options.base_url is not None:
        given[_KEY] = key or _NO_KEY
    if options.base_url is not None:
        given["ANTHROPIC_BASE_URL"] = options.base_url
    if home.config is None:
        return child_env(set=given, passing=("CLAUDE_CONFIG_DIR",))
    return child_env(minimal=True, home=home.private, set={**given, "CLAUDE_CONFIG_DIR": str(home.config)})


def write_env_file(path: Path, engine: Mapping[str, str], tools: Mapping[str, str] | None) -> None:
    """Write what `CLAUDE_ENV_FILE` names.

    Args:
        path: of the file.
        engine: the environment of the engine.
        tools: the whole environment of a command; None: that of the engine without what is the engine's.
    """
    if tools is None:
        hidden: Iterable[str] = (_KEY, *_SPOKEN, ENV_FILE)
        tools = {}
    else:
        hidden = (name for name in engine if name not in tools)
    lines = [f"unset {name}" for name in (*hidden, *_ENGINE_ONLY) if _SHELL_NAME.fullmatch(name)]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in tools.items() if _SHELL_NAME.fullmatch(name)]
    path.touch(mode=0o600)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")
