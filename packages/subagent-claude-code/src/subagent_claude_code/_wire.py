"""The SDK's transport, on a process that we own.

`claude_agent_sdk.Transport` (0.2.189) says of itself that it may change; a test holds this class against it. It is no
subclass, because the SDK is imported while the process starts.

The SDK gets the control protocol alone: requests, their answers and withdrawals. Every other message goes to `told` as
it came. The SDK's own stream has a queue of 100, and while nobody reads it no permission is asked about; its parser
drops fields that it does not know, and ends the stream at a message that lacks one that it knows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Self

import anyio

from subagent_process import OwnedProcess
from subagents.backend.values import JsonObject, object_in, text_in

_REQUEST: Final = "control_request"
_RESPONSE: Final = "control_response"
_CANCEL: Final = "control_cancel_request"


class Wire:
    """One process as a transport; it belongs to the run's event loop."""

    def __init__(
        self,
        process: OwnedProcess,
        *,
        told: Callable[[JsonObject], object],
        ended: Callable[[Exception | None], object],
    ) -> None:
        """Nothing is read yet.

        Args:
            process: that speaks; whoever opened it ends it.
            told: every message that is not the SDK's; it does not wait.
            ended: nothing more comes, and why where it is not the end of the stream.
        """
        self._process, self._told, self._ended = process, told, ended
        self._messages = process.messages()

    @property
    def noise(self) -> tuple[str, ...]:
        """Lines that were no message, redacted."""
        return self._messages.noise

    async def connect(self) -> None:
        """It runs already."""

    async def write(self, data: str) -> None:
        """One line; to a process that has ended it goes nowhere, and `ended` tells of that."""
        try:
            await self._process.send_line(data.rstrip("\n").encode())
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return

    def read_messages(self) -> AsyncIterator[JsonObject]:
        """What the SDK is to see."""
        return self._read()

    async def _read(self) -> AsyncIterator[JsonObject]:
        try:
            async for message in self._messages:
                if message.get("type") not in (_REQUEST, _RESPONSE, _CANCEL):
                    self._told(message)
                elif _well_formed(message):  # what lacks a name would end the SDK's reader
                    yield message
        except Exception as error:  # noqa: BLE001  # the SDK would log it, and nobody would know that nothing more comes
            self._ended(error)
        else:
            self._ended(None)

    async def close(self) -> None:
        """Ending the process is not the SDK's."""

    def is_ready(self) -> bool:
        """Whether it may be written to."""
        return self._process.returncode is None

    async def end_input(self) -> None:
        """Ending the input is not the SDK's."""


class UserMessage:
    """One message as the stream that `ClaudeSDKClient.query` takes.

    No generator: a cancelled start would leave it behind.
    """

    def __init__(self, text: str, name: str) -> None:
        content = {"role": "user", "content": text}
        self._left: list[dict[str, Any]] = [
            {"type": "user", "uuid": name, "message": content, "parent_tool_use_id": None}
        ]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> dict[str, Any]:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


def _well_formed(message: JsonObject) -> bool:
    if message["type"] == _RESPONSE:
        return bool(text_in(object_in(message, "response"), "request_id"))
    if not text_in(message, "request_id"):
        return False
    return message["type"] == _CANCEL or bool(text_in(object_in(message, "request"), "subtype"))
