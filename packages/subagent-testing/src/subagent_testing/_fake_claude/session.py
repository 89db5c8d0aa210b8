"""What the fake knows: its command line, its session, and the turn that is under way."""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_claude*.py)

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from subagent_testing._fake.recorded import new_id

VERSION = "2.1.332"


class Session:
    """The one session of a process.

    Attributes:
        busy: whether a turn is under way.
        queue: messages of the user that wait for it to end.
        failed: whether the last result was an error: then the process ends with 1.
        results: how many there were.
    """

    def __init__(self, script: Mapping[str, Any], arguments: Sequence[str]) -> None:
        self.arguments = arguments
        self.version = str(script.get("version", VERSION))
        self.id = self.option("--session-id") or self.option("--resume") or new_id()
        self.model = self.option("--model") or "claude-fake"
        self.mode = self.option("--permission-mode") or "default"
        self.partial = "--include-partial-messages" in arguments
        self.busy = False
        self.queue: list[Mapping[str, Any]] = []
        self.failed = False
        self.results = 0
        self.turn = Turn()

    @property
    def config(self) -> str:
        """The folder of its configuration."""
        return os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.environ.get("HOME", "/"), ".claude")

    def option(self, name: str) -> str | None:
        """The value of an option; None when it is not given."""
        for at, each in enumerate(self.arguments):
            if each == name:
                return self.arguments[at + 1] if at + 1 < len(self.arguments) else None
            if each.startswith(f"{name}="):
                return each.partition("=")[2]
        return None


class Turn:
    """What a turn has come to.

    Attributes:
        messages: the ids of the model's messages.
        results: how many messages of the user's side it had besides the first: what came of calls, and an interruption.
        call: the tool call at work: its id; empty when there is none.
        denials: the calls that were denied.
    """

    def __init__(self) -> None:
        self.answer = ""
        self.messages: list[str] = []
        self.results = 0
        self.call = ""
        self.denials: list[Mapping[str, Any]] = []
        self.tokens = {"input_tokens": 0, "output_tokens": 0}


def auth_status(config: str, *, signed_in: bool) -> dict[str, Any]:
    """What `auth status --json` says: signed in by a key, or not at all."""
    return {
        "loggedIn": signed_in,
        "authMethod": "api_key" if signed_in else "none",
        "apiProvider": "firstParty",
        "analyticsDisabled": True,
        "projectsDirectory": os.path.join(config, "projects"),
        "configDirectory": config,
        "loginExpiresAt": None,
        "consoleProfileSignInOffered": True,
        **({"apiKeySource": "ANTHROPIC_API_KEY"} if signed_in else {}),
    }
