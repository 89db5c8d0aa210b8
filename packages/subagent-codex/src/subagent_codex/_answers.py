"""Every request that the app-server sends gets one answer, at once or as soon as whoever decides has decided.

The engine waits for ever for an answer that does not come, and takes one of a wrong shape for a refusal; `_requests`
has the shapes.

What `permission="allow"` grants ends where the configuration ends: a request that leaves the sandbox, or writes where
the sandbox may not, is `beyond`, and what cannot be told is beyond. Nothing is granted for longer than the session of
the engine, and its rules (execpolicy, network) are never amended.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from subagent_codex._bounds import Bounds
from subagent_codex._requests import Question, Said, question
from subagent_process import JsonObject, redact
from subagents import Failure, Link


class Answers:
    """The answers of one run; it belongs to the run's event loop."""

    def __init__(
        self,
        link: Link,
        bounds: Bounds,
        *,
        max_refusals: int,
        give_up: Callable[[Failure], object],
    ) -> None:
        """Nothing is asked yet.

        Args:
            link: who decides.
            bounds: what the configuration gives by itself.
            max_refusals: after so many refusals, by whoever, the run is given up.
            give_up: told once, and before the engine is; it does not wait.
        """
        self._link, self._bounds = link, bounds
        self._max_refusals, self._give_up = max_refusals, give_up
        self._refusals = 0
        self._closed = False
        self._asking: set[anyio.CancelScope] = set()

    async def answer(self, method: str, params: JsonObject) -> JsonObject:
        """The `result` for a request, whatever its params hold.

        It waits only for `link.ask`, which is bounded and which `close` ends.

        Raises:
            RpcError: the method is unknown (-32601), or nothing that is true can be answered (-32000).
        """
        asked = question(method, params, self._bounds)
        said = await self._decide(asked)
        if said == "reject_once" and asked.counted:
            said = self._refused(asked.title)
        return asked.words[said]

    @property
    def asking(self) -> bool:
        """Somebody is being asked."""
        return bool(self._asking)

    def close(self) -> None:
        """The run is ending: what is asked from now on, or still open, is answered `cancel` at once."""
        self._closed = True
        for scope in self._asking:
            scope.cancel()

    async def _decide(self, asked: Question) -> Said:
        if self._closed:
            return "cancel"
        if asked.request is None:
            return "reject_once"
        kind: Said = "reject_once"
        with anyio.CancelScope() as scope:
            self._asking.add(scope)
            try:
                kind = (await self._link.ask(asked.request)).kind
            finally:
                self._asking.discard(scope)
        if self._closed:  # also when a yes came at the same moment
            return "cancel"
        return kind if kind in asked.words else "reject_once"

    def _refused(self, title: str) -> Said:
        self._refusals += 1
        if self._refusals < self._max_refusals:
            return "reject_once"
        self.close()
        message = (
            f"{self._refusals} requests were refused, the last was: {redact(title)}. Allow them (permission='allow' for"
            " what the sandbox allows, a callback for more), choose a wider sandbox, or say in the prompt what is not"
            " to be tried; max_refusals is the bound."
        )
        self._give_up(Failure("policy", "run", message))
        return "cancel"
