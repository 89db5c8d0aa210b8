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
from subagents._words import STOP_REASONS, FailureKind
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
    found: list[BaseException] = []
    pending = [exc]
    while pending:
        one = pending.pop()
        if isinstance(one, BaseExceptionGroup):
            pending.extend(reversed(cast("BaseExceptionGroup[BaseException]", one).exceptions))
        else:
            found.append(one)
    return found


def failure_of(exc: BaseException, stage: str) -> Failure:
    """The failure that an exception of `drive` stands for.

    A StartError anywhere in a group decides, then the first leaf.
    """
    found = leaves(exc)
    chosen = next((e for e in found if isinstance(e, StartError)), found[0])
    if isinstance(chosen, StartError):
        return clean(chosen.failure)
    return Failure(_kind(chosen), stage, redact(told(chosen)))


def told(exc: BaseException) -> str:
    """Type and text of an exception, whatever its `__str__` does."""
    try:
        return f"{type(exc).__name__}: {exc}"
    except Exception:  # noqa: BLE001  # somebody else's code
        return type(exc).__name__


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
    if result.stop_reason not in STOP_REASONS:
        why = f"the provider finished with the unknown stop reason {result.stop_reason!r}"
        return replace(result, stop_reason="error", failure=Failure("protocol", "run", why))
    if result.failure is not None:
        stop = "error" if result.ok else result.stop_reason  # a failure and a completed answer: one of them is wrong
        return replace(result, stop_reason=stop, failure=clean(result.failure))
    if result.stop_reason == "error":
        return replace(result, failure=Failure("unknown", "run", "the provider gave no reason"))
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
    try:
        if value is None:
            value = json.loads(result.output)
        json.dumps(value, allow_nan=False)  # NaN and infinity are Python's, and an engine's value may be anything
    except (ValueError, TypeError, RecursionError):
        why = "the answer is no JSON, and the task asked for a value that satisfies its output_schema"
        return _unmet(replace(result, structured=None), why)
    if wrong := violation(value, schema):
        return _unmet(replace(result, structured=None), f"the answer does not satisfy output_schema: {wrong}")
    return replace(result, structured=value)


def _unmet(result: Result, why: str) -> Result:
    return replace(result, stop_reason="error", failure=Failure("output", "run", redact(why)))


def unfinished(exit_code: int | None) -> Result:
    """The verdict when `drive` ended without one."""
    how = "" if exit_code is None else f" (exit code {exit_code})"
    return Result.error(Failure("exit", "run", f"the child ended without a result{how}", exit_code=exit_code))
