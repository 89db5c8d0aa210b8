"""The run, seen by its backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator
from typing import Self

import anyio

from subagent_process import ShutdownReport
from subagents._events import Event
from subagents._permission import Choice, PermissionRequest
from subagents._result import Result


class Link(ABC):
    """What a backend may tell the seam, and ask it.

    All but `ask` are synchronous, never wait and never raise; they belong to the run's event loop.  A provider made
    of others writes a Link of its own and hands it to their `drive`.
    """

    @property
    @abstractmethod
    def depth(self) -> int:
        """How deep the child is below the first program: 1 for a child of that program."""

    @property
    @abstractmethod
    def inbox(self) -> AsyncIterator[str]:
        """What `Run.send` sent, in order; it ends with the verdict."""

    @abstractmethod
    def ready(self, *, session: str | None = None, model: str | None = None) -> None:
        """The child has accepted the work: entering the run returns now.  The first call emits `started`."""

    @abstractmethod
    def emit(self, event: Event) -> None:
        """Tell the followers.  Yield to the loop once per chunk that you read, so that they can keep up."""

    @abstractmethod
    async def ask(self, request: PermissionRequest) -> Choice:
        """Ask whoever decides.

        Always an answer: a callback that raises, is too slow or answers nonsense is a rejection.
        """

    @abstractmethod
    def finish(self, result: Result) -> None:
        """The verdict, on the protocol's terminal message and before teardown.  The first one counts."""

    @abstractmethod
    def note(self, text: str) -> None:
        """One sentence for `Evidence.notes`, also after the verdict; what looks like a secret is taken out."""

    @abstractmethod
    def report(self, report: ShutdownReport) -> None:
        """What ending the child took; it may come after the verdict, and becomes part of the evidence."""


class Inbox:
    """A queue of texts for one reader; closing it ends the iteration."""

    def __init__(self) -> None:
        self._items: deque[str] = deque()
        self._closed = False
        self._news: anyio.Event | None = None  # made for a reader that waits: most runs have none

    def put(self, text: str) -> None:
        """Append a text."""
        self._items.append(text)
        self._wake()

    def close(self) -> None:
        """Nothing more comes."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            self._news = anyio.Event()
            await self._news.wait()
        return self._items.popleft()
