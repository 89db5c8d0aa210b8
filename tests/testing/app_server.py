"""A bare exchange of lines with an app-server, the real one or the fake, for tests that know nothing of our client."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from subagent_testing import FakeCodex

Json: TypeAlias = dict[str, Any]

BOUND = 30.0
"""Seconds that any one wait may take."""

EXPERIMENTAL: Json = {"capabilities": {"experimentalApi": True}}


def binary() -> Path:
    """The real one, of `openai-codex-cli-bin`; without it the test is skipped."""
    return pytest.importorskip("codex_cli_bin").bundled_codex_path()


class Client:
    """A bare exchange of lines with an app-server."""

    def __init__(self, executable: Path, folder: Path, *arguments: str, env: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [executable, "app-server", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(env),
            cwd=folder,
        )
        self.heard: list[Json] = []
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._ids = 0
        self._told: dict[str, int] = {}

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def send(self, message: Json) -> None:
        self.line(json.dumps(message).encode() + b"\n")

    def next(self) -> Json:
        line = self._lines.get(timeout=BOUND)
        assert line, f"the app-server has ended; it had said {self.heard}"
        self.heard.append(json.loads(line))
        return self.heard[-1]

    def ask(self, method: str, params: Any = None, **members: Any) -> Json:
        """Send a request and read until its answer."""
        self._ids += 1
        self.send({"id": self._ids, "method": method, **({} if params is None else {"params": params}), **members})
        return self.until(lambda m: "method" not in m and m.get("id") == self._ids)

    def until(self, so: Callable[[Json], object]) -> Json:
        while not so(message := self.next()):
            pass
        return message

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

    def rest(self) -> list[Json]:
        """All that it says until it ends."""
        lines = iter(lambda: self._lines.get(timeout=BOUND), b"")
        self.heard += [json.loads(line) for line in lines]
        return self.heard

    def line(self, text: bytes) -> None:
        """Send bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def close(self) -> int:
        """End its input; how it ended.  Again is the same."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        code = self.process.wait(BOUND)
        self._reader.join(BOUND)
        self.process.stdout.close()
        return code


@contextmanager
def talking(executable: Path, folder: Path, *arguments: str, env: Mapping[str, str]) -> Generator[Client]:
    """An app-server in this folder, and its end."""
    client = Client(executable, folder, *arguments, env=env)
    try:
        yield client
    finally:
        client.close()


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
