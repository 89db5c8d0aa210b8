"""From evidence to verdict: pure rules, in one place.

The protocol's terminal message decides (`Link.finish`); none is an error of kind `exit`; and a `completed` must have
something to show for itself.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

from subagent_process import LineTooLong, ProcessLost, SpawnError, redact
from subagents._result import Failure, JsonSchema, Result
from subagents._words import FailureKind
from subagents.errors import StartError

_KINDS: tuple[tuple[type[BaseException], FailureKind], ...] = (
    (SpawnError, "launch"),
    (ProcessLost, "exit"),
    (LineTooLong, "protocol"),
    (TimeoutError, "timeout"),
    (ConnectionError, "network"),
)


def leaves(exc: BaseException) -> list[BaseException]:
    """The exceptions inside a group, however deep; of anything else, itself."""
    if not isinstance(exc, BaseExceptionGroup):
        return [exc]
    group = cast("BaseExceptionGroup[BaseException]", exc)
    return [leaf for inner in group.exceptions for leaf in leaves(inner)]


def failure_of(exc: BaseException, stage: str) -> Failure:
    """The failure that an exception of `drive` stands for.

    A StartError anywhere in a group decides, then the first leaf.
    """
    found = leaves(exc)
    chosen = next((e for e in found if isinstance(e, StartError)), found[0])
    if isinstance(chosen, StartError):
        return clean(chosen.failure)
    return Failure(_kind(chosen), stage, redact(f"{type(chosen).__name__}: {chosen}"))


def _kind(exc: BaseException) -> FailureKind:
    for types, kind in _KINDS:
        if isinstance(exc, types):
            return kind
    return "unknown"


def clean(failure: Failure) -> Failure:
    """The failure with what looks like a secret taken out of its message."""
    return replace(failure, message=redact(failure.message))


def judge(result: Result, schema: JsonSchema | None, edits: int) -> Result:
    """The verdict for what a backend finished with: a failure is cleaned, a `completed` must hold."""
    if result.failure is not None:
        result = replace(result, failure=clean(result.failure))
    elif result.stop_reason == "error":
        result = replace(result, failure=Failure("unknown", "run", "the provider gave no reason"))
    if not result.ok:
        return result
    if schema is not None:
        return _structured(result, schema)
    if not result.output.strip() and result.structured is None and not edits:
        return _unmet(result, "the run ended without an answer and without a change")
    return result


def _structured(result: Result, schema: JsonSchema) -> Result:
    from subagents._schema import violation

    value: Any = result.structured
    if value is None:
        try:
            value = json.loads(result.output)
        except (ValueError, RecursionError):
            return _unmet(
                result, "the answer is no JSON, and the task asked for a value that satisfies its output_schema"
            )
    if wrong := violation(value, schema):
        return _unmet(replace(result, structured=None), f"the answer does not satisfy output_schema: {wrong}")
    return replace(result, structured=value)


def _unmet(result: Result, why: str) -> Result:
    return replace(result, stop_reason="error", failure=Failure("output", "run", redact(why)))


def unfinished(exit_code: int | None) -> Result:
    """The verdict when `drive` ended without one."""
    how = "" if exit_code is None else f" (exit code {exit_code})"
    return Result.error(Failure("exit", "run", f"the child ended without a result{how}", exit_code=exit_code))
