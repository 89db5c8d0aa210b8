"""What a run tells while it works: a closed union outward, parsed openly inward (the unknown arrives as a notice)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, cast, get_args

from subagents._permission import Choice, PermissionRequest
from subagents._result import Usage
from subagents._wire import Wire
from subagents._words import EventType, PlanStatus, ToolKind, ToolStatus

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_TYPES: Final = frozenset[str](get_args(EventType))


@dataclass(frozen=True, slots=True)
class StartedEvent(Wire):
    """The child has accepted the work."""

    session: str | None = None
    model: str | None = None
    type: Literal["started"] = "started"


@dataclass(frozen=True, slots=True)
class TextEvent(Wire):
    """A piece of the answer.  Pieces of one message share an `id`; joined in order they are its text."""

    text: str
    id: str = ""
    parent: str | None = None
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class ThoughtEvent(Wire):
    """A piece of the model's reasoning, never part of the answer."""

    text: str
    id: str = ""
    parent: str | None = None
    type: Literal["thought"] = "thought"


@dataclass(frozen=True, slots=True)
class ToolEvent(Wire):
    """One step of the child, said again at each change of its status; `id` ties them together.

    Attributes:
        id: the engine's name for the step.
        title: what it does, in one line.
        kind: a word of the Agent Client Protocol.
        status: a word of the Agent Client Protocol.
        command: the command line of an `execute` step.
        paths: files that it reads or changes, as the engine wrote them.
        output: the tail of what it printed.
        exit_code: of its command.
        parent: the step whose sub-agent took this one.
    """

    id: str
    title: str
    kind: ToolKind = "other"
    status: ToolStatus = "in_progress"
    command: str | None = None
    paths: tuple[str, ...] = ()
    output: str = ""
    exit_code: int | None = None
    parent: str | None = None
    type: Literal["tool"] = "tool"


@dataclass(frozen=True, slots=True)
class PlanEntry(Wire):
    """One line of a plan."""

    content: str
    status: PlanStatus = "pending"


@dataclass(frozen=True, slots=True)
class PlanEvent(Wire):
    """The whole plan as it stands now; it replaces the one before."""

    entries: tuple[PlanEntry, ...]
    type: Literal["plan"] = "plan"


@dataclass(frozen=True, slots=True)
class UsageEvent(Wire):
    """Tokens and cost of the run so far."""

    usage: Usage
    cost_usd: float | None = None
    type: Literal["usage"] = "usage"


@dataclass(frozen=True, slots=True)
class PermissionEvent(Wire):
    """The child asks (`choice` is None), and then what it was told."""

    request: PermissionRequest
    choice: Choice | None = None
    type: Literal["permission"] = "permission"


@dataclass(frozen=True, slots=True)
class NoticeEvent(Wire):
    """Anything else a follower should know: retries, warnings, progress, and what the engine said that we do not know.

    Attributes:
        text: one sentence.
        code: for a program. `progress` (data: `done`, `total`, `unit`), `lost` (data: `count`), `retry`, `unknown`,
            or an engine's own word.
        level: `info`, `warning` or `error`.  An `error` here is not the end of the run.
        data: plain JSON values.
    """

    text: str
    code: str = ""
    level: Literal["info", "warning", "error"] = "info"
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    type: Literal["notice"] = "notice"


Event: TypeAlias = (
    StartedEvent | TextEvent | ThoughtEvent | ToolEvent | PlanEvent | UsageEvent | PermissionEvent | NoticeEvent
)


@cache
def _any_event() -> TypeAdapter[Event]:
    from pydantic import Field, TypeAdapter

    return TypeAdapter(Annotated[Event, Field(discriminator="type")])


def event_from_json(text: str | bytes) -> Event:
    """The event that `to_json` wrote; a `type` that is not known here arrives as a notice with code `unknown`.

    Raises:
        pydantic.ValidationError: the text is no JSON object, or a known type lacks what it needs.
    """
    data: object = json.loads(text) if text.strip()[:1] in ("{", b"{") else None
    if isinstance(data, dict):
        found = cast("dict[str, Any]", data)
        kind: object = found.get("type")
        if isinstance(kind, str) and kind not in _TYPES:
            return NoticeEvent(f"an event of the unknown type {kind}", "unknown", data=found)
    return _any_event().validate_json(text)
