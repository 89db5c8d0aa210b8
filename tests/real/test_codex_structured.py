"""Answers of the real Codex that have to satisfy a schema: what the model is told, and what counts in the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from codex_kit import Told, against, patch, shell, told

from subagent_testing import ScriptedResponses, responses
from subagents import Failure, Result, TaskError, TextEvent
from subagents import _state as seam

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("codex_binary")]

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"files": {"type": "integer", "minimum": 0}},
    "required": ["files"],
    "additionalProperties": False,
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def answered(work: Path, *turns: responses.Turn, **options: Any) -> tuple[Told, list[dict[str, Any]]]:
    """A run that has to satisfy the schema, and the bodies of its requests."""
    with ScriptedResponses(turns) as api:
        found = await told(against(api, **options), "count", work, output_schema=SCHEMA)
        return found, [request.body for request in api.requests]


def refused(result: Result) -> Failure:
    assert (result.stop_reason, result.structured) == ("error", None)
    assert result.failure is not None
    return result.failure


async def test_a_value_that_satisfies_the_schema_is_the_result(work: Path) -> None:
    found, (body,) = await answered(work, '{"files": 2}')
    assert (found.result.stop_reason, found.result.structured) == ("completed", {"files": 2})
    assert found.result.output == '{"files": 2}'
    asked = body["text"]["format"]
    assert (asked["type"], asked["strict"], asked["schema"]) == ("json_schema", True, SCHEMA)


async def test_steps_and_words_before_the_value_are_no_part_of_it(work: Path) -> None:
    """Every request of the turn carries the schema, and what is said between steps is only told."""
    look = [responses.message("I shall look first.", phase="commentary"), shell("ls")]
    last = [
        responses.message("Now I know.", phase="commentary"),
        responses.message('{"files": 0}', phase="final_answer"),
    ]
    found, bodies = await answered(work, look, last)
    assert found.result.structured == {"files": 0}
    said = {e.id for e in found.events if isinstance(e, TextEvent)}
    assert len(said) == 3
    assert [body["text"]["format"]["schema"] for body in bodies] == [SCHEMA, SCHEMA]


@pytest.mark.long
async def test_of_messages_without_a_phase_the_last_is_the_value(work: Path) -> None:
    found, _ = await answered(work, [responses.message("I looked."), responses.message('{"files": 1}')])
    assert found.result.structured == {"files": 1}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ('{"files": -1}', "does not satisfy output_schema: "),
        pytest.param('{"files": "two"}', "'two' is not of type 'integer'", marks=pytest.mark.long),
        pytest.param("{}", "'files' is a required property", marks=pytest.mark.long),
        pytest.param('{"files": 1, "more": 2}', "'more' was unexpected", marks=pytest.mark.long),
        ("There are two files.", "the answer is no JSON"),
        pytest.param('```json\n{"files": 2}\n```', "the answer is no JSON", marks=pytest.mark.long),
        pytest.param('{"files": 2} and that is all', "the answer is no JSON", marks=pytest.mark.long),
        pytest.param('{"files": NaN}', "the answer is no JSON", marks=pytest.mark.long),
    ],
)
async def test_an_answer_that_does_not_satisfy_it_is_an_error_that_keeps_the_answer(
    work: Path, answer: str, says: str
) -> None:
    found, _ = await answered(work, answer)
    failure = refused(found.result)
    assert (failure.kind, failure.retryable) == ("output", False)
    assert says in failure.message
    assert found.result.output == answer


async def test_without_our_own_check_every_answer_would_do(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: the engine checks nothing."""
    monkeypatch.setattr(seam, "judge", lambda result, schema, edits: result)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    found, _ = await answered(work, '{"files": -1}')
    assert found.result.ok


async def test_a_change_without_a_value_does_not_satisfy_it(work: Path) -> None:
    found, _ = await answered(work, [patch("made", "x")], [responses.reasoning("hm")], sandbox="workspace-write")
    assert found.result.evidence.edits == 1
    assert refused(found.result).kind == "output"


async def test_a_schema_that_the_model_server_refuses_says_so(work: Path) -> None:
    words = "Invalid schema for response_format 'codex_output_schema': 'minimum' is not permitted."
    body = {"error": {"message": words, "code": "invalid_json_schema", "param": "text.format.schema"}}
    found, bodies = await answered(work, responses.status(400, body))
    failure = refused(found.result)
    assert (failure.kind, failure.retryable) == ("model", False)
    assert failure.message.startswith(words)
    assert "schema" in failure.message.split("To do:")[1]
    assert len(bodies) == 1


async def test_a_schema_that_is_none_is_refused_before_anything_starts(work: Path) -> None:
    with ScriptedResponses() as api:
        with pytest.raises(TaskError):
            against(api).start("count", cwd=work, output_schema={"type": "integre"})
        assert (api.requests, api.others) == ([], [])


@pytest.mark.long
async def test_a_large_schema_arrives_whole(work: Path) -> None:
    """Longer than one write into the pipe."""
    large = {**SCHEMA, "description": "ä" * 200_000}
    with ScriptedResponses(json.dumps({"files": 1})) as api:
        found = await told(against(api), "count", work, output_schema=large)
        assert api.requests[0].body["text"]["format"]["schema"] == large
    assert found.result.structured == {"files": 1}
