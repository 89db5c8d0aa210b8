"""The model of a run: found by its name or path, and pulled where it is not here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from subagent_local._notices import announced, progress_notice, refused
from subagent_local._pulling.cache import Cache
from subagent_local._pulling.pull import pull
from subagent_local.errors import BadModelFile, PullError, SourcesFailed, UnknownModel
from subagent_local.models import find_model
from subagents import Failure, NoticeEvent, StartError


@dataclass(frozen=True, slots=True)
class FoundModel:
    """What a run needs to know of its model; of a file of one's own that is the file."""

    name: str
    path: Path
    context: int | None = None
    repeat_penalty: float = 1.0


async def find(wanted: str | Path, emit: Callable[[NoticeEvent], object], *, download: bool) -> FoundModel:
    """The model that is wanted, on this machine.

    Raises:
        StartError: there is no such model, it is not here and must not be downloaded, or pulling it failed.
    """
    try:
        found = find_model(wanted)
        if isinstance(found, Path):
            return FoundModel(found.name, found)
        path = Cache().find(found)
        if path is None and not download:
            raise StartError(Failure("launch", "start", refused(found)))
        if path is None:
            emit(announced(found))
            path = await pull(found, progress=lambda news: emit(progress_notice(news)))
        return FoundModel(found.name, path, found.context, found.repeat_penalty)
    except (UnknownModel, BadModelFile) as error:
        raise StartError(Failure("model", "start", str(error))) from error
    except PullError as error:
        network = isinstance(error, SourcesFailed) and error.network
        kind = "network" if network else "launch"
        raise StartError(Failure(kind, "start", str(error), retryable=network)) from error
