"""What the tests of isolation look for, and where they look: secrets, processes, files, requests, baits.

What is one engine's is in `isolation_codex` and `isolation_claude`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from subagent_testing import ScriptedMessages, ScriptedResponses
from subagents import Event, Result

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


def environment(pid: int) -> dict[str, str]:
    """Its variables as they were at its start."""
    return dict(item.split("=", 1) for item in os.fsdecode(proc(pid, "environ")).split("\0") if "=" in item)


def parent(pid: int) -> int:
    return int(re.findall(rb"PPid:\t(\d+)", proc(pid, "status"))[0])


def family(pid: int) -> Iterator[int]:
    """It, and all that it started and that lives."""
    yield pid
    for child in proc(pid, f"task/{pid}/children").split():
        yield from family(int(child))


def proc(pid: int | str, name: str) -> bytes:
    """A file of a process."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it has ended
        return b""


# --- secrets ----------------------------------------------------------------------------------------------------------

Places = dict[str, bytes]
"""What was found, by the place where it was found."""


def where(found: Places, word: str) -> set[str]:
    """The places that hold a word."""
    return {place for place, data in found.items() if word.encode() in data}


def contents(folder: Path) -> bytes:
    """The names and texts of all files in a folder."""
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

    def start_up(self, home: Path) -> None:
        """What shells and git read in a HOME."""
        write(home / ".gitconfig", self._git("person"))
        for name in (".profile", ".bash_profile", ".bashrc", ".zshenv"):
            write(home / name, f"{self.touch('person' + name)}\n")

    def git(self, folder: Path) -> None:
        """What git reads in a repository."""
        with (folder / ".git/config").open("a") as file:
            file.write(self._git("project") + '[remote "origin"]\n\turl = https://me:bait-project-remote@x.example/y\n')
        for name in ("post-index-change", "reference-transaction", "post-checkout", "pre-commit"):
            self.script(folder / ".git/hooks" / name, f"project-git-{name}")

    def loaders(self) -> dict[str, str]:
        """Variables that shells and git read."""
        return {
            "BASH_ENV": str(self.script(self._ran.parent / "bash-env", "bash-env")),
            "ENV": str(self._ran.parent / "bash-env"),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.fsmonitor",
            "GIT_CONFIG_VALUE_0": str(self.script(self._ran.parent / "variable", "variable-fsmonitor")),
        }

    def touch(self, name: str) -> str:
        """What tells that something ran, for a shell."""
        return f": > '{self._ran}/{name}'"  # without a program: the engine's PATH has none

    def skill(self, folder: Path, name: str) -> None:
        """A skill below `folder/skills`."""
        text = f"---\nname: bait-{name}\ndescription: bait-{name}, for every task.\n---\nbait-{name}\n"
        write(folder / "skills" / name / "SKILL.md", text)

    def _git(self, name: str) -> str:
        program = self.script(self._ran.parent / f"{name}-fsmonitor", f"{name}-fsmonitor")
        hooks = self.script(self._ran.parent / f"{name}-hooks/post-index-change", f"{name}-hooks").parent
        return f"[core]\n\tfsmonitor = {program}\n\thooksPath = {hooks}\n"

    def script(self, path: Path, name: str) -> Path:
        """A program that tells that it ran."""
        write(path, f"#!/bin/sh\n{self.touch(name)}\n")
        path.chmod(0o755)
        return path


def words(text: str) -> set[str]:
    """The baits in a text."""
    return set(re.findall(r"bait-[a-z-]*[a-z]", text))


def write(path: Path, text: str) -> None:
    """A file, with the folders above it."""
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


def normal(api: ScriptedResponses | ScriptedMessages) -> list[str]:
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


def add_what_was_told(
    found: Places,
    api: ScriptedMessages | ScriptedResponses,
    *,
    commands: list[str],
    events: list[Event],
    result: Result,
    log: str,
    credential: str,
) -> None:
    """What commands printed, what callers were given, and what the model server was sent.

    Args:
        found: gets them.
        api: the model server.
        commands: what each said.
        events: of the run.
        result: of the run.
        log: of this process.
        credential: the header that holds the key, which is a place of its own.
    """
    asked = [*api.requests, *api.others]
    found["commands"] = "".join(commands).encode()
    found["events"] = repr(events).encode()
    found["result"] = repr(result).encode()
    found["log"] = log.encode()
    found["requests"] = b"".join(request.raw for request in asked)
    found["headers"] = repr([{**r.headers, credential: ""} for r in asked]).encode()
    found["authorization"] = repr([r.headers.get(credential) for r in asked]).encode()
