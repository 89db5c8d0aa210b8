"""Permission: what a child asks before it acts, and who answers.

A `Permission` is `"reject"` (the default), `"allow"`, or a callback.  Whatever goes wrong with an answer is a
rejection, and an answer never grants more than was offered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from subagents._wire import Wire
from subagents._words import OPTION_KINDS, OptionKind, ToolKind


@dataclass(frozen=True, slots=True)
class PermissionOption(Wire):
    """One answer that the child would take; `kind` is a word of the Agent Client Protocol."""

    kind: OptionKind
    id: str = ""
    name: str = ""


ONCE: Final = (PermissionOption("allow_once"), PermissionOption("reject_once"))


@dataclass(frozen=True, slots=True)
class PermissionRequest(Wire):
    """What the child wants to do.

    Attributes:
        title: one line for a person.
        kind: what sort of step it is, a word of the Agent Client Protocol.
        id: the engine's name for the request or its step.
        command: the command line, where it is one.
        paths: the files it is about.
        reason: why, in the engine's words.
        options: the answers that the child takes; by default once or not.
        data: the rest, as plain JSON values.
        beyond: granting it goes beyond what the configuration allows by itself (leaving a sandbox, writing outside the
            folder): a callback may do so, `permission="allow"` does not.
    """

    title: str
    kind: ToolKind = "other"
    id: str = ""
    command: str | None = None
    paths: tuple[str, ...] = ()
    reason: str = ""
    options: tuple[PermissionOption, ...] = ONCE
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    beyond: bool = False


@dataclass(frozen=True, slots=True)
class Choice(Wire):
    """What the child is told: a kind, the offered option behind it where there is one, and why."""

    kind: OptionKind
    option: str | None = None
    reason: str = ""

    @property
    def allowed(self) -> bool:
        """The step may be taken."""
        return self.kind.startswith("allow")


Answer: TypeAlias = Choice | OptionKind | Literal["allow", "reject"]
Permission: TypeAlias = Literal["reject", "allow"] | Callable[[PermissionRequest], Answer | Awaitable[Answer]]


def rejected(request: PermissionRequest, reason: str) -> Choice:
    """The mildest rejection that the child takes; `reject_once` when it offered none."""
    offered = {o.kind: o for o in reversed(request.options)}
    option = offered.get("reject_once") or offered.get("reject_always")
    return Choice(option.kind, option.id or None, reason) if option else Choice("reject_once", None, reason)


def choose(request: PermissionRequest, answer: object) -> Choice:
    """The choice that an answer stands for; anything that was not offered, or is no answer, is a rejection.

    `"allow"` takes `allow_once` only: a standing permission is granted by name.
    """
    reason, wanted = "", answer
    if isinstance(answer, Choice):
        reason, wanted = answer.reason, answer.kind
    if wanted in ("reject", "reject_once"):
        return rejected(request, reason)
    kind = "allow_once" if wanted == "allow" else wanted
    if not isinstance(kind, str) or kind not in OPTION_KINDS:
        return rejected(request, "the answer was none of the words that are one")
    named = answer.option if isinstance(answer, Choice) else None
    for option in request.options:
        if option.kind == kind and named in (None, option.id):
            return Choice(option.kind, option.id or None, reason)
    return rejected(request, f"{kind} was not offered")
