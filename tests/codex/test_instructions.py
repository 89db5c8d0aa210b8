"""The AGENTS.md of a project: which files, in which order.  `tests/real` shows that the model gets it."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from subagent_codex._instructions import project_instructions  # pyright: ignore[reportPrivateUsage]

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/HEAD").touch()
    (folder / "a/b").mkdir(parents=True)
    return folder


async def read(cwd: Path) -> str:
    with anyio.fail_after(10):
        return await project_instructions(str(cwd))


async def test_they_are_told_from_the_root_of_the_repository_down_to_the_working_folder(root: Path) -> None:
    (root.parent / "AGENTS.md").write_text("above")
    (root / "AGENTS.md").write_text("first\n")
    (root / "a/b/AGENTS.md").write_text("last\n")
    (root / "a/b/AGENTS.override.md").write_text("")
    said = await read(root / "a/b")
    assert said == (f"# AGENTS.md instructions for {root}/a/b\n\n<INSTRUCTIONS>\nfirst\n\nlast\n</INSTRUCTIONS>")
    (root / "a/b/AGENTS.override.md").write_text("instead")
    assert "first\n\ninstead\n" in await read(root / "a/b")


async def test_outside_of_a_repository_only_the_working_folder_counts(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()  # as the engine leaves it
    (tmp_path / "AGENTS.md").write_text("above")
    assert await read(tmp_path / "sub") == ""
    (tmp_path / "sub/AGENTS.md").write_text("here")
    assert "\nhere\n" in await read(tmp_path / "sub")


async def test_a_link_is_followed_within_the_project_and_not_out_of_it(root: Path) -> None:
    (root.parent / "secret").write_text("secret")
    (root / "AGENTS.md").symlink_to("../secret")
    assert await read(root) == ""
    (root / "README.md").write_text("readme")
    (root / "a/AGENTS.md").symlink_to("../README.md")
    assert "\nreadme\n" in await read(root / "a")


async def test_what_is_no_file_is_passed_over(root: Path) -> None:
    os.mkfifo(root / "AGENTS.md")
    (root / "a/AGENTS.md").mkdir()
    assert await read(root / "a") == ""


async def test_more_than_32_kib_is_cut(root: Path) -> None:
    (root / "AGENTS.md").write_text("x" * 40_000)
    (root / "a/AGENTS.md").write_text("y")
    said = await read(root / "a")
    assert said.count("x") == 32 * 1024
    assert "y" not in said.partition("<INSTRUCTIONS>")[2]
