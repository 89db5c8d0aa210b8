"""What the engine gets as its environment, and what the commands of a task get.

The engine hands its own environment to every command, the API key too. `CLAUDE_ENV_FILE` counts before each command:
there we export what tools are to have, and unset all that only the engine is to know.

Trap: the engine reads that file once, at the first command (2.1.332, observed; a missing file is ignored), and puts
its text into the arguments of every shell, where `ps` shows it to everybody and 128 KiB are the end. So it holds one
line, which sources the file that only we may read. Without that file no command runs at all.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from subagent_claude_code._home import Home
from subagent_claude_code.options import ClaudeCodeOptions
from subagent_process import child_env

ENV_FILE: Final = "CLAUDE_ENV_FILE"
_KEY: Final = "ANTHROPIC_API_KEY"
_NO_KEY: Final = "none"  # without one the engine says that nobody is signed in, and asks no server
_INHERITED: Final = ("CLAUDE_CONFIG_DIR",)  # a mark of Claude Code, and the place of the person's home of it
_SHELL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_SPOKEN: Final = {
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",  # as the SDK says it
    "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1",  # else nothing says whether a further turn is owed
    # No look-ups, no update check, and no second paid call that names the session.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    # The folder's scheduled prompts would be carried out by our run, and the model could write its memory unasked.
    "CLAUDE_CODE_DISABLE_CRON": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
}
# What the engine alone is to know, also where the person's own settings gave it: what signs it in, and that with which
# a command could speak to its engine.
_ENGINE_ONLY: Final = (
    _KEY,
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
)


def engine_env(options: ClaudeCodeOptions, home: Home, key: str | None, version: str) -> dict[str, str]:
    """The whole environment of `claude`.

    Args:
        options: of the provider.
        home: of the run.
        key: the API key.
        version: of the SDK.
    """
    given = {**_SPOKEN, "CLAUDE_AGENT_SDK_VERSION": version, "CLAUDE_CODE_MAX_RETRIES": str(options.max_retries)}
    given["MCP_TIMEOUT"] = str(max(1, round(options.ready_timeout * 500)))  # ms; it waits for its servers before a task
    silence = str(max(1, round(options.request_timeout * 1000)))  # ms; of the second one the engine takes at least 10 s
    given |= {"API_TIMEOUT_MS": silence, "CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS": silence}
    given[ENV_FILE] = str(home.own / "env.sh")
    if key is not None or options.base_url is not None:
        given[_KEY] = key or _NO_KEY
    if options.base_url is not None:
        given["ANTHROPIC_BASE_URL"] = options.base_url
    if home.config is None:
        return child_env(set=given, passing=_INHERITED)
    return child_env(minimal=True, home=home.private, set={**given, "CLAUDE_CONFIG_DIR": str(home.config)})


def tools_file(home: Home) -> Path:
    """The file that sets up the environment of a command, for whoever starts one with `sh`."""
    return home.own / "tools.sh"


def hand_on(home: Home, engine: Mapping[str, str], tools: Mapping[str, str]) -> None:
    """Write what `CLAUDE_ENV_FILE` names, and what that sources.

    Args:
        home: of the run.
        engine: the environment of the engine.
        tools: what commands get in a home of ours; in an inherited one they get the person's environment.
    """
    path = tools_file(home)
    write_env_file(path, engine, child_env(passing=_INHERITED) if home.config is None else tools)
    _write(Path(engine[ENV_FILE]), [f". {shlex.quote(str(path))} || exit"])


def write_env_file(path: Path, engine: Mapping[str, str], tools: Mapping[str, str]) -> None:
    """Write what makes the environment of a command out of that of the engine; for nobody else to read.

    Names that no shell knows are left as they are, and so is what both have alike.

    Args:
        path: of the file.
        engine: the environment of the engine.
        tools: the whole environment of a command.
    """
    hidden = dict.fromkeys((*(name for name in engine if name not in tools), *_ENGINE_ONLY))
    changed = {name: value for name, value in tools.items() if engine.get(name) != value and name not in _ENGINE_ONLY}
    lines = [f"unset {name}" for name in hidden if _SHELL_NAME.fullmatch(name)]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in changed.items() if _SHELL_NAME.fullmatch(name)]
    _write(path, lines)


def _write(path: Path, lines: list[str]) -> None:
    path.touch(mode=0o600)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")
