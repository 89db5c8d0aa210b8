"""The answer: `Result` and what it is made of.

One rule orders the evidence: the protocol's terminal message decides; none is an error of kind `exit` whatever the exit
code; an exit that our own shutdown caused counts for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from subagent_process import ShutdownReport
from subagent_workspace import Changes, WorktreeReport
from subagents._visible import shorten
from subagents._wire import Wire
from subagents._words import FailureKind, StopReason
from subagents.errors import RunFailed

MESSAGE_BYTES: Final = 4096
"""How long a failure's message may be, in bytes of UTF-8."""


@dataclass(frozen=True, slots=True)
class Failure(Wire):
    """What went wrong, for a program to act on (`kind`) and for a person to read (`message`).

    Attributes:
        kind: `limit` (a quota is used up), `auth`, `launch` (no process), `protocol`, `exit` (ended without a
            result), `network`, `overload`, `budget`, `model` (unknown or unfit), `policy` (refused by a rule),
            `output` (an answer that does not hold), `timeout`, `unknown`.
        stage: when it happened, one word: `start`, `run`, `close`, or an engine's own.
        message: at most 4,096 bytes of UTF-8, cut at a character.
        retryable: the same task may succeed later, unchanged.
        retry_at: Unix time in seconds before which a retry is useless; None when nobody said.
        http_status: the status behind it, where there was one.
        exit_code: of the child; negative = ended by that signal.
    """

    kind: FailureKind
    stage: str
    message: str
    retryable: bool = False
    retry_at: float | None = None
    http_status: int | None = None
    exit_code: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", shorten(self.message, MESSAGE_BYTES))


@dataclass(frozen=True, slots=True)
class Usage(Wire):
    """Tokens of one run.  The names are OpenTelemetry's (gen_ai.usage.*); None = the engine did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    reasoning_output_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        """The sum, field by field; a field that neither knows stays None."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return Usage(*(None if a is None and b is None else (a or 0) + (b or 0) for a, b in pairs))


@dataclass(frozen=True, slots=True)
class Evidence(Wire):
    """What a verdict is made of, kept apart.

    Attributes:
        terminal: the protocol's terminal message in short (`turn/completed`, `finish_reason=stop`), None when there
            was none.
        edits: successful edit events that were seen.
        events_lost: events that fell out of the log before anybody read them.
        events_late: events that came after the verdict, and were not delivered.
        process: what ending the child took; known once the run is closed.
        left_behind: the backend did not end within its bound: what it owned may still live.
        notes: what else a reader of the verdict should know, one sentence each (why a run was cancelled, what failed
            after the verdict).
    """

    terminal: str | None = None
    edits: int = 0
    events_lost: int = 0
    events_late: int = 0
    process: ShutdownReport | None = None
    left_behind: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result(Wire):
    """One honest answer.

    `completed` needs an answer, a structured value, or a successful edit event; the seam turns a `completed` without
    any of them into an `error` of kind `output`.

    Attributes:
        stop_reason: why the run ended.
        output: the final answer as text; with an `error`, what there was of it.
        structured: the value that `Task.output_schema` asked for, validated by the seam.
        failure: what went wrong; None exactly when nothing did.
        usage: tokens of this run.
        cost_usd: what the engine said it cost, in US dollars.
        session: the engine's name for the conversation, for `Task.resume`.
        model: the model that answered, as the engine names it.
        started_at: Unix time in seconds at which the run was entered.
        duration: seconds from there to the verdict.
        evidence: what the verdict is made of.
        changes: what the run did to its folder; None until the run is closed, and where `Task.changes` has nobody look.
        worktree: what became of the worktree that `Task.isolation` asked for; None until the run is closed.
    """

    stop_reason: StopReason
    output: str = ""
    structured: Any = None
    failure: Failure | None = None
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    session: str | None = None
    model: str | None = None
    started_at: float | None = None
    duration: float = 0.0
    evidence: Evidence = field(default_factory=Evidence)
    changes: Changes | None = None
    worktree: WorktreeReport | None = None

    @property
    def ok(self) -> bool:
        """The run completed."""
        return self.stop_reason == "completed"

    def raise_for_failure(self) -> Result:
        """This result when it is `ok`.

        Raises:
            RunFailed: it is not.
        """
        if not self.ok:
            raise RunFailed(self)
        return self

    @classmethod
    def completed(cls, output: str = "", **more: Any) -> Result:
        """A `completed` result; `more` are further fields."""
        return cls("completed", output, **more)

    @classmethod
    def error(cls, failure: Failure, *, output: str = "", **more: Any) -> Result:
        """An `error` result; `more` are further fields."""
        return cls("error", output, failure=failure, **more)


JsonSchema = Mapping[str, Any]
"""A JSON Schema (2020-12 unless its `$schema` says otherwise)."""
