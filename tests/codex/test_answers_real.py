"""Patches in the folder of a task that would change what lies elsewhere, or git's own, on the real engine.

The other approvals on the real engine are in tests/real/test_codex_approvals.py.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from subagent_codex import Codex
from subagent_testing import ScriptedResponses, responses
from subagents import Choice, Permission, PermissionEvent, PermissionRequest

pytest.importorskip("codex_cli_bin", reason="openai-codex-cli-bin is not installed")
pytestmark = pytest.mark.anyio


def yes(_: PermissionRequest) -> Choice:
    return Choice("allow_once")


@pytest.mark.parametrize("permission", ["allow", "reject", yes])
@pytest.mark.parametrize("name", ["link/new.txt", ".git/hooks/pre-commit"])
async def test_a_patch_through_a_link_or_into_git_is_written_for_nobody_but_a_callback(
    name: str, permission: Permission, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBAGENTS_CACHE", str(tmp_path / "cache"))
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    (work / ".git" / "hooks").mkdir(parents=True)
    elsewhere.mkdir()
    (work / "link").symlink_to(elsewhere)
    step = f"*** Begin Patch\n*** Add File: {name}\n+by patch\n*** End Patch\n"
    script = [[responses.custom_tool_call("apply_patch", step)], "done"]
    with ScriptedResponses(script) as api, anyio.fail_after(60):
        codex = Codex(base_url=api.base_url, sandbox="workspace-write", approval_policy="on-request")
        async with codex.start("x", cwd=work, permission=permission) as run:
            events = [event async for event in run.events()]
    (asked,) = [event.request for event in events if isinstance(event, PermissionEvent) and event.choice is None]
    assert (asked.beyond, asked.paths) == (True, (str(work / name),))
    # Through the link the engine does not write, whoever has granted it.
    assert (work / name).exists() is (permission is yes and name.startswith(".git"))
