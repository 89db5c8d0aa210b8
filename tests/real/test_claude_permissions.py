"""Permission on the real Claude Code: what is asked, what runs, what is on disk, in each mode."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Literal

import pytest
from claude_kit import Told, against, bash, kinds, names, results, told, write

from subagent_claude_code.options import PermissionMode
from subagent_testing import ScriptedMessages, messages
from subagents import Permission, PermissionRequest

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]  # the loop decides nothing here

ALL = ("Write", "Edit", "Bash", "outside")


async def tried(work: Path, mode: PermissionMode, permission: Permission) -> Told:
    """The model writes, edits and runs a command in the folder, and writes outside of it."""
    (work / "seed.txt").write_text("old\n")
    edit = {"file_path": str(work / "seed.txt"), "old_string": "old", "new_string": "new"}
    steps = [
        [messages.tool_use("Read", {"file_path": str(work / "seed.txt")})],
        [write(work / "in.txt")],
        [messages.tool_use("Edit", edit)],
        [bash("python3 -c 'print(1)' > sh.txt")],
        [write(work.parent / "out.txt")],
        "done",
    ]
    with ScriptedMessages(steps) as api:
        return await told(against(api, permission_mode=mode), "work", work, permission=permission)


def granted(_: PermissionRequest) -> Literal["allow"]:
    return "allow"


@pytest.mark.parametrize(
    ("mode", "permission", "asked", "done"),
    [
        ("default", "reject", ALL, ()),
        ("default", "allow", ALL, ("Write", "Edit", "Bash")),
        ("default", granted, ALL, ALL),
        ("acceptEdits", "reject", ("Bash", "outside"), ("Write", "Edit")),
        ("acceptEdits", "allow", ("Bash", "outside"), ("Write", "Edit", "Bash")),
        ("acceptEdits", granted, ("Bash", "outside"), ALL),
        ("plan", "reject", ALL, ()),
        ("plan", "allow", ALL, ()),
        ("plan", granted, ALL, ALL),
        ("dontAsk", "reject", (), ()),
        ("dontAsk", "allow", (), ()),
        ("dontAsk", granted, (), ()),
    ],
)
async def test_what_a_mode_asks_what_runs_and_what_is_then_on_disk(
    work: Path, mode: PermissionMode, permission: Permission, asked: tuple[str, ...], done: tuple[str, ...]
) -> None:
    found = await tried(work, mode, permission)
    assert [_step(request, work) for request in found.asked] == list(asked)
    ran = dict(zip(ALL, (status == "completed" for _, status in kinds(found.tools)[1:]), strict=True))
    assert [name for name in ALL if ran[name]] == list(done)
    disk = {
        "Write": (work / "in.txt").exists(),
        "Edit": (work / "seed.txt").read_text() == "new\n",
        "Bash": (work / "sh.txt").exists(),
        "outside": (work.parent / "out.txt").exists(),
    }
    assert disk == ran
    assert found.result.ok
    refused = len(ALL) - len(done)
    assert found.result.evidence.notes == ((f"{refused} step{'' if refused == 1 else 's'} refused",) if refused else ())
    assert len(found.notices("refused")) == (len(ALL) if mode == "dontAsk" else 0)


def _step(request: PermissionRequest, work: Path) -> str:
    return "outside" if str(work.parent / "out.txt") in request.paths else str(request.data["tool"])


async def test_what_lies_outside_or_becomes_a_program_is_beyond(work: Path) -> None:
    (work / "link").symlink_to(work.parent)
    inside = (".git/hooks/c", ".claude/settings.json", ".envrc", ".vscode/tasks.json")
    targets = [work / "a", work / "link" / "b", *(work / name for name in inside)]
    with ScriptedMessages([*([write(path)] for path in targets), "done"]) as api:
        found = await told(against(api), "work", work, permission="allow")
    assert [request.beyond for request in found.asked] == [False, True, True, True, True, True]
    assert names(work) == ["a", "link"]


def _git(work: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=work, check=True, capture_output=True, text=True, timeout=30).stdout


def _repository(work: Path) -> None:
    _git(work, "init", "-q")
    _git(work, "-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "--allow-empty", "-m", "m")


UNASKED: list[tuple[str, dict[str, Any]]] = [
    ("EnterWorktree", {"name": "w"}),
    ("Agent", {"description": "d", "prompt": "go", "isolation": "worktree", "run_in_background": False}),
    ("Agent", {"description": "d", "prompt": "go", "isolation": "remote"}),
    ("SendMessage", {"to": "x", "message": "y"}),
]


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "plan", "dontAsk"])
async def test_what_claude_code_would_change_without_a_question_is_asked_about(
    work: Path, mode: PermissionMode
) -> None:
    _repository(work)
    steps = [*([messages.tool_use(name, given)] for name, given in UNASKED), "done"]
    with ScriptedMessages(steps) as api:
        found = await told(against(api, permission_mode=mode), "work", work, permission="allow")
    asked = [] if mode == "dontAsk" else [name for name, _ in UNASKED]
    assert [request.data["tool"] for request in found.asked] == asked
    assert all(request.beyond for request in found.asked)
    assert names(work) == [".git"]
    assert _git(work, "branch", "--format=%(refname)").count("\n") == 1


async def test_a_command_that_removes_the_folder_itself_is_beyond(work: Path) -> None:
    with ScriptedMessages([[bash("rm -rf ..")], "done"]) as api:
        found = await told(against(api), "work", work, permission="allow")
    assert [request.beyond for request in found.asked] == [True]
    assert names(work) == []


async def test_what_is_allowed_by_name_is_not_asked_about(work: Path) -> None:
    _repository(work)
    with ScriptedMessages([[messages.tool_use(*UNASKED[0])], "done"]) as api:
        found = await told(against(api, allowed_tools=("EnterWorktree",)), "work", work)
    assert found.asked == []
    assert (work / ".claude" / "worktrees" / "w").exists()


async def test_a_task_makes_no_schedule(work: Path) -> None:
    create = messages.tool_use("CronCreate", {"cron": "* * * * *", "prompt": "x", "durable": True})
    with ScriptedMessages([[create], "done"]) as api:
        await told(against(api, allowed_tools=("CronCreate",)), "work", work, permission="allow")
    assert names(work) == []


async def test_a_plan_that_the_model_enters_by_itself_leaves_the_answers_to_the_run(work: Path) -> None:
    steps = [
        [messages.tool_use("EnterPlanMode", {})],
        [bash("touch one.txt")],
        [messages.tool_use("ExitPlanMode", {"plan": "write"})],
        [write(work / "two.txt")],
        "done",
    ]
    with ScriptedMessages(steps) as api:
        found = await told(against(api), "work", work, permission="allow")
    assert [(request.data["tool"], request.beyond) for request in found.asked] == [
        ("Bash", False),
        ("ExitPlanMode", False),
        ("Write", False),
    ]
    assert names(work) == ["one.txt", "two.txt"]


@pytest.mark.parametrize(("permission", "there"), [("allow", []), (granted, ["a.txt"])])
async def test_a_plan_is_left_only_when_a_callback_says_so(
    work: Path, permission: Permission, there: list[str]
) -> None:
    leave = messages.tool_use("ExitPlanMode", {"plan": "write a.txt"})
    with ScriptedMessages([[leave], [write(work / "a.txt")], "done"]) as api:
        found = await told(against(api, permission_mode="plan"), "work", work, permission=permission)
    assert found.asked[0].data["tool"] == "ExitPlanMode"
    assert names(work) == there
    assert found.result.ok


@pytest.mark.parametrize("mode", ["default", "plan"])
async def test_a_question_to_a_person_is_answered_that_nobody_is_there(work: Path, mode: PermissionMode) -> None:
    question = {"question": "Which?", "header": "W", "multiSelect": False}
    options = [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}]
    ask = messages.tool_use("AskUserQuestion", {"questions": [{**question, "options": options}]})
    with ScriptedMessages([[ask], "I took A"]) as api:
        found = await told(against(api, permission_mode=mode), "work", work, permission="allow")
    assert found.asked == []
    assert "Nobody is here to be asked" in results(api)[0]
    assert found.result.output == "I took A"


async def test_a_run_that_is_refused_too_often_fails(work: Path) -> None:
    with ScriptedMessages(lambda body, n: [write(work / f"{n}")]) as api:
        found = await told(against(api, max_refusals=2), "work", work)
    assert found.result.failure is not None
    assert found.result.failure.kind == "policy"
    assert len(found.asked) == 2


async def test_rules_decide_before_anybody_is_asked(work: Path) -> None:
    rules = {"allowed_tools": ("Bash(python3 *)",), "disallowed_tools": ("Write",)}
    with ScriptedMessages([[bash("python3 -c 'print(41+1)'")], [write(work / "a")], "done"]) as api:
        found = await told(against(api, **rules), "work", work)
    assert found.asked == []
    assert results(api)[0].strip() == "42"
    assert names(work) == []
