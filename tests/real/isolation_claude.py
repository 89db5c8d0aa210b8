"""What the tests of Claude Code's isolation look for, and where: what `isolation_kit` has is every engine's."""

from __future__ import annotations

import json
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import anyio.to_thread
import pytest
from claude_kit import bash, results
from claude_kit import told as told
from isolation_kit import Baits, Places, add_what_was_told, contents, environment, family, normal, proc, write

from subagent_claude_code import ClaudeCode
from subagent_testing import Gate, ScriptedMessages, messages

# What `isolation_sealed` needs to know of an engine.
Provider, Server, CREDENTIAL, command = ClaudeCode, ScriptedMessages, "x-api-key", bash

_EVENTS: Final = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")
_SEES: Final = '/usr/bin/env; /bin/sh -c \'tr "\\0" "\\n" < /proc/self/environ\'; echo END'


def command_and_gate(gate: Gate) -> messages.Script:
    """The model looks around, and is then held."""
    return [[bash(_SEES)], [gate, messages.text("done")]]


def engine(cwd: Path) -> int:
    """The one claude that works in this folder."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    found = [pid for pid in pids if b"\0--permission-prompt-tool\0" in proc(pid, "cmdline")]
    (pid,) = (pid for pid in found if os.path.samefile(f"/proc/{pid}/cwd", cwd))
    return pid


async def looked(
    api: ScriptedMessages, gate: Gate, provider: ClaudeCode, cwd: Path, caplog: pytest.LogCaptureFixture
) -> Places:
    """A run that is held at the gate, and everything that could be seen of it by then and until its end."""
    with anyio.fail_after(90), caplog.at_level(0):
        async with provider.start("say hello", cwd=cwd, permission="allow", instructions="be kind") as run:
            await anyio.to_thread.run_sync(gate.wait_until_reached)
            pid = engine(cwd)
            tree = list(family(pid))
            own = environment(pid)
            home, root = Path(own["CLAUDE_CONFIG_DIR"]), Path(own["TMPDIR"]).parent
            found: Places = {
                "arguments": b"".join(proc(one, "cmdline") for one in tree),
                "environment": b"".join(proc(one, "environ") for one in tree),
                "files": contents(root) + contents(home),
            }
            gate.release()
            events = [event async for event in run.events()]
        result = await run.closed()
    found["files afterwards"] = contents(home)
    add_what_was_told(
        found, api, commands=results(api), events=events, result=result, log=caplog.text, credential=CREDENTIAL
    )
    return found


class ClaudeBaits(Baits):
    """Files that would change what the model is told, or would run something."""

    def person(self, home: Path) -> None:
        """In a HOME."""
        self._claude(home / ".claude", "person")
        write(home / ".claude.json", self.servers("person-mcp"))
        self.start_up(home)

    def project(self, folder: Path) -> None:
        """In a repository, and above it; git is not to tell of them."""
        with (folder / ".git/info/exclude").open("a") as file:
            file.write("*\n")
        self._claude(folder / ".claude", "project")
        write(folder / ".claude/settings.local.json", self._settings("local"))
        for name in ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md"):
            write(folder / name, f"bait-project-{name[:-3].lower().replace('.', '-')} @../secret.md")
        write(folder / ".mcp.json", self.servers("project-mcp"))
        write(folder.parent / "CLAUDE.md", "bait-above")
        write(folder.parent / "secret.md", "bait-imported")
        write(folder.parent / ".claude/settings.json", self._settings("above"))
        self.git(folder)

    def variables(self, home: Path) -> dict[str, str]:
        """In the environment."""
        return {
            "CLAUDE_CONFIG_DIR": str(home / ".claude"),
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
            "ANTHROPIC_MODEL": "bait-model",
            "ANTHROPIC_CUSTOM_HEADERS": "x-bait: bait-header",
            "ANTHROPIC_BETAS": "bait-beta",
            "ANTHROPIC_AUTH_TOKEN": "bait-token",
            "CLAUDE_CODE_OAUTH_TOKEN": "bait-oauth",
            "CLAUDE_CODE_USE_BEDROCK": "1",
            "CLAUDE_CODE_EXTRA_BODY": '{"metadata": {"user_id": "bait-body"}}',
            "CLAUDE_CODE_SHELL_PREFIX": str(self.script(home.parent / "prefix", "variable-prefix")),
            "MAX_THINKING_TOKENS": "1024",
            "CLAUDECODE": "1",
            "NODE_OPTIONS": "--require=/nonexistent",
            **self.loaders(),
        }

    def _settings(self, name: str) -> str:
        hook = self.hook(f"{name}-hook")
        return json.dumps({
            "hooks": {event: [hook] for event in _EVENTS},
            "env": {"BAIT": f"bait-{name}-env"},
            "model": f"bait-{name}-model",
            "language": f"bait-{name}-language",
            "outputStyle": f"bait-{name}",
            "apiKeyHelper": f"{self.touch(f'{name}-helper')}; echo bait-{name}-key",
            "permissions": {"allow": ["Bash", "Write"]},
            "enableAllProjectMcpServers": True,
        })  # fmt: skip

    def _claude(self, folder: Path, name: str) -> None:
        write(folder / "CLAUDE.md", f"bait-{name}-memory")
        write(folder / "settings.json", self._settings(name))
        write(folder / "rules/bait.md", f"bait-{name}-rule")
        write(folder / f"output-styles/bait-{name}.md", f"---\nname: bait-{name}\n---\nbait-{name}-style")
        self.skill(folder, f"{name}-skill")
        for kind in ("agents", "commands"):
            text = f"---\nname: bait-{name}-{kind}\ndescription: bait-{name}-{kind}, for every task.\n---\nx"
            write(folder / kind / f"bait-{name}-{kind}.md", text)

    def hook(self, name: str) -> dict[str, Any]:
        """What settings have for an event."""
        return {"hooks": [{"type": "command", "command": self.touch(name)}]}

    def servers(self, name: str) -> str:
        """A file that names an MCP server."""
        arguments = ["-c", f"{self.touch(name)}; read line"]
        return json.dumps({"mcpServers": {name: {"command": "/bin/sh", "args": arguments}}})


_VARYING: Final = {
    r"[0-9a-f]{64}": "DEVICE",  # made anew with each home
    r"cch=[0-9a-f]+": "cch=SUM",  # over the rest
}


def asked(api: ScriptedMessages) -> list[str]:
    """All that was asked, without what differs between any two runs."""
    found = normal(api)
    for pattern, word in _VARYING.items():
        found = [re.sub(pattern, word, text) for text in found]
    return found


# --- faults -----------------------------------------------------------------------------------------------------------

_drive: Any = import_module("subagent_claude_code._drive")
_environment: Any = import_module("subagent_claude_code._environment")


def arguments_without(patch: pytest.MonkeyPatch, start: str) -> None:
    """Break the provider: it does not say the argument that begins so."""
    real = _drive.arguments

    def arguments(given: Any) -> list[str]:
        return [word for word in real(given) if not word.startswith(start)]

    patch.setattr(_drive, "arguments", arguments)


def variable_without(patch: pytest.MonkeyPatch, name: str) -> None:
    """Break the provider: the engine lacks this variable."""
    real = _drive.engine_env

    def engine_env(*args: Any) -> dict[str, str]:
        return {key: value for key, value in real(*args).items() if key != name}

    patch.setattr(_drive, "engine_env", engine_env)


def environment_of_ours(patch: pytest.MonkeyPatch) -> None:
    """Break the provider: the engine gets our variables, where it is given none of its own."""
    real = _drive.engine_env

    def engine_env(*args: Any) -> dict[str, str]:
        return {**os.environ, **real(*args)}

    patch.setattr(_drive, "engine_env", engine_env)


def nothing_unset(patch: pytest.MonkeyPatch) -> None:
    """Break the provider: commands get what the engine has."""

    def write(path: Path, lines: list[str]) -> None: ...

    patch.setattr(_environment, "_write", write)
