"""The list of things to do, out of the engine's calls and what they were answered."""

from __future__ import annotations

from typing import Any

import pytest

from subagent_claude_code._plan import Plan
from subagents import PlanEntry


def step(plan: Plan, name: str, given: dict[str, Any], result: dict[str, Any], **block: Any) -> list[PlanEntry] | None:
    """One call and its outcome, and the list when it changed."""
    plan.called({"type": "tool_use", "id": "t", "name": name, "input": given})
    event = plan.answered({"type": "tool_result", "tool_use_id": "t", **block}, result)
    return None if event is None else list(event.entries)


def created(plan: Plan, ident: str, subject: str) -> list[PlanEntry] | None:
    return step(plan, "TaskCreate", {"subject": subject}, {"task": {"id": ident, "subject": subject}})


def test_entries_come_change_and_go_under_the_number_of_the_engine() -> None:
    plan = Plan()
    assert created(plan, "1", "first") == [PlanEntry("first")]
    assert created(plan, "2", "second") == [PlanEntry("first"), PlanEntry("second")]
    done = {"success": True}
    begun = step(plan, "TaskUpdate", {"taskId": "2", "status": "in_progress"}, done)
    assert begun == [PlanEntry("first"), PlanEntry("second", "in_progress")]
    renamed = step(plan, "TaskUpdate", {"taskId": "2", "subject": "2nd"}, done)
    assert renamed == [PlanEntry("first"), PlanEntry("2nd", "in_progress")]
    assert step(plan, "TaskUpdate", {"taskId": "1", "status": "deleted"}, done) == [PlanEntry("2nd", "in_progress")]


def test_a_list_replaces_what_was_known() -> None:
    plan = Plan()
    created(plan, "1", "first")
    tasks = [{"id": "7", "subject": "x", "status": "completed"}, {"id": "8", "subject": "y", "status": "pending"}]
    assert step(plan, "TaskList", {}, {"tasks": tasks}) == [PlanEntry("x", "completed"), PlanEntry("y")]
    assert step(plan, "TaskUpdate", {"taskId": "8", "status": "completed"}, {"success": True}) == [
        PlanEntry("x", "completed"),
        PlanEntry("y", "completed"),
    ]


def test_what_changes_nothing_is_not_told() -> None:
    plan = Plan()
    created(plan, "1", "first")
    assert step(plan, "TaskList", {}, {"tasks": [{"id": "1", "subject": "first", "status": "pending"}]}) is None
    assert step(plan, "TaskUpdate", {"taskId": "9", "status": "completed"}, {"success": False}) is None
    assert step(plan, "TaskUpdate", {"taskId": "1", "status": "completed"}, {"success": False}) is None
    assert step(plan, "TaskCreate", {"subject": "x"}, {}, is_error=True) is None
    assert step(plan, "Bash", {"command": "ls"}, {}) is None


@pytest.mark.parametrize("name", ["TodoWrite", "TaskCreate", "TaskUpdate", "TaskList"])
@pytest.mark.parametrize("value", [None, 7, "x", [], [7], {"id": 7}], ids=repr)
def test_no_message_breaks_it(name: str, value: object) -> None:
    names = ("todos", "subject", "taskId", "status", "task", "tasks", "success")
    plan = Plan()
    created(plan, "1", "first")
    step(plan, name, dict.fromkeys(names, value), dict.fromkeys(names, value))
    step(plan, name, {"taskId": "1", "status": value, "todos": [{"status": value}]}, {"success": True})
