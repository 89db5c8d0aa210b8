"""A Task is checked before anything starts, and every refusal says what is wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import subagents
from subagents import Task, TaskError, Unsupported
from subagents._link import Link
from subagents._task import SEAM_FIELDS, TaskFields, changed_fields


class Able(subagents.Provider):
    """Takes every field of a Task."""

    name = "able"
    capabilities = frozenset(TaskFields.__annotations__) - SEAM_FIELDS

    async def drive(self, task: Task, link: Link) -> None:
        link.finish(subagents.Result.completed("done"))


class Plain(Able):
    """Takes none but the seam's own."""

    name = "plain"
    capabilities = frozenset[str]()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"prompt": ""}, "prompt is empty"),
        ({"prompt": " \n"}, "prompt is empty"),
        ({"prompt": "a\0b"}, "prompt holds a null character"),
        ({"prompt": "a\ud800"}, "surrogate"),
        ({"prompt": 7}, "prompt is text, not int"),
        ({"model": ""}, "model is empty"),
        ({"model": 3}, "model is text"),
        ({"label": "x\0"}, "label holds a null"),
        ({"write": "a.py"}, "write is a list of names, not str"),
        ({"read": 5}, "read is a list of names, not int"),
        ({"tools": ["Bash", ""]}, "an entry of tools is empty"),
        ({"tools": [None]}, "an entry of tools is text, not NoneType"),
        ({"max_turns": 0}, "max_turns is a whole number from 1, not 0"),
        ({"max_turns": True}, "max_turns is a whole number"),
        ({"max_turns": 1.5}, "max_turns is a whole number"),
        ({"budget": 0}, "budget is a number above 0, not 0"),
        ({"deadline": float("inf")}, "deadline is a number above 0, not inf"),
        ({"deadline": float("nan")}, "deadline is a number above 0, not nan"),
        ({"idle_limit": -1}, "idle_limit is a number above 0, not -1"),
        ({"idle_limit": "5"}, "idle_limit is a number above 0, not '5'"),
        ({"deadline": 10**400}, "deadline is a number above 0"),
        ({"deadline": True}, "deadline is a number above 0, not True"),
    ],
)
def test_a_task_that_cannot_be_right_is_refused_with_its_reason(fields: dict[str, Any], says: str) -> None:
    all_fields: dict[str, Any] = {"prompt": "x", **fields}
    with pytest.raises(TaskError, match=says):
        Task(**all_fields)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "no-such-type"}, "is no JSON Schema"),
        ({"type": "object", "properties": 3}, "is no JSON Schema"),
        ({"const": float("nan")}, "cannot be written as JSON"),
        ({"const": object()}, "cannot be written as JSON"),
        (["type"], "is a JSON object"),
        ({"$schema": 5}, "unknown dialect 5"),
        ({"$schema": "https://example.com/mine"}, "unknown dialect 'https://example.com/mine'"),
        ({"$dynamicRef": "https://example.com/schema.json"}, "cannot be resolved"),
        ({"$ref": "https://example.com/schema.json"}, "example.com/schema.json cannot be resolved"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "#/\\$defs/none cannot be resolved"),
    ],
)
def test_a_schema_that_is_none_is_refused_before_anything_starts(schema: Any, says: str) -> None:
    with pytest.raises(TaskError, match=says):
        Able().start("x", output_schema=schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "number"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"n": {}}, "$ref": "#/definitions/n"},
        {"properties": {"$ref": {"type": "string"}}},
        {"enum": [{"$ref": "not a reference"}]},
        {},
        MappingProxyType({"required": ("a",), "properties": MappingProxyType({"a": True})}),
    ],
)
def test_a_schema_that_is_one_is_taken(schema: Any) -> None:
    taken = Able().start("x", output_schema=schema).task.output_schema
    assert taken == json.loads(json.dumps(schema, default=dict))


def test_a_schema_that_is_nested_too_deep_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(400):
        schema = {"not": schema}
    with pytest.raises(TaskError, match=r"too deep|cannot be written"):
        Able().start("x", output_schema=schema)


def test_a_folder_that_cannot_be_entered_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for cwd, says in ((tmp_path / "none", "cannot be resolved"), (file, "is not a directory"), (loop, "cannot be")):
        with pytest.raises(TaskError, match=says):
            Plain().start("x", cwd=cwd)
    for wrong, says in (("a\0b", "null character"), ("", "cwd is empty"), (5, "cwd is text"), (b"/tmp", "cwd is text")):
        with pytest.raises(TaskError, match=says):
            Plain().start("x", cwd=wrong)  # pyright: ignore[reportArgumentType]  # as a caller without types would


def test_the_folder_is_absolute_and_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    assert Plain().start("x", cwd="link").task.cwd == str(tmp_path.resolve() / "real")
    assert Plain().start("x").task.cwd == os.path.realpath(tmp_path)


def test_a_field_outside_the_capabilities_is_refused_by_its_name() -> None:
    values: dict[str, Any] = {
        "model": "m", "effort": "high", "output_schema": {}, "read": ("a",), "write": ("b",), "tools": (),
        "max_turns": 1, "budget": 1.0, "resume": "s", "instructions": "i",
    }  # fmt: skip
    assert set(values) == set(TaskFields.__annotations__) - SEAM_FIELDS
    for name, value in values.items():
        with pytest.raises(Unsupported, match=f"plain does not support {name} "):
            Plain().start("x", **{name: value})
        Able().start("x", **{name: value})


def test_what_the_seam_takes_care_of_needs_no_capability() -> None:
    Plain().start("x", cwd=".", deadline=1, idle_limit=1, label="l")


def test_an_unknown_field_is_refused_by_its_name() -> None:
    with pytest.raises(TaskError, match="no field promt beside its prompt; it has cwd, model"):
        Plain().start("x", promt="y")  # pyright: ignore[reportCallIssue]  # as a caller without types would


@pytest.mark.parametrize("task", [None, 5, b"x"])
def test_what_is_no_task_is_refused(task: Any) -> None:
    with pytest.raises(TaskError, match="a task is a Task or text"):
        Plain().start(task)


def test_keywords_go_on_top_of_the_task() -> None:
    run = Able().start(Task("x", model="a", label="l"), model="b")
    assert (run.task.model, run.task.label) == ("b", "l")


def test_a_wrong_permission_is_refused() -> None:
    with pytest.raises(TaskError, match="permission is 'reject', 'allow' or a callback, not 'yes'"):
        Plain().start("x", permission="yes")  # pyright: ignore[reportArgumentType]


def test_lists_become_tuples_and_paths_text() -> None:
    task = Task("x", read=["a"], write=[Path("b/c")], tools=["Bash"])  # pyright: ignore[reportArgumentType]
    assert (task.read, task.write, task.tools) == (("a",), ("b/c",), ("Bash",))


def test_keywords_and_fields_are_the_same_names() -> None:
    from dataclasses import fields

    assert [f.name for f in fields(Task)] == ["prompt", *TaskFields.__annotations__]
    assert changed_fields(Task("x", model="m")) == {"model"}
