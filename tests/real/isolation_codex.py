"""What the tests of Codex's isolation look for, and where: what `isolation_kit` has is every engine's."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import anyio.to_thread
import pytest
from codex_kit import shell, shell_outputs
from codex_kit import told as told
from isolation_kit import Baits, Places, add_what_was_told, contents, environment, family, proc, write

from subagent_codex import Codex
from subagent_testing import Gate, ScriptedResponses, responses

# What `isolation_sealed` needs to know of an engine.
Provider, Server, CREDENTIAL, command = Codex, ScriptedResponses, "authorization", shell


def engines(cwd: Path) -> list[int]:
    """The app-servers that were started for a task in this folder: it is in their arguments."""
    word = json.dumps(str(cwd)).encode()
    lines = {int(name): proc(name, "cmdline") for name in os.listdir("/proc") if name.isdigit()}
    return [pid for pid, line in lines.items() if b"\0app-server\0" in line and word in line]


_SHOWN: Final = "/proc/[0-9]*/environ /proc/[0-9]*/cmdline"
_OWN: Final = f"/usr/bin/env; for one in {_SHOWN}; do /usr/bin/tr '\\0' '\\n' < $one; done; echo END"
# Outside of a sandbox those are the processes of the whole machine.
_UNCONFINED: Final = "/usr/bin/env; /usr/bin/tr '\\0' '\\n' < /proc/$PPID/environ; echo END"


async def looked(
    api: ScriptedResponses, gate: Gate, provider: Codex, cwd: Path, caplog: pytest.LogCaptureFixture
) -> Places:
    """A run that is held at the gate, and everything that could be seen of it by then and until its end."""
    with anyio.fail_after(60), caplog.at_level(0):
        async with provider.start("say hello", cwd=cwd) as run:
            await anyio.to_thread.run_sync(gate.wait_until_reached)
            (engine,) = engines(cwd)
            tree = list(family(engine))
            home = Path(environment(engine)["CODEX_HOME"])
            root = Path(environment(engine)["TMPDIR"]).parent if provider.options.home != "inherit" else home
            found: Places = {
                "arguments": b"".join(proc(pid, "cmdline") for pid in tree),
                "environment": b"".join(proc(pid, "environ") for pid in tree),
                "files": contents(root) + contents(home),
            }
            gate.release()
            events = [event async for event in run.events()]
        result = await run.closed()
    found["files afterwards"] = contents(home)
    add_what_was_told(
        found, api, commands=shell_outputs(api), events=events, result=result, log=caplog.text, credential=CREDENTIAL
    )
    return found


def command_and_gate(gate: Gate, *, confined: bool = True) -> responses.Script:
    """The model looks around, and is then held."""
    return [[shell(_OWN if confined else _UNCONFINED)], [gate, responses.message("done")]]


class CodexBaits(Baits):
    """Files that would change what the model is told, or would run something."""

    def person(self, home: Path) -> None:
        """In a HOME."""
        self._codex(home / ".codex", "person")
        write(home / ".codex/AGENTS.md", "bait-person-agents")
        write(home / ".codex/prompts/bait.md", "bait-person-prompt")
        self.skill(home / ".agents", "person-agents-skill")
        self.start_up(home)

    def project(self, folder: Path) -> None:
        """In a repository."""
        self._codex(folder / ".codex", "project")
        write(folder / "AGENTS.md", "bait-project-agents")
        self.skill(folder / ".agents", "project-agents-skill")
        self.git(folder)

    def variables(self, home: Path) -> dict[str, str]:
        """In the environment."""
        return {
            "CODEX_HOME": str(home / ".codex"),
            "CODEX_SQLITE_HOME": str(home / ".codex"),
            "CODEX_INTERNAL_ORIGINATOR_OVERRIDE": "bait-originator",
            "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
            "OPENAI_ORGANIZATION": "bait-organization",
            "OPENAI_PROJECT": "bait-project",
            "RUST_LOG": "trace",
            **self.loaders(),
        }

    def server(self, name: str) -> str:
        """An MCP server, in TOML."""
        arguments = json.dumps(["-c", f"{self.touch(name)}; read line"])
        return f'[mcp_servers.{name}]\ncommand = "/bin/sh"\nargs = {arguments}\n'

    def _codex(self, folder: Path, name: str) -> None:
        hook = {"hooks": [{"type": "command", "command": self.touch(f"{name}-hook")}]}
        events = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")
        notify = json.dumps(["/bin/sh", "-c", self.touch(f"{name}-notify")])
        lines = f'notify = {notify}\nmodel_reasoning_effort = "high"\ndeveloper_instructions = "bait-{name}-config"\n'
        write(folder / "config.toml", lines + self.server(f"{name}-mcp"))
        write(folder / "hooks.json", json.dumps({"hooks": {event: [hook] for event in events}}))
        self.skill(folder, f"{name}-codex-skill")


# --- faults -----------------------------------------------------------------------------------------------------------

_drive: Any = import_module("subagent_codex._drive")


def settings_without(patch: pytest.MonkeyPatch, names: Sequence[str]) -> None:
    """Break the provider: it does not set these keys of the configuration."""
    real = _drive.process_settings

    def process_settings(*args: Any, **options: Any) -> dict[str, Any]:
        return {name: value for name, value in real(*args, **options).items() if name not in names}

    patch.setattr(_drive, "process_settings", process_settings)


def key_in_arguments(patch: pytest.MonkeyPatch, key: str) -> None:
    """Break the provider: the key is with the settings of the process."""
    real = _drive.process_settings

    def process_settings(*args: Any, **options: Any) -> dict[str, Any]:
        found = real(*args, **options)
        found["model_providers.subagents"]["experimental_bearer_token"] = key
        return found

    patch.setattr(_drive, "process_settings", process_settings)


def environment_of_ours(patch: pytest.MonkeyPatch, names: Sequence[str] = ()) -> None:
    """Break the provider: these variables of ours, or all, are given to the engine as they are."""
    real = _drive.child_env

    def child_env(**options: Any) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if name in (names or os.environ)}
        return {**ours, **real(**options), **(ours if names else {})}

    patch.setattr(_drive, "child_env", child_env)


def thread_without(patch: pytest.MonkeyPatch, name: str) -> None:
    """Break the provider: the thread is started without this key of the configuration."""
    real = _drive.thread_config

    def thread_config(*args: Any, **options: Any) -> dict[str, Any]:
        return {key: value for key, value in real(*args, **options).items() if key != name}

    patch.setattr(_drive, "thread_config", thread_config)
