"""Permission on the real Claude Code: what is asked, what runs, what is on disk, in each mode."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from claude_kit import Told, against, bash, kinds, names, results, told, write

from subagent_claude_code.options import PermissionMode
from subagent_testing import ScriptedMessages, messages
from subagents import Permission, PermissionRequest

pytestmark = pytest.mark.anyio


async def tried(work: Path, mode: PermissionMode, permission: Permission) -> Told:
    """The model writes in the folder, runs a command, and writes outside."""
    steps = [
        [write(work / "in.txt")],
        [bash("python3 -c 'print(1)' > sh.txt")],
        [write(work.parent / "out.txt")],
        "done",
    ]
    with ScriptedMessages(steps) as api:
        return await told(against(api, permission_mode=mode), "work", work, permission=permission)


def granted(_: PermissionRequest) -> Literal["allow"]:
    return "allow"


@pytest.mark.parametrize(
    ("mode", "permission", "asked", "inside", "outside"),
    [
        ("default", "reject", 3, [], False),
        ("default", "allow", 3, ["in.txt", "sh.txt"], False),
        ("default", granted, 3, ["in.txt", "sh.txt"], True),
        ("acceptEdits", "reject", 2, ["in.txt"], False),
        ("acceptEdits", "allow", 2, ["in.txt", "sh.txt"], False),
        ("plan", "reject", 3, [], False),
        ("plan", "allow", 3, [], False),
        ("plan", granted, 3, ["in.txt", "sh.txt"], True),
        ("dontAsk", "reject", 0, [], False),
        ("dontAsk", granted, 0, [], False),
    ],
)
async def test_what_a_mode_asks_and_what_is_then_on_disk(
    work: Path, mode: PermissionMode, permission: Permission, asked: int, inside: list[str], outside: bool
) -> None:
    found = await tried(work, mode, permission)
    assert len(found.asked) == asked
    assert names(work) == inside
    assert (work.parent / "out.txt").exists() is outside
    assert found.result.ok
    done = len(inside) + outside
    assert [status for _, status in kinds(found.tools)].count("completed") == done
    refused = 3 - done
    assert found.result.evidence.notes == ((f"{refused} step{'' if refused == 1 else 's'} refused",) if refused else ())


async def test_what_lies_outside_or_becomes_a_program_is_beyond(work: Path) -> None:
    (work / "link").symlink_to(work.parent)
    targets = [work / "a", work / "link" / "b", work / ".git" / "hooks" / "c", work / ".claude" / "settings.json"]
    with ScriptedMessages([*([write(path)] for path in targets), "done"]) as api:
        found = await told(against(api), "work", work, permission="allow")
    assert [request.beyond for request in found.asked] == [False, True, True, True]
    assert names(work) == ["a", "link"]


async def test_a_question_to_a_person_is_answered_that_nobody_is_there(work: Path) -> None:
    question = {"question": "Which?", "header": "W", "multiSelect": False}
    options = [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}]
    ask = messages.tool_use("AskUserQuestion", {"questions": [{**question, "options": options}]})
    with ScriptedMessages([[ask], "I took A"]) as api:
        found = await told(against(api), "work", work, permission="allow")
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
