"""A bare exchange of lines with `claude`, the real one or the fake, for tests that know nothing of our client."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from line_client import Json, LineClient, closing

ARGUMENTS = (
    *("--output-format", "stream-json", "--input-format", "stream-json", "--verbose"),
    *("--setting-sources=", "--strict-mcp-config", "--model", "claude-sonnet-4-5"),
)


def binary() -> Path:
    """The real one, bundled with `claude-agent-sdk`; without it the test is skipped.  The SDK is not imported."""
    spec = find_spec("claude_agent_sdk")
    found = Path(spec.origin).parent / "_bundled" / "claude" if spec and spec.origin else Path("/nowhere")
    if not found.exists():
        pytest.skip("no claude here: install claude-agent-sdk")
    return found


def environment(folder: Path, base_url: str = "http://127.0.0.1:9", **more: str) -> dict[str, str]:
    """A private environment below this folder, in which nothing but the base URL is contacted."""
    for part in ("home", "config", "tmp", "work"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder / "home"),
        "CLAUDE_CONFIG_DIR": str(folder / "config"),
        "TMPDIR": str(folder / "tmp"),
        "ANTHROPIC_BASE_URL": base_url,
        "ANTHROPIC_API_KEY": "sk-none",
        "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        **more,
    }


class Client(LineClient):
    """A bare exchange of lines with `claude`."""

    def __init__(self, executable: Path, folder: Path, *arguments: str, env: Mapping[str, str]) -> None:
        super().__init__([executable, *arguments], folder, env)

    def told(self, kind: str) -> Json:
        """The next message of this kind: `result`, `system/init`, `control_request/can_use_tool`."""
        return self.until(lambda m: kind in (m["type"], kind_of(m)))

    def ask(self, subtype: str, **members: Any) -> Json:
        """A control request, and the `response` of its answer."""
        self.ids += 1
        mine = f"req_{self.ids}"
        self.send({"type": "control_request", "request_id": mine, "request": {"subtype": subtype, **members}})
        return self.until(lambda m: m["type"] == "control_response" and m["response"]["request_id"] == mine)["response"]

    def answer(self, request: Json, response: Json) -> None:
        """Answer a control request with success."""
        answer = {"subtype": "success", "request_id": request["request_id"], "response": response}
        self.send({"type": "control_response", "response": answer})

    def user(self, text: str = "hi", **members: Any) -> None:
        message = {"role": "user", "content": text}
        self.send({"type": "user", "session_id": "", "message": message, "parent_tool_use_id": None, **members})

    def begin(self, text: str = "hi") -> Json:
        """Initialize, and send a first message; the answer to `initialize`."""
        answer = self.ask("initialize", hooks=None)
        self.user(text)
        return answer["response"]


def kind_of(message: Json) -> str:
    """`system/init`, `control_request/can_use_tool`, `stream_event/message_start`, `result/success`, `assistant`."""
    inner: Json = {"control_request": message.get("request"), "stream_event": message.get("event")}.get(
        message["type"]
    ) or message
    more = inner.get("subtype") or (inner.get("type") if inner is not message else None)
    return f"{message['type']}/{more}" if isinstance(more, str) else str(message["type"])


def talking(executable: Path, folder: Path, *arguments: str, env: Mapping[str, str]) -> AbstractContextManager[Client]:
    """A `claude` in this folder, with what its stream needs, and its end."""
    return closing(Client(executable, folder, *ARGUMENTS, *arguments, env=env))
