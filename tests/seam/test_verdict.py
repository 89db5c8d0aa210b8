"""From evidence to verdict, as tables."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from subagent_process import LineTooLong, ProcessLost, SpawnError
from subagents import Failure, Result, StartError
from subagents._verdict import failure_of, judge, unfinished

AUTH = Failure("auth", "start", "sign in")


@pytest.mark.parametrize(
    ("exc", "kind", "says"),
    [
        (StartError(AUTH), "auth", "sign in"),
        (ExceptionGroup("g", [ValueError("x"), ExceptionGroup("h", [StartError(AUTH)])]), "auth", "sign in"),
        (SpawnError("gone could not be started", program="gone"), "launch", "SpawnError: gone could not be started"),
        (ProcessLost("gone", 5), "exit", "ProcessLost: gone"),
        (LineTooLong(70, 64), "protocol", "70 bytes"),
        (TimeoutError(), "timeout", "TimeoutError: "),
        (ConnectionResetError(104, "reset"), "network", "reset"),
        (ValueError("boom"), "unknown", "ValueError: boom"),
        (ExceptionGroup("g", [ConnectionError("x"), ValueError("y")]), "network", "ConnectionError: x"),
    ],
)
def test_the_failure_for_what_a_drive_raised(exc: BaseException, kind: str, says: str) -> None:
    failure = failure_of(exc, "run")
    assert failure.kind == kind
    assert says in failure.message


def test_no_secret_stays_in_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_API_KEY", "canary-4711-value")
    assert "canary-4711" not in failure_of(ValueError("bad key canary-4711-value"), "run").message
    assert "canary-4711" not in failure_of(StartError(Failure("auth", "start", "canary-4711-value")), "x").message
    result = judge(Result.error(Failure("auth", "run", "bad key canary-4711-value")), None, 0)
    assert result.failure is not None
    assert "canary-4711" not in result.failure.message


SCHEMA: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("result", "schema", "edits", "stop_reason", "kind", "structured"),
    [
        (Result.completed("hi"), None, 0, "completed", None, None),
        (Result.completed(""), None, 0, "error", "output", None),
        (Result.completed(" \n"), None, 0, "error", "output", None),
        (Result.completed(""), None, 1, "completed", None, None),
        (Result.completed("", structured=0), None, 0, "completed", None, 0),
        (Result.completed('{"n": 1}'), SCHEMA, 0, "completed", None, {"n": 1}),
        (Result.completed("x", structured={"n": 2}), SCHEMA, 0, "completed", None, {"n": 2}),
        (Result.completed('{"n": "1"}'), SCHEMA, 0, "error", "output", None),
        (Result.completed("x", structured={"n": "2"}), SCHEMA, 0, "error", "output", None),
        (Result.completed("no json"), SCHEMA, 1, "error", "output", None),
        (Result.completed(""), SCHEMA, 1, "error", "output", None),
        (Result.completed("[" * 100_000), SCHEMA, 0, "error", "output", None),
        (Result.completed("NaN"), {"type": "number"}, 0, "error", "output", None),
        (Result.completed("1e999"), {"type": "number"}, 0, "error", "output", None),
        (Result.completed("x", structured=object()), {}, 0, "error", "output", None),
        (Result.completed("1" + "0" * 400), {"multipleOf": 0.1}, 0, "error", "output", None),
        (Result.completed("1"), {"$ref": "#/a", "a": {"pattern": "("}}, 0, "completed", None, 1),
        (Result.completed('"x"'), {"$ref": "#/a", "a": {"pattern": "("}}, 0, "error", "output", None),
        (Result("error", "part"), None, 0, "error", "unknown", None),
        (Result("max-tokens", "part"), SCHEMA, 0, "max-tokens", None, None),
        (Result("refusal"), None, 0, "refusal", None, None),
        (Result("aborted"), None, 0, "aborted", None, None),
    ],
)
def test_what_a_backend_finished_with_becomes_this_verdict(
    result: Result, schema: Any, edits: int, stop_reason: str, kind: str | None, structured: Any
) -> None:
    verdict = judge(result, schema, edits)
    assert verdict.stop_reason == stop_reason
    assert (verdict.failure.kind if verdict.failure else None) == kind
    assert verdict.structured == structured
    assert verdict.output == result.output


def test_nothing_is_fetched_to_validate_an_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        for schema in ({"$dynamicRef": url}, {"$ref": "#/foo", "foo": {"$ref": url}}):
            verdict = judge(Result.completed("1"), schema, 0)
            assert verdict.failure is not None
            assert "the schema could not be applied" in verdict.failure.message
        with pytest.raises(BlockingIOError):
            server.accept()


def test_an_exception_that_cannot_be_printed_is_named_by_its_type() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert failure_of(Mute(), "run").message == "Mute"


def test_the_violation_names_the_place() -> None:
    verdict = judge(Result.completed('{"n": "1"}'), SCHEMA, 0)
    assert verdict.failure is not None
    assert "'1' is not of type 'integer' at $.n" in verdict.failure.message


def test_an_end_without_a_verdict_is_an_exit_whatever_the_code() -> None:
    for code in (0, 3, -9, None):
        failure = unfinished(code).failure
        assert failure is not None
        assert (failure.kind, failure.exit_code) == ("exit", code)
