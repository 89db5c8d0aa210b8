"""Our requests to one app-server: the handshake, the sign-in, one thread, one turn, and how it is stopped.

Whatever fails before the task is accepted is a `StartError`. An overloaded server (-32001) is asked again, a bounded
number of times with a jittered pause; nothing else is.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import anyio

from subagent_codex._failures import failure_of_request
from subagent_process import InvalidAnswer, Peer, PeerClosed, RpcError
from subagents import Failure, StartError

Object: TypeAlias = dict[str, object]

OVERLOADED: Final = -32001
_PAUSES: Final = (0.25, 0.5, 1.0, 2.0)  # s before each further attempt, jittered by half

_CLIENT: Final = {"name": "subagents", "title": "subagents", "version": "0.1.0"}


class Session:
    """One app-server that is asked things.

    Attributes:
        peer: the wire.
    """

    def __init__(self, peer: Peer, *, timeout: float) -> None:
        """`timeout` is in seconds, for each request."""
        self.peer, self._timeout = peer, timeout

    async def initialize(self, home: Path) -> None:
        """The handshake, and whether the engine uses the home that it was given.

        Raises:
            StartError: it does not, or does not answer.
        """
        params: dict[str, Any] = {"clientInfo": _CLIENT, "capabilities": {"experimentalApi": True}}
        answer = await self._ask("initialize", params)
        used = answer.get("codexHome")
        if isinstance(used, str) and not _same(used, home):
            reason = f"codex uses the home {used} and not {home}, which it was given"
            raise StartError(Failure("protocol", "start", reason))
        await self.peer.notify("initialized")

    async def sign_in(self, key: str) -> None:
        """Hand over an API key; the engine does not check it.

        Raises:
            StartError: it was not taken.
        """
        await self._ask("account/login/start", {"type": "apiKey", "apiKey": key})

    async def check_account(self, how: str) -> None:
        """Nothing is sent to a model without a sign-in that it needs; `how` says how to sign in.

        Raises:
            StartError: of kind `auth`: nobody is signed in.
        """
        answer = await self._ask("account/read", {"refreshToken": False})
        if answer.get("account") is None and answer.get("requiresOpenaiAuth") is True:
            raise StartError(Failure("auth", "start", how))

    async def open_thread(self, params: Mapping[str, object], resume: str | None) -> Object:
        """A new thread, or an earlier one; the answer.

        Raises:
            StartError: it was refused; a resumed one may not exist.
        """
        if resume is None:
            return await self._ask("thread/start", params)
        answer = await self._ask("thread/resume", {**params, "threadId": resume, "excludeTurns": True})
        if (said := params.get("developerInstructions")) is not None:  # passed over in a resumed thread (observed)
            item = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": said}]}
            await self._ask("thread/inject_items", {"threadId": resume, "items": [item]})
        return answer

    async def start_turn(self, params: Mapping[str, object]) -> Object:
        """The answer of `turn/start`; `turn/started`, and even the end of the turn, may have come before it.

        Raises:
            StartError: it was refused.
        """
        return await self._ask("turn/start", params)

    async def steer(self, thread: str, turn: str, text: str) -> None:
        """Say something into the running turn.

        Raises:
            RpcError, PeerClosed, InvalidAnswer, TimeoutError: it did not arrive.
        """
        params = {"threadId": thread, "expectedTurnId": turn, "input": text_input(text)}
        await self.peer.request("turn/steer", params, timeout=self._timeout)

    async def stop(self, thread: str, turn: str | None, ended: anyio.Event) -> None:
        """Interrupt the turn, wait for its end, and end the commands that it left; never raises.

        Bounded by the caller's scope.
        """
        try:
            if turn is not None and not ended.is_set():
                await self._interrupt(thread, turn, ended)
            await self.peer.request("thread/backgroundTerminals/clean", {"threadId": thread})
        except (RpcError, PeerClosed, InvalidAnswer, TimeoutError):
            return  # the ladder does the rest

    async def _interrupt(self, thread: str, turn: str, ended: anyio.Event) -> None:
        """Until the turn has ended, whether this is answered or not.

        One for a turn that was interrupted already, by the answer to a request, never is (observed).
        """
        async with anyio.create_task_group() as tasks:

            async def interrupt() -> None:
                try:
                    await self.peer.request("turn/interrupt", {"threadId": thread, "turnId": turn})
                except (RpcError, PeerClosed, InvalidAnswer, TimeoutError):
                    tasks.cancel_scope.cancel()  # that turn does not run

            tasks.start_soon(interrupt)
            await ended.wait()
            tasks.cancel_scope.cancel()

    async def _ask(self, method: str, params: Mapping[str, object]) -> Object:
        pauses = iter(_PAUSES)
        while True:
            try:
                answer = await self.peer.request(method, params, timeout=self._timeout)
            except (RpcError, InvalidAnswer, TimeoutError) as error:
                overloaded = isinstance(error, RpcError) and error.code == OVERLOADED
                if not overloaded or (pause := next(pauses, None)) is None:
                    raise StartError(failure_of_request(error, method)) from error
            else:
                return cast("Object", answer) if isinstance(answer, dict) else {}
            await anyio.sleep(pause * random.uniform(0.5, 1.5))


def _same(one: str, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def sign_in(codex: Path) -> str:
    """How to sign in."""
    return (
        f"Codex is not signed in: use your own sign-in with home=inherit (after `{codex} login`), or give an API key"
        " with api_key or api_key_env, or a model server of your own with base_url"
    )


def text_input(*texts: str) -> list[dict[str, str]]:
    """Texts as the input of a turn, without the empty ones."""
    return [{"type": "text", "text": text} for text in texts if text]
