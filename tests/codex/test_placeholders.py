"""The empty folders that a stopped engine leaves go, and nothing else does."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from subagent_codex import _placeholders
from subagent_codex._placeholders import Placeholders

NAMES = (".git", ".agents", ".codex", ".aws")


def engine(*folders: Path) -> None:
    """Leaves what an engine leaves that is stopped in a command."""
    for folder in folders:
        for name in NAMES:
            (folder / name).mkdir(exist_ok=True)


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_was_missing_before_and_is_empty_afterwards_goes(tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    with Placeholders(tmp_path, str(more)):
        engine(tmp_path, more)
    assert left(tmp_path) == {"more"}
    assert left(more) == set()


def test_what_was_there_before_stays_and_so_does_what_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".agents").symlink_to("nowhere")
    with Placeholders(tmp_path):
        (tmp_path / ".git").mkdir()
        (tmp_path / ".git/HEAD").touch()
        (tmp_path / ".aws").mkdir()
    assert left(tmp_path) == {".codex", ".agents", ".git"}


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_is_no_folder_stays(tmp_path: Path, kind: str) -> None:
    (tmp_path / "mine").mkdir()
    with Placeholders(tmp_path):
        (tmp_path / ".aws").symlink_to("mine") if kind == "link" else (tmp_path / ".aws").touch()
    assert left(tmp_path) == {"mine", ".aws"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_stays(tmp_path: Path) -> None:
    with Placeholders(tmp_path):
        engine(tmp_path)
        os.chown(tmp_path / ".aws", 65534, 65534)
    assert left(tmp_path) == {".aws"}


def test_the_last_of_two_runs_in_a_folder_removes_them(tmp_path: Path) -> None:
    """The sandbox of the other one still stands on them."""
    (tmp_path / "link").symlink_to(".")
    first, second = Placeholders(tmp_path), Placeholders(tmp_path / "link", tmp_path)
    with first:
        engine(tmp_path)
        second.__enter__()
    assert left(tmp_path) == {"link", *NAMES}
    second.__exit__()
    assert left(tmp_path) == {"link"}
    assert _placeholders._folders == {}  # pyright: ignore[reportPrivateUsage]


def test_many_threads_leave_nothing(tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def run() -> None:
        together.wait(10)
        for _ in range(50):
            with Placeholders(tmp_path):
                engine(tmp_path)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert left(tmp_path) == set()
    assert _placeholders._folders == {}  # pyright: ignore[reportPrivateUsage]


def test_a_folder_that_is_gone_is_no_error(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    with Placeholders(folder, tmp_path / "never"):
        folder.mkdir()
        engine(folder)
        for name in NAMES:
            (folder / name).rmdir()
        folder.rmdir()
    assert left(tmp_path) == set()


def test_nothing_is_touched_where_the_sandbox_opens_nothing(tmp_path: Path) -> None:
    with Placeholders(tmp_path, active=False):
        engine(tmp_path)
    assert left(tmp_path) == set(NAMES)


def test_they_go_when_the_body_raises(tmp_path: Path) -> None:
    def interrupted() -> None:
        with Placeholders(tmp_path):
            engine(tmp_path)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert left(tmp_path) == set()
