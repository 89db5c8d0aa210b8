"""How a conversation ended, as a `Result`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from subagents import Evidence, Failure, Result, StopReason, Usage

if TYPE_CHECKING:
    from subagent_local._asking.chat import Answer
    from subagent_local._engine.child import Engine

# The words after which an answer is whole, those that say why it is not, and nothing else: an answer that ends with
# any other one ("abort", "error", "tool_calls") may be half of one.
_STOP: dict[str, StopReason] = {
    "stop": "completed",
    "eos": "completed",
    "stop_sequence": "completed",
    "length": "max-tokens",
    "content_filter": "refusal",
}


async def explained(failure: Failure, engine: Engine) -> Failure:
    """A connection that broke because the child ended is the child's exit, and its last words belong to it."""
    if failure.kind not in ("network", "protocol") or failure.http_status is not None:
        return failure
    code = await engine.child.exit_code()
    if code is None:
        return failure
    message = f"the engine ended with exit code {code} before the answer was whole"
    return Failure("exit", "run", message + await engine.child.last_words(), exit_code=code)


def result_of(answer: Answer, model: str, failure: Failure | None) -> Result:
    terminal = f"finish_reason={answer.finish}" if answer.finish else None
    stop = "error" if failure else _STOP.get(answer.finish or "", "error")
    if stop == "error" and failure is None:
        reason = f"the model server stopped with {answer.finish or ''!r}, which does not say that the answer is whole"
        failure = Failure("protocol", "run", reason)
    if answer.went_on and failure is None:
        stop, went_on = "error", "the model server went on after it had said that the answer was whole"
        failure = Failure("protocol", "run", went_on)
    if stop == "completed" and not answer.text.strip():
        stop = "error"
        empty = "the model thought about it and gave no answer" if answer.thought else "the model gave an empty answer"
        failure = Failure("output", "run", empty)
    return Result(
        stop,
        answer.text,
        failure=failure,
        usage=answer.usage or Usage(),
        model=model,
        evidence=Evidence(terminal=terminal),
    )
