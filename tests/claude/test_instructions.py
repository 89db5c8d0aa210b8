"""The CLAUDE.md of a project as we read it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from subagent_claude_code._instructions import project_instructions

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder two levels below the root of a repository, which lies in one that is none of its business."""
    (tmp_path / "CLAUDE.md").write_text("above")
    folder = tmp_path / "repo" / "a" / "b"
    folder.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "repo" / ".git" / "HEAD").touch()  # an empty .git may be left by another engine
    return folder


async def test_they_are_read_from_the_root_down(project: Path, tmp_path: Path) -> None:
    (tmp_path / "repo" / "CLAUDE.md").write_text(" one \n")
    (tmp_path / "repo" / ".claude").mkdir()
    (tmp_path / "repo" / ".claude" / "CLAUDE.md").write_text("two @/etc/hostname")
    (project / "CLAUDE.md").write_text("three")
    said = await project_instructions(str(project))
    assert said == f"# Instructions of the project in {project}\n\none\n\ntwo @/etc/hostname\n\nthree"


async def test_without_any_nothing_is_said(project: Path) -> None:
    assert await project_instructions(str(project)) == ""


async def test_without_a_repository_only_the_folder_counts(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text("above")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "CLAUDE.md").write_text("mine")
    assert (await project_instructions(str(tmp_path / "work"))).endswith("\n\nmine")


async def test_what_is_no_file_of_the_project_is_not_read(project: Path, tmp_path: Path) -> None:
    (project / "CLAUDE.md").symlink_to(tmp_path / "CLAUDE.md")
    os.mkfifo(tmp_path / "repo" / "CLAUDE.md")
    (tmp_path / "repo" / "a" / "CLAUDE.md").mkdir()
    assert await project_instructions(str(project)) == ""


async def test_they_are_cut_at_64_kib(project: Path, tmp_path: Path) -> None:
    (tmp_path / "repo" / "CLAUDE.md").write_text("x" * 60_000)
    (project / "CLAUDE.md").write_text("y" * 60_000)
    said = await project_instructions(str(project))
    assert said.endswith("\n\n" + "x" * 60_000 + "\n\n" + "y" * (65_536 - 60_000))
