"""Small children of the tests, and reading what they say."""

from __future__ import annotations

import sys

import anyio
import anyio.abc


def python(script: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", script]


async def slurp(stream: anyio.abc.ByteReceiveStream) -> bytes:
    parts: list[bytes] = []
    try:
        while True:
            parts.append(await stream.receive())
    except anyio.EndOfStream:
        return b"".join(parts)
