"""Answers of the real Claude Code that have to satisfy a schema: what the model is told, and what counts in the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from claude_kit import Told, against, bash, results, told, write

from subagent_testing import ScriptedMessages, messages
from subagents import Failure, Result, TaskError
from subagents import _state as seam

pytestmark = pytest.mark.anyio

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"files": {"type": "integer", "minimum": 0}},
    "required": ["files"],
    "additionalProperties": False,
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def value(given: dict[str, Any]) -> messages.Block:
    """The model hands in its value."""
    return messages.tool_use("StructuredOutput", given)


async def answered(work: Path, *turns: messages.Turn, **fields: Any) -> tuple[Told, ScriptedMessages]:
    """A run that has to satisfy the schema, and its server."""
    with ScriptedMessages(turns) as api:
        return await told(against(api), "count", work, output_schema=SCHEMA, **fields), api


def refused(result: Result, kind: str = "output") -> Failure:
    assert (result.stop_reason, result.structured) == ("error", None)
    assert result.failure is not None
    assert (result.failure.kind, result.failure.retryable) == (kind, False)
    return result.failure


async def test_a_value_that_satisfies_the_schema_is_the_result(work: Path) -> None:
    found, api = await answered(work, [value({"files": 2})], "done")
    assert (found.result.stop_reason, found.result.structured) == ("completed", {"files": 2})
    tools = {tool["name"]: tool for tool in api.requests[0].body["tools"]}
    offered = tools["StructuredOutput"]["input_schema"]
    assert {name: offered[name] for name in SCHEMA} == SCHEMA


async def test_steps_and_words_before_the_value_are_no_part_of_it(work: Path) -> None:
    look = [messages.text("I shall look first."), bash("ls")]
    found, _ = await answered(work, look, [messages.text("Now I know."), value({"files": 0})], "done")
    assert found.result.structured == {"files": 0}


async def test_the_model_is_told_what_is_wrong_and_may_mend_it(work: Path) -> None:
    found, api = await answered(work, [value({"files": -1})], [value({"files": 1})], "done")
    assert found.result.structured == {"files": 1}
    assert "files" in results(api)[0]


async def test_a_value_that_never_satisfies_it_is_given_up(work: Path) -> None:
    found, api = await answered(work, [value({"files": "two"})])
    assert "output_schema" in refused(found.result).message
    assert 1 < len(api.requests) < 20
    assert "error_max_structured_output_retries" in (found.result.evidence.terminal or "")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("There are two files.", "the answer is no JSON"),
        pytest.param('{"files": -1}', "does not satisfy output_schema: ", marks=pytest.mark.long),
        pytest.param('```json\n{"files": 2}\n```', "the answer is no JSON", marks=pytest.mark.long),
    ],
)
async def test_words_instead_of_a_value_are_an_error_that_keeps_them(work: Path, answer: str, says: str) -> None:
    found, _ = await answered(work, answer)
    assert says in refused(found.result).message
    assert found.result.output == answer


async def test_words_that_are_such_a_value_will_do(work: Path) -> None:
    found, _ = await answered(work, '{"files": 2}')
    assert (found.result.stop_reason, found.result.structured) == ("completed", {"files": 2})


@pytest.mark.long
async def test_without_our_own_check_words_would_do(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: the engine calls it a success."""
    monkeypatch.setattr(seam, "judge", lambda result, schema, edits: result)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    found, _ = await answered(work, "There are two files.")
    assert found.result.ok


async def test_a_change_without_a_value_does_not_satisfy_it(work: Path) -> None:
    found, _ = await answered(work, [write(work / "a.txt")], "done", permission="allow")
    assert found.result.evidence.edits == 1
    refused(found.result)


async def test_a_value_does_not_hide_an_error_behind_it(work: Path) -> None:
    found, _ = await answered(work, [bash("ls")], messages.status(400, message="bad"))
    assert "bad" in refused(found.result, "model").message


async def test_a_schema_that_is_none_is_refused_before_anything_starts(work: Path) -> None:
    with ScriptedMessages() as api:
        with pytest.raises(TaskError):
            against(api).start("count", cwd=work, output_schema={"type": "integre"})
        assert (api.requests, api.others) == ([], [])


@pytest.mark.long
async def test_a_schema_of_a_hundred_thousand_bytes_arrives_whole(work: Path) -> None:
    """It is one argument of the program; a longer one is refused before anything starts."""
    large = {**SCHEMA, "description": "a" * 99_000}
    with ScriptedMessages([[value({"files": 1})], "done"]) as api:
        found = await told(against(api), "count", work, output_schema=large)
        tools = {tool["name"]: tool for tool in api.requests[0].body["tools"]}
        with pytest.raises(TaskError, match="longer than 100,000 bytes"):
            against(api).start("count", cwd=work, output_schema={**SCHEMA, "description": "a" * 100_000})
    assert tools["StructuredOutput"]["input_schema"]["description"] == large["description"]
    assert found.result.structured == {"files": 1}
