"""A bare exchange of lines with an app-server, the real one or the fake, for tests that know nothing of our client."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from line_client import Json, LineClient, closing

from subagent_testing import FakeCodex

EXPERIMENTAL: Json = {"capabilities": {"experimentalApi": True}}


def binary() -> Path:
    """The real one, of `openai-codex-cli-bin`; without it the test is skipped."""
    return pytest.importorskip("codex_cli_bin").bundled_codex_path()


class Client(LineClient):
    """A bare exchange of lines with an app-server."""

    def __init__(self, executable: Path, folder: Path, *arguments: str, env: Mapping[str, str]) -> None:
        super().__init__([executable, "app-server", *arguments], folder, env)
        self._told: dict[str, int] = {}

    def ask(self, method: str, params: Any = None, **members: Any) -> Json:
        """Send a request and read until its answer."""
        self.ids += 1
        self.send({"id": self.ids, "method": method, **({} if params is None else {"params": params}), **members})
        return self.until(lambda m: "method" not in m and m.get("id") == self.ids)

    def told(self, method: str) -> Json:
        """The parameters of the next notification with this method: the first that was not returned before.

        It may have come already: the real one tells of a turn's start before or after it answers.
        """
        while not (found := [m for m in self.heard if m.get("method") == method][self._told.get(method, 0) :]):
            self.next()
        self._told[method] = self._told.get(method, 0) + 1
        return found[0]["params"]

    def start(self, **settings: Any) -> str:
        """Begin, and start a thread; its id."""
        self.ask("initialize", {"clientInfo": {"name": "test", "title": "Test", "version": "1"}, **EXPERIMENTAL})
        self.send({"method": "initialized"})
        thread = {"ephemeral": True, "approvalPolicy": "on-request", "sandbox": "read-only", **settings}
        return self.ask("thread/start", thread)["result"]["thread"]["id"]

    def turn(self, thread: str, text: str = "hi") -> str:
        """Start a turn; its id."""
        answer = self.ask("turn/start", {"threadId": thread, "input": [{"type": "text", "text": text}]})
        return answer["result"]["turn"]["id"]


def talking(executable: Path, folder: Path, *arguments: str, env: Mapping[str, str]) -> AbstractContextManager[Client]:
    """An app-server in this folder, and its end."""
    return closing(Client(executable, folder, *arguments, env=env))


INFO: Json = {"clientInfo": {"name": "test", "version": "1"}}
TEXT: list[Json] = [{"type": "text", "text": "hi"}]


def client_of(fake: FakeCodex, folder: Path) -> AbstractContextManager[Client]:
    """A fake in this folder, which is its CODEX_HOME too."""
    return talking(fake.executable, folder, env={"CODEX_HOME": str(folder)})


def thread_of(client: Client) -> str:
    """Begin, and start a thread."""
    client.ask("initialize", INFO)
    return client.ask("thread/start", {"sandbox": "read-only", "ephemeral": True})["result"]["thread"]["id"]


def begin(client: Client) -> tuple[str, str]:
    """Begin, and start a turn; the ids of thread and turn."""
    thread = thread_of(client)
    return thread, client.ask("turn/start", {"threadId": thread, "input": TEXT})["result"]["turn"]["id"]


def texts(client: Client) -> list[str]:
    """The answers that were told."""
    items = [m["params"]["item"] for m in client.heard if m.get("method") == "item/completed"]
    return [item["text"] for item in items if item["type"] == "agentMessage"]
