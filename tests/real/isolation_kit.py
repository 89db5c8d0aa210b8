"""What the tests of isolation look for, and where they look: secrets, processes, files, requests, baits."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import anyio.to_thread
import pytest
from codex_kit import shell, shell_outputs

from subagent_codex import Codex
from subagent_testing import Gate, ScriptedResponses, responses

MARK: Final = "zebra7c"
"""In every secret that no child may see."""

CANARIES: Final[Mapping[str, str]] = {
    "OPENAI_API_KEY": f"sk-proj-{MARK}openai",
    "CODEX_API_KEY": f"sk-{MARK}codex",
    "ANTHROPIC_API_KEY": f"sk-ant-api03-{MARK}anthropic",
    "GITHUB_TOKEN": f"ghp_{MARK}github0123456789012345678901",
    "AWS_SECRET_ACCESS_KEY": f"{MARK}/aws+secret",
    "DATABASE_URL": f"postgres://app:{MARK}database@db.example:5432/app",
    "NPM_TOKEN": f"npm_{MARK}npm",
    "SSH_AUTH_SOCK": f"/run/user/0/{MARK}-agent.sock",
    "DEPLOY_PEM": f"-----BEGIN PRIVATE KEY-----\nMIIEvQ{MARK}pem\n-----END PRIVATE KEY-----\n",
    "SMTP_PASSWORD": f"{MARK}-smtp",
    "PIP_INDEX_URL": f"https://me:{MARK}pip@pypi.example/simple",
    "GOOGLE_APPLICATION_CREDENTIALS": f"/home/me/{MARK}-service-account.json",
    "SESSION_COOKIE": f"session={MARK}cookie",
}
"""Well-known names, addresses that hold a password, a key of several lines, the way to an agent or a file of keys."""

UNKNOWN: Final[Mapping[str, str]] = {"COMPANY_THING": f"{MARK}unknown"}
"""A secret of which neither the name nor the value says so."""


def later(value: object) -> Any:
    """A row of a test for the long set."""
    return pytest.param(value, marks=pytest.mark.long)


# --- processes --------------------------------------------------------------------------------------------------------


def engines(cwd: Path) -> list[int]:
    """The app-servers that were started for a task in this folder: it is in their arguments."""
    word = json.dumps(str(cwd)).encode()
    lines = {int(name): _proc(name, "cmdline") for name in os.listdir("/proc") if name.isdigit()}
    return [pid for pid, line in lines.items() if b"\0app-server\0" in line and word in line]


def environment(pid: int) -> dict[str, str]:
    """Its variables as they were at its start."""
    return dict(item.split("=", 1) for item in os.fsdecode(_proc(pid, "environ")).split("\0") if "=" in item)


def parent(pid: int) -> int:
    return int(re.findall(rb"PPid:\t(\d+)", _proc(pid, "status"))[0])


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for child in _proc(pid, f"task/{pid}/children").split():
        yield from _tree(int(child))


def _proc(pid: int | str, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it has ended
        return b""


# --- secrets ----------------------------------------------------------------------------------------------------------

Places = dict[str, bytes]
"""What was found, by the place where it was found."""

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
            family = list(_tree(engine))
            home = Path(environment(engine)["CODEX_HOME"])
            root = Path(environment(engine)["TMPDIR"]).parent if provider.options.home != "inherit" else home
            found: Places = {
                "arguments": b"".join(_proc(pid, "cmdline") for pid in family),
                "environment": b"".join(_proc(pid, "environ") for pid in family),
                "files": _contents(root) + _contents(home),
            }
            gate.release()
            events = [event async for event in run.events()]
        result = await run.closed()
    asked = [*api.requests, *api.others]
    found["files afterwards"] = _contents(home)
    found["commands"] = "".join(shell_outputs(api)).encode()
    found["events"] = repr(events).encode()
    found["result"] = repr(result).encode()
    found["log"] = caplog.text.encode()
    found["requests"] = b"".join(request.raw for request in asked)
    found["headers"] = repr([{**r.headers, "authorization": ""} for r in asked]).encode()
    found["authorization"] = repr([r.headers.get("authorization") for r in asked]).encode()
    return found


def command_and_gate(gate: Gate, *, confined: bool = True) -> responses.Script:
    """The model looks around, and is then held."""
    return [[shell(_OWN if confined else _UNCONFINED)], [gate, responses.message("done")]]


def where(found: Places, word: str) -> set[str]:
    """The places that hold a word."""
    return {place for place, data in found.items() if word.encode() in data}


def _contents(folder: Path) -> bytes:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return b"".join(os.fsencode(path) + b"\n" + path.read_bytes() for path in files)


# --- baits ------------------------------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, timeout=30)


def repository(folder: Path) -> None:
    """A plain repository with one commit."""
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--allow-empty", "-m", "first")


class Baits:
    """Files that would change what the model is told, or would run something, and the folder that tells what ran.

    Each holds a word of its own, `bait-NAME`; what runs touches a file of that name.
    """

    def __init__(self, ran: Path) -> None:
        ran.mkdir()
        self._ran = ran

    @property
    def ran(self) -> list[str]:
        return sorted(path.name for path in self._ran.iterdir())

    def person(self, home: Path) -> None:
        """In a HOME."""
        self._codex(home / ".codex", "person")
        _write(home / ".codex/AGENTS.md", "bait-person-agents")
        _write(home / ".codex/prompts/bait.md", "bait-person-prompt")
        self._skill(home / ".agents", "person-agents-skill")
        _write(home / ".gitconfig", self._git("person"))
        for name in (".profile", ".bash_profile", ".bashrc", ".zshenv"):
            _write(home / name, f"{self.touch('person' + name)}\n")

    def project(self, folder: Path) -> None:
        """In a repository."""
        self._codex(folder / ".codex", "project")
        _write(folder / "AGENTS.md", "bait-project-agents")
        self._skill(folder / ".agents", "project-agents-skill")
        with (folder / ".git/config").open("a") as file:
            file.write(self._git("project") + '[remote "origin"]\n\turl = https://me:bait-project-remote@x.example/y\n')
        for name in ("post-index-change", "reference-transaction", "post-checkout", "pre-commit"):
            self._script(folder / ".git/hooks" / name, f"project-git-{name}")

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
            "BASH_ENV": str(self._script(self._ran.parent / "bash-env", "bash-env")),
            "ENV": str(self._ran.parent / "bash-env"),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.fsmonitor",
            "GIT_CONFIG_VALUE_0": str(self._script(self._ran.parent / "variable", "variable-fsmonitor")),
        }

    def touch(self, name: str) -> str:
        return f": > '{self._ran}/{name}'"  # without a program: the engine's PATH has none

    def server(self, name: str) -> str:
        """An MCP server, in TOML."""
        arguments = json.dumps(["-c", f"{self.touch(name)}; read line"])
        return f'[mcp_servers.{name}]\ncommand = "/bin/sh"\nargs = {arguments}\n'

    def _codex(self, folder: Path, name: str) -> None:
        hook = {"hooks": [{"type": "command", "command": self.touch(f"{name}-hook")}]}
        events = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop")
        notify = json.dumps(["/bin/sh", "-c", self.touch(f"{name}-notify")])
        lines = f'notify = {notify}\nmodel_reasoning_effort = "high"\ndeveloper_instructions = "bait-{name}-config"\n'
        _write(folder / "config.toml", lines + self.server(f"{name}-mcp"))
        _write(folder / "hooks.json", json.dumps({"hooks": {event: [hook] for event in events}}))
        self._skill(folder, f"{name}-codex-skill")

    def _skill(self, folder: Path, name: str) -> None:
        text = f"---\nname: bait-{name}\ndescription: bait-{name}, for every task.\n---\nbait-{name}\n"
        _write(folder / "skills" / name / "SKILL.md", text)

    def _git(self, name: str) -> str:
        program = self._script(self._ran.parent / f"{name}-fsmonitor", f"{name}-fsmonitor")
        hooks = self._script(self._ran.parent / f"{name}-hooks/post-index-change", f"{name}-hooks").parent
        return f"[core]\n\tfsmonitor = {program}\n\thooksPath = {hooks}\n"

    def _script(self, path: Path, name: str) -> Path:
        _write(path, f"#!/bin/sh\n{self.touch(name)}\n")
        path.chmod(0o755)
        return path


def words(text: str) -> set[str]:
    """The baits in a text."""
    return set(re.findall(r"bait-[a-z-]*[a-z]", text))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# --- requests ---------------------------------------------------------------------------------------------------------

_VARYING: Final = {
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}": "UUID",
    r"subagent-[0-9a-f]{8}": "HOME",
    r"(_at_unix_ms\\*\": ?)\d+": r"\1TIME",
    r"Chunk ID: [0-9a-f]+": "CHUNK",
    r"Wall time: [0-9.]+": "WALL",
    r"127\.0\.0\.1:\d+": "ADDRESS",
    r"('content-length', )'\d+'": r"\1LENGTH",
}


def normal(api: ScriptedResponses) -> list[str]:
    """All that was asked, without what differs between any two runs."""
    found: list[str] = []
    for request in [*api.requests, *api.others]:
        headers = [(k, _sorted(v) if v.startswith("{") else v) for k, v in sorted(request.headers.items())]
        text = f"{request.path}\n{headers!r}\n{_sorted(request.raw)}"
        for pattern, word in _VARYING.items():
            text = re.sub(pattern, word, text)
        found.append(text)
    return found


def _sorted(text: str | bytes) -> str:
    """JSON with its members in order, also in texts that are JSON."""

    def member(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {k: _sorted(v) if isinstance(v, str) and v.startswith("{") else v for k, v in sorted(pairs)}

    return json.dumps(json.loads(text or "null", object_pairs_hook=member), indent=1)


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
