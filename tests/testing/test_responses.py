"""The scripted Responses server, heard over a bare socket."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from subagent_testing import Gate, ScriptedResponses, responses


def _connect(api: ScriptedResponses) -> socket.socket:
    return socket.create_connection((urlsplit(api.base_url).hostname, urlsplit(api.base_url).port or 0), timeout=10)


def _ask(
    line: socket.socket, body: object = None, *, method: str = "POST", path: str = "/v1/responses", headers: str = ""
) -> None:
    data = b"" if body is None else json.dumps(body).encode()
    line.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n{headers}\r\n".encode() + data)


def _rest(line: socket.socket) -> bytes:
    """All that comes until the server closes."""
    with closing(line), line.makefile("rb") as reader:
        return reader.read()


def _whole(api: ScriptedResponses, body: object = None, **how: Any) -> bytes:
    line = _connect(api)
    _ask(line, {} if body is None else body, headers="Connection: close\r\n", **how)
    return _rest(line)


def _events(answer: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in answer.split(b"\n") if line.startswith(b"data: ")]


def test_a_text_is_the_answer_to_every_request() -> None:
    with ScriptedResponses("hi there") as api:
        for _ in range(2):
            events = _events(_whole(api))
            assert events[-1]["response"]["output"][0]["content"][0]["text"] == "hi there"
    assert [event["type"] for event in events] == [
        "response.created",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event["sequence_number"] for event in events] == list(range(9))
    assert "".join(e["delta"] for e in events if "delta" in e) == "hi there"
