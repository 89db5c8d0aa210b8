"""Approvals on the real engine, against a scripted model server: what is granted happens, what is refused does not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from subagent_codex import Codex
from subagent_testing import ScriptedResponses, responses
from subagents import Choice, Event, Permission, PermissionEvent, PermissionRequest, Result, ToolEvent

pytest.importorskip("codex_cli_bin", reason="openai-codex-cli-bin is not installed")
pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the person's."""
    monkeypatch.setenv("SUBAGENTS_CACHE", str(tmp_path_factory.getbasetemp() / "answers-cache"))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The folder of the task, with a folder in it."""
    (tmp_path / "work" / "inside").mkdir(parents=True)
    return tmp_path / "work"


def shell(command: str, **more: object) -> responses.Item:
    return responses.function_call("exec_command", {"cmd": command, **more})


def patch(path: object) -> responses.Item:
    return responses.custom_tool_call(
        "apply_patch", f"*** Begin Patch\n*** Add File: {path}\n+by patch\n*** End Patch\n"
    )


def yes(_: PermissionRequest) -> Choice:
    return Choice("allow_once")


async def followed(
    script: Sequence[responses.Step | Sequence[responses.Step] | str],
    work: Path,
    permission: Permission,
    **options: Any,
) -> tuple[Result, list[PermissionEvent], list[ToolEvent]]:
    """One run, and what was asked, decided and done in it."""
    with ScriptedResponses(script) as api, anyio.fail_after(60):
        settings: dict[str, Any] = {"base_url": api.base_url, "sandbox": "workspace-write", **options}
        codex = Codex(**settings)
        async with codex.start("x", cwd=work, permission=permission) as run:
            events: list[Event] = [event async for event in run.events()]
            result = await run.closed()
    asked = [event for event in events if isinstance(event, PermissionEvent) and event.choice is not None]
    tools = {event.id: event for event in events if isinstance(event, ToolEvent)}
    return result, asked, list(tools.values())


@pytest.mark.parametrize(("permission", "done"), [("allow", True), ("reject", False), (yes, True)])
async def test_a_command_that_is_asked_about_and_stays_inside(permission: Permission, done: bool, work: Path) -> None:
    result, asked, tools = await followed(
        [[shell("rm -rf inside")], "done"], work, permission, approval_policy="on-request"
    )
    assert result.ok
    (told,) = asked
    assert (told.request.kind, told.request.beyond) == ("execute", False)
    assert told.request.command is not None
    assert "rm -rf inside" in told.request.command
    assert (work / "inside").exists() is not done
    assert [tool.status for tool in tools] == ["completed" if done else "failed"]


@pytest.mark.parametrize(("permission", "done"), [("allow", False), ("reject", False), (yes, True)])
async def test_a_command_that_asks_to_leave_the_sandbox(
    permission: Permission, done: bool, work: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    step = shell(f"touch {outside}", sandbox_permissions="require_escalated", justification="to see")
    result, asked, _ = await followed([[step], "done"], work, permission, approval_policy="on-request")
    assert result.ok
    (told,) = asked
    assert (told.request.beyond, told.request.reason) == (True, "to see")
    assert outside.exists() is done


@pytest.mark.parametrize("permission", ["allow", "reject"])
@pytest.mark.parametrize("sandbox", ["workspace-write", "read-only"])
async def test_a_plain_command_where_the_engine_repeats_what_the_sandbox_stopped_without_it(
    sandbox: str, permission: Permission, work: Path, tmp_path: Path
) -> None:
    script = [*([shell(f"touch {tmp_path}/outside{n}")] for n in range(3)), "done"]
    result, asked, _ = await followed(script, work, permission, approval_policy="untrusted", sandbox=sandbox)
    assert result.ok
    assert [told.request.beyond for told in asked] == [True] * 3
    assert os.listdir(tmp_path) == ["work"]


@pytest.mark.parametrize(("permission", "done"), [("allow", True), ("reject", False)])
async def test_a_patch_inside(permission: Permission, done: bool, work: Path) -> None:
    _, asked, _ = await followed([[patch("new.txt")], "done"], work, permission, approval_policy="untrusted")
    (told,) = asked
    assert (told.request.kind, told.request.beyond) == ("edit", False)
    assert [Path(path).name for path in told.request.paths] == ["new.txt"]
    assert (work / "new.txt").exists() is done


@pytest.mark.parametrize(("permission", "done"), [("allow", False), ("reject", False), (yes, True)])
@pytest.mark.parametrize("where", ["outside", "through a link", "git"])
async def test_a_patch_where_the_sandbox_may_not_write(
    where: str, permission: Permission, done: bool, work: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (work / "link").symlink_to(tmp_path / "elsewhere")
    (work / ".git" / "hooks").mkdir(parents=True)
    path = {
        "outside": tmp_path / "elsewhere" / "new.txt",
        "through a link": work / "link" / "new.txt",
        "git": work / ".git" / "hooks" / "pre-commit",
    }[where]
    _, asked, _ = await followed([[patch(path)], "done"], work, permission, approval_policy="on-request")
    (told,) = asked
    assert (told.request.beyond, told.request.paths) == (True, (str(path),))
    assert path.exists() is (done and where != "through a link")  # that the engine stops by itself


async def test_a_refused_command_that_is_asked_again_and_again_ends_the_run(work: Path) -> None:
    again = [[shell(f"rm -rf inside/{n}")] for n in range(10)]
    result, asked, _ = await followed([*again, "done"], work, "reject", approval_policy="on-request", max_refusals=3)
    assert len(asked) == 3
    assert result.failure is not None
    assert (result.stop_reason, result.failure.kind) == ("error", "policy")
    assert "3 requests were refused, the last was: Run:" in result.failure.message
    assert (work / "inside").exists()


async def test_cancelling_while_somebody_is_asked_ends_the_run_at_once(work: Path) -> None:
    asked = anyio.Event()

    async def slow(_: PermissionRequest) -> Choice:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    with ScriptedResponses([[shell("rm -rf inside")], "done"]) as api, anyio.fail_after(60):
        codex = Codex(base_url=api.base_url, sandbox="workspace-write", approval_policy="on-request")
        async with codex.start("x", cwd=work, permission=slow) as run:
            await asked.wait()
            run.cancel("enough")
            result = await run.closed()
    assert result.stop_reason == "aborted"
    assert result.evidence.process is not None
    assert result.evidence.process.clean
    assert (work / "inside").exists()
