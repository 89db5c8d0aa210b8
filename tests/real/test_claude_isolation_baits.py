"""What lies in the person's HOME or in the project neither reaches the model nor runs, on the real Claude Code."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from claude_kit import against, bash, told, write
from isolation_claude import ClaudeBaits, arguments_without, asked
from isolation_kit import git, later, repository, words

from subagent_testing import ScriptedMessages

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # what the engine reads does not depend on the loop


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The person's HOME, empty."""
    home = tmp_path / "person"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return home


@pytest.fixture
def baits(tmp_path: Path) -> ClaudeBaits:
    return ClaudeBaits(tmp_path / "ran")


async def sent(work: Path, **options: Any) -> list[str]:
    """What was asked of the model server in a run with one command."""
    with ScriptedMessages([[bash("echo hello")], "done"]) as api:
        found = await told(against(api, **options), "work", work, permission="allow")
    assert found.result.ok, found.result
    assert len(api.requests) == 2
    assert api.others == []
    return asked(api)


@pytest.mark.parametrize("home", ["isolated", later("pinned")])
async def test_with_and_without_baits_the_model_is_asked_the_same_and_nothing_runs(
    work: Path, person: Path, baits: ClaudeBaits, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    repository(work)
    place = person.parent / "pinned" if home == "pinned" else home
    before = await sent(work, home=place)
    baits.person(person)
    baits.project(work)
    for name, value in baits.variables(person).items():
        monkeypatch.setenv(name, value)
    assert await sent(work, home=place) == before
    assert baits.ran == []


@pytest.mark.parametrize("where", ["link", *map(later, ("odd", "relative", "worktree"))])
async def test_nor_wherever_the_working_folder_lies_and_however_it_is_named(
    work: Path, person: Path, baits: ClaudeBaits, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    if where == "odd":
        work = work.with_name("o\"d'd $(id).\\\U0001f980 = [name]\n")
    repository(work)
    baits.project(work)
    folder = work
    match where:
        case "link":
            folder = work.with_name("link")
            folder.symlink_to(work)
        case "relative":
            monkeypatch.chdir(work.parent)
            folder = Path("work/../work")
        case "worktree":
            folder = work.with_name("tree")
            alone = ("-c", "core.hooksPath=/nowhere", "-c", "core.fsmonitor=")
            git(work, *alone, "worktree", "add", "-q", "-b", "side", str(folder))
            shutil.copytree(work / ".claude", folder / ".claude")
        case _:
            pass
    with ScriptedMessages([[write(folder.absolute() / "made")], "done"]) as api:
        found = await told(against(api), "work", folder, permission="allow")
    assert found.result.ok, found.result
    assert (folder / "made").exists()  # it is the same folder
    assert words("".join(asked(api))) == set()
    assert baits.ran == []


@pytest.mark.parametrize("below", ["", later("sub")])
async def test_the_instructions_of_the_project_are_read_when_they_are_asked_for_and_nothing_else_of_it(
    work: Path, person: Path, baits: ClaudeBaits, below: str
) -> None:
    """What they import by `@path` is not read: it could be any file of the person."""
    repository(work)
    (work / "sub").mkdir()
    baits.person(person)
    baits.project(work)
    first, _ = await sent(work / below, project_instructions=True)
    assert words(first) == {"bait-project-claude", "bait-project-memory"}
    assert "bait-project-claude @../secret.md" in first
    assert baits.ran == []


async def test_a_fault_is_seen(work: Path, person: Path, baits: ClaudeBaits, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(work)
    baits.project(work)
    arguments_without(monkeypatch, "--setting-sources")
    with ScriptedMessages() as api:
        await told(against(api), "work", work)
        assert {"bait-project-memory", "bait-above", "bait-project-skill"} <= words("".join(asked(api)))
    assert {"project-hook", "local-hook"} <= set(baits.ran)
