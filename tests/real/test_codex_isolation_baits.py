"""What lies in the person's HOME or in the project neither reaches the model nor runs, on the real Codex."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from codex_kit import against, shell, told
from isolation_codex import CodexBaits, environment_of_ours, settings_without
from isolation_kit import git, later, normal, repository, words

from subagent_testing import ScriptedResponses

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("codex_binary")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # what the engine reads does not depend on the loop


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The person's HOME, empty."""
    home = tmp_path / "person"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return home


@pytest.fixture
def baits(tmp_path: Path) -> CodexBaits:
    return CodexBaits(tmp_path / "ran")


async def asked(work: Path, **options: Any) -> list[str]:
    """What the model was asked in a run with one command."""
    with ScriptedResponses([[shell("echo hello")], "done"]) as api:
        found = await told(against(api, **options), "work", work)
    assert found.result.ok, found.result
    assert len(api.requests) == 2
    return normal(api)


@pytest.mark.parametrize("sandbox", ["workspace-write", *map(later, ("read-only", "danger-full-access"))])
async def test_with_and_without_baits_the_model_is_asked_the_same_and_nothing_runs(
    work: Path, person: Path, baits: CodexBaits, monkeypatch: pytest.MonkeyPatch, sandbox: str
) -> None:
    repository(work)
    before = await asked(work, sandbox=sandbox)
    baits.person(person)
    baits.project(work)
    for name, value in baits.variables(person).items():
        monkeypatch.setenv(name, value)
    assert await asked(work, sandbox=sandbox) == before
    assert baits.ran == []


@pytest.mark.parametrize("where", ["below", *map(later, ("worktree", "link", "odd", "relative"))])
async def test_nor_wherever_the_working_folder_lies_and_however_it_is_named(
    work: Path, person: Path, baits: CodexBaits, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "odd":
        work = work.with_name('o"dd.\\\U0001f980 = [name]\n')
    repository(work)
    baits.project(work)
    folder = work
    match where:
        case "below":
            folder = work / "sub"
            folder.mkdir()
        case "worktree":
            folder = work.with_name("tree")
            git(
                work,
                "-c",
                "core.hooksPath=",
                "-c",
                "core.fsmonitor=",
                "worktree",
                "add",
                "-q",
                "-b",
                "side",
                str(folder),
            )
            shutil.copytree(work / ".codex", folder / ".codex")
        case "link":
            folder = work.with_name("link")
            folder.symlink_to(work)
        case "relative":
            monkeypatch.chdir(work.parent)
            folder = Path("work/../work")
        case _:
            pass
    assert words("".join(await asked(folder, sandbox="danger-full-access"))) == set()
    assert baits.ran == []


async def test_the_instructions_of_the_project_are_read_when_they_are_asked_for_and_nothing_else_of_it(
    work: Path, person: Path, baits: CodexBaits
) -> None:
    repository(work)
    baits.person(person)
    baits.project(work)
    (first, _) = await asked(work, sandbox="workspace-write", project_instructions=True)
    assert words(first) == {"bait-project-agents"}
    assert baits.ran == []


PROJECT_SKILLS = {"bait-project-agents-skill", "bait-project-codex-skill"}


def persons_home(patch: pytest.MonkeyPatch) -> None:
    environment_of_ours(patch, ["HOME"])
    settings_without(patch, ["skills.include_instructions"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("mutant", "seen", "ran"),
    [
        (partial(settings_without, names=["projects"]), {"bait-project-config"}, ["project-mcp"]),
        (partial(settings_without, names=["skills.include_instructions"]), PROJECT_SKILLS, []),
        (persons_home, {*PROJECT_SKILLS, "bait-person-agents-skill"}, []),
    ],
)
async def test_a_fault_is_seen(
    work: Path,
    person: Path,
    baits: CodexBaits,
    monkeypatch: pytest.MonkeyPatch,
    mutant: Callable[[pytest.MonkeyPatch], None],
    seen: set[str],
    ran: list[str],
) -> None:
    repository(work)
    baits.person(person)
    baits.project(work)
    mutant(monkeypatch)
    (first, _) = await asked(work, sandbox="workspace-write")
    assert (words(first), baits.ran) == (seen, ran)
