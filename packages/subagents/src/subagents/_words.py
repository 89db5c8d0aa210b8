"""The closed vocabularies of the seam, each a Literal.  Where the words come from stands beside them."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

StopReason: TypeAlias = Literal["completed", "aborted", "error", "max-tokens", "refusal"]

FailureKind: TypeAlias = Literal[
    "limit", "auth", "launch", "protocol", "exit", "network", "overload",
    "budget", "model", "policy", "output", "timeout", "unknown",
]  # fmt: skip

EventType: TypeAlias = Literal["started", "text", "thought", "tool", "plan", "usage", "permission", "notice"]

# The next four are the words of the Agent Client Protocol, unchanged (schema of 0.12, read).
ToolKind: TypeAlias = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"]
ToolStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]
OptionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
PlanStatus: TypeAlias = Literal["pending", "in_progress", "completed"]

STOP_REASONS: Final = frozenset[str](get_args(StopReason))
OPTION_KINDS: Final = frozenset[str](get_args(OptionKind))
