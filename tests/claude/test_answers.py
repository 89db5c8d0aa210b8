"""Who decides about a step, and what `allow` may grant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from subagent_claude_code._answers import Answer, Answers
from subagent_claude_code.options import PermissionMode
from subagent_process import ShutdownReport
from subagents import Choice, Event, Failure, Link, PermissionRequest, Result

pytestmark = pytest.mark.anyio


class Recorded(Link):
    """A link that notes what it is asked, and answers."""

    def __init__(self, choice: Choice) -> None:
        self.asked: list[PermissionRequest] = []
        self._choice = choice

    @property
    def depth(self) -> int:
        return 1  # pragma: no cover

    @property
    def inbox(self) -> AsyncIterator[str]:
        raise NotImplementedError  # pragma: no cover

    def ready(self, *, session: str | None = None, model: str | None = None) -> None: ...
    def emit(self, event: Event) -> None: ...
    def finish(self, result: Result) -> None: ...
    def note(self, text: str) -> None: ...
    def report(self, report: ShutdownReport) -> None: ...

    async def ask(self, request: PermissionRequest) -> Choice:
        self.asked.append(request)
        return self._choice


class Bench:
    def __init__(self, root: Path, *, mode: PermissionMode = "default", choice: Choice | None = None) -> None:
        self.link = Recorded(choice or Choice("allow_once"))
        self.failures: list[Failure] = []
        self.answers = Answers(
            self.link, mode=mode, roots=(str(root / "work"), str(root / "tmp")), max_refusals=2,
            give_up=self.failures.append,
        )  # fmt: skip
        (root / "work").mkdir(exist_ok=True)

    async def beyond(self, tool: str, given: dict[str, Any], **context: Any) -> bool:
        await self.answers.decide(tool, given, SimpleNamespace(**context))
        return self.link.asked[-1].beyond


@pytest.mark.parametrize(
    ("tool", "path", "beyond"),
    [
        ("Write", "a.txt", False),
        ("Write", "{root}/work/deep/a.txt", False),
        ("Write", "{root}/tmp/a.txt", False),
        ("Edit", "{root}/other.txt", True),
        ("Edit", "../other.txt", True),
        ("Write", "~/a.txt", True),
        ("Write", "link/a.txt", True),
        ("Write", ".git/hooks/pre-commit", True),
        ("Write", ".GIT/config", True),
        ("Write", "sub/.claude/settings.json", True),
        ("Write", ".mcp.json", True),
        ("Invented", "a.txt", True),
    ],
)
async def test_a_path_is_beyond_where_a_task_may_not_write(tmp_path: Path, tool: str, path: str, beyond: bool) -> None:
    bench = Bench(tmp_path)
    (tmp_path / "work" / "link").symlink_to(tmp_path)
    assert await bench.beyond(tool, {"file_path": path.format(root=tmp_path)}) is beyond


async def test_a_command_is_beyond_where_the_engine_says_that_it_reaches_outside(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert not await bench.beyond("Bash", {"command": "ls"})
    assert not await bench.beyond("Bash", {"command": "rm x"}, blocked_path=f"{tmp_path}/work/x")
    assert await bench.beyond("Bash", {"command": "rm /etc/x"}, blocked_path="/etc/x")
    assert bench.link.asked[-1].paths == ("/etc/x",)
    assert bench.link.asked[-1].command == "rm /etc/x"


async def test_a_file_that_the_engine_calls_sensitive_is_beyond(tmp_path: Path) -> None:
    bench, reason = Bench(tmp_path), "Claude requested permissions to edit /w/.envrc which is a sensitive file."
    assert await bench.beyond("Write", {"file_path": ".envrc"}, decision_reason=reason)
    assert not await bench.beyond("Write", {"file_path": ".envrc"}, decision_reason="because")


async def test_a_command_that_removes_more_than_files_of_the_task_is_beyond(tmp_path: Path) -> None:
    reason = "Dangerous rm operation on working directory or its ancestor: /w"
    assert await Bench(tmp_path).beyond("Bash", {"command": "rm -rf .."}, decision_reason=reason)


async def test_a_plan_may_be_left_where_the_configuration_does_not_ask_for_one(tmp_path: Path) -> None:
    assert not await Bench(tmp_path).beyond("ExitPlanMode", {"plan": "p"})
    assert await Bench(tmp_path, mode="plan").beyond("ExitPlanMode", {"plan": "p"})


async def test_a_tool_of_a_server_is_beyond(tmp_path: Path) -> None:
    assert await Bench(tmp_path).beyond("mcp__db__query", {})


async def test_everything_is_beyond_a_plan(tmp_path: Path) -> None:
    bench = Bench(tmp_path, mode="plan")
    assert await bench.beyond("Write", {"file_path": "a.txt"})
    assert await bench.beyond("Bash", {"command": "ls"})


async def test_what_is_asked_says_what_it_is_about(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    context = SimpleNamespace(tool_use_id="t", decision_reason=None, description="why", blocked_path=7)
    assert await bench.answers.decide("Write", {"file_path": "a.txt"}, context) == Answer(True)
    (request,) = bench.link.asked
    assert (request.title, request.kind, request.id, request.paths) == ("Write a.txt", "edit", "t", ("a.txt",))
    assert request.reason == "why"
    assert request.data == {"tool": "Write", "input": {"file_path": "a.txt"}}


async def test_nobody_is_asked_a_question_to_a_person(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    answer = await bench.answers.decide("AskUserQuestion", {}, SimpleNamespace())
    assert not answer.allowed
    assert "Nobody is here" in answer.reason
    assert bench.link.asked == []


async def test_too_many_refusals_give_the_run_up_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, choice=Choice("reject_once", None, "not today"))
    for _ in range(3):
        assert await bench.answers.decide("Bash", {}, SimpleNamespace()) == Answer(False, "not today")
    assert [failure.kind for failure in bench.failures] == ["policy"]


async def test_a_refusal_without_a_reason_says_that_it_is_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path, choice=Choice("reject_once"))
    assert await bench.answers.decide("Bash", {}, SimpleNamespace()) == Answer(False, "This step was refused.")
