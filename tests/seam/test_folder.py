"""What a run did to its folder, and a worktree of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import subagents
from subagent_testing import Scripted, scripted
from subagents import Changes, FileChange, Link, Result, StartError, Task, TaskError

pytestmark = pytest.mark.anyio

BOUND = 60.0


def git(folder: Path | str, *arguments: str) -> str:
    whole = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e@example.org", *arguments]
    return subprocess.run(whole, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    top = tmp_path / "repo"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    (top / "a.txt").write_text("one\n")
    (top / "b.txt").write_text("b\n")
    git(top, "add", ".")
    git(top, "commit", "-qm", "first")
    return top


async def done(script: scripted.Script, **fields: Any) -> Result:
    with anyio.fail_after(BOUND):
        return await subagents.run(Scripted(script), "go", **fields)


def changes(result: Result) -> Changes:
    assert result.changes is not None
    return result.changes


async def test_what_the_run_did_is_told_apart_from_what_was_there(repository: Path) -> None:
    (repository / "b.txt").write_text("the person's\n")
    result = await done(scripted.writes({"a.txt": "one\ntwo\n", "new/c.txt": "c\n"}), cwd=repository)
    assert changes(result).files == (
        FileChange("a.txt", "modified", 1, 0),
        FileChange("new/c.txt", "added", 1, 0),
    )


async def test_paths_are_told_from_the_folder_of_the_task(repository: Path) -> None:
    (repository / "pkg").mkdir()
    result = await done(scripted.writes({"x": "x\n", "../a.txt": "two\n"}), cwd=repository / "pkg")
    assert [file.path for file in changes(result).files] == ["../a.txt", "x"]


async def test_the_verdict_does_not_wait_for_the_look_and_the_closed_result_has_it(repository: Path) -> None:
    with anyio.fail_after(BOUND):
        async with Scripted(scripted.writes({"a.txt": "two\n"})).start("go", cwd=repository) as run:
            assert (await run.result()).changes is None
            assert changes(await run.closed()).files


async def test_a_run_that_is_stopped_tells_what_it_did(repository: Path) -> None:
    with anyio.fail_after(BOUND):
        async with Scripted(scripted.writes({"a.txt": "two\n"}, scripted.lasts())).start("go", cwd=repository) as run:
            async for event in run.events():
                if event.type == "tool":
                    break
            run.cancel("enough")
            result = await run.closed()
    assert result.stop_reason == "aborted"
    assert [file.path for file in changes(result).files] == ["a.txt"]


async def test_a_run_that_is_left_has_told_it_when_leaving_ends(repository: Path) -> None:
    with anyio.fail_after(BOUND):
        async with Scripted(scripted.writes({"a.txt": "two\n"}, scripted.lasts())).start("go", cwd=repository) as run:
            async for event in run.events():
                if event.type == "tool":
                    break
        result = await run.closed()
    assert changes(result).files
    assert not result.evidence.left_behind


async def test_nobody_looks_where_the_task_says_so(repository: Path) -> None:
    assert (await done(scripted.writes({"a.txt": "two\n"}), cwd=repository, changes=False)).changes is None


async def test_a_folder_without_git_is_looked_at_when_the_task_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    script = scripted.writes({"a.txt": "two\n"})
    assert (await done(script, cwd=tmp_path)).changes is None
    (tmp_path / "a.txt").write_text("one\n")
    assert changes(await done(script, cwd=tmp_path, changes=True)).files == (FileChange("a.txt", "modified", 1, 1),)


async def test_it_goes_through_json(repository: Path) -> None:
    for fields in ({}, {"isolation": "worktree"}):
        result = await done(scripted.writes({"a.txt": "two\n"}), cwd=repository, **fields)
        assert Result.from_json(result.to_json()) == result
    task = Task("x", changes=True, isolation="worktree")
    assert Task.from_json(task.to_json()) == task


async def test_two_runs_in_one_folder_are_told_of_each_other(repository: Path) -> None:
    with anyio.fail_after(BOUND):
        async with Scripted(scripted.lasts()).start("first", cwd=repository) as first:
            result = await done(scripted.writes({"a.txt": "two\n"}), cwd=repository)
            first.cancel()
            other = await first.closed()
    note = "another run worked in this folder at the same time: its changes may be among these"
    assert note in result.evidence.notes
    assert note in other.evidence.notes


async def test_a_repository_that_git_cannot_read_costs_no_verdict(repository: Path) -> None:
    (repository / ".git" / "index").write_bytes(b"rubbish")
    result = await done(scripted.completes(), cwd=repository)
    assert result.ok
    assert changes(result).unseen


async def test_a_look_that_fails_by_a_fault_costs_no_verdict(
    repository: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from subagents._folder import Folder

    async def broken(self: Folder, *, worked: bool) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(Folder, "close", broken)
    result = await done(scripted.completes(), cwd=repository)
    assert result.ok
    assert any("a fault of ours" in note for note in result.evidence.notes)
    assert "looking at the folder failed" in caplog.text


async def test_runs_in_two_folders_of_one_repository_are_told_of_each_other(repository: Path) -> None:
    for name in ("p1", "p2"):
        (repository / name).mkdir()
    with anyio.fail_after(BOUND):
        async with Scripted(scripted.lasts()).start("first", cwd=repository / "p1") as first:
            result = await done(scripted.writes({"x": "x\n"}), cwd=repository / "p2")
            first.cancel()
            await first.closed()
    assert any("another run worked in this folder" in note for note in result.evidence.notes)


async def test_a_look_that_takes_too_long_is_told(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from subagents._folder import Folder

    async def slow(self: Folder, *, worked: bool) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(Folder, "close", slow)
    monkeypatch.setattr(Folder, "bound", 0.05)
    result = await done(scripted.completes(), cwd=repository)
    assert result.ok
    assert any("it took longer than" in note for note in result.evidence.notes)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_raw_cancellation_of_the_look_does_not_keep_anybody_waiting(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from subagents._folder import Folder

    looking = asyncio.Event()

    async def slow(self: Folder, *, worked: bool) -> None:
        looking.set()
        await asyncio.sleep(3600)

    monkeypatch.setattr(Folder, "close", slow)
    with anyio.fail_after(BOUND):
        async with Scripted(scripted.completes()).start("go", cwd=repository) as run:
            await looking.wait()
            for task in asyncio.all_tasks():
                if task.get_name().startswith("subagents scripted"):
                    task.cancel()
            result = await run.closed()
    assert result.ok
    assert not result.evidence.left_behind
    assert any("it was broken off" in note for note in result.evidence.notes)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_never_took_its_first_step_keeps_nobody_waiting() -> None:
    run = Scripted(scripted.completes()).start("go")
    entering = asyncio.ensure_future(run.__aenter__())
    await asyncio.sleep(0)
    for task in asyncio.all_tasks():
        if task.get_name().startswith("subagents scripted"):
            task.cancel()
    with anyio.fail_after(BOUND):
        await entering
        result = await run.closed()
    assert result.stop_reason == "aborted"
    assert not result.evidence.left_behind


# -- a worktree of its own ---------------------------------------------------------------------------------------------


async def test_a_run_in_a_worktree_leaves_the_folder_alone(repository: Path) -> None:
    (repository / "b.txt").write_text("the person's\n")
    result = await done(scripted.writes({"a.txt": "two\n"}), cwd=repository, isolation="worktree")
    report = result.worktree
    assert report is not None
    assert report.path is not None
    assert (repository / "a.txt").read_text() == "one\n"
    assert Path(report.path, "a.txt").read_text() == "two\n"
    assert Path(report.path, "b.txt").read_text() == "b\n"
    assert report.branch is not None
    assert report.branch.startswith("subagents/")
    assert "-one\n+two\n" in report.diff
    assert [file.path for file in changes(result).files] == ["a.txt"]
    assert any("1 uncommitted change" in note for note in result.evidence.notes)


async def test_a_worktree_in_which_nothing_was_done_is_gone(repository: Path, tmp_path: Path) -> None:
    result = await done(scripted.completes(), cwd=repository, isolation="worktree")
    assert result.worktree is not None
    assert result.worktree.path is None
    assert not os.listdir(tmp_path / "state" / "subagents" / "worktrees")
    assert git(repository, "branch", "--list") == "* main"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(lambda: scripted.writes({"a.txt": "two\n"}, scripted.raises(lambda: ValueError("x"))), id="fault"),
        pytest.param(lambda: scripted.writes({"a.txt": "two\n"}, scripted.ends_silently()), id="silent"),
    ],
)
async def test_what_a_failed_run_left_in_its_worktree_is_kept(
    script: Callable[[], scripted.Script], repository: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = await done(script(), cwd=repository, isolation="worktree")
    assert result.stop_reason == "error"
    assert result.worktree is not None
    assert "+two\n" in result.worktree.diff


async def test_a_start_that_fails_leaves_no_worktree(repository: Path, tmp_path: Path) -> None:
    result = await done(scripted.refuses(), cwd=repository, isolation="worktree")
    assert result.stop_reason == "error"
    assert not os.listdir(tmp_path / "state" / "subagents" / "worktrees")


async def test_a_run_that_is_stopped_while_its_worktree_is_made_leaves_none(repository: Path, tmp_path: Path) -> None:
    for number in range(500):
        (repository / f"f{number}").write_text("x\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "many")
    where = tmp_path / "state" / "subagents" / "worktrees"
    run = Scripted(scripted.completes()).start("go", cwd=repository, isolation="worktree")

    async def stop() -> None:
        while not where.exists() or not os.listdir(where):
            await anyio.lowlevel.checkpoint()
        run.cancel()

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop)
            async with run:
                await run.closed()
    result = await run.closed()
    assert result.stop_reason == "aborted"
    assert not os.listdir(where)
    assert git(repository, "worktree", "list").count("\n") == 0


async def test_drive_sees_the_folder_of_the_worktree(repository: Path) -> None:
    provider = Scripted(scripted.completes())
    with anyio.fail_after(BOUND):
        await subagents.run(provider, "go", cwd=repository, isolation="worktree")
    assert "subagents/worktrees/repo-" in str(provider.tasks[0].cwd)


async def test_there_is_no_worktree_without_a_repository(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="needs a git repository"):
        Scripted(scripted.completes()).start("go", cwd=tmp_path, isolation="worktree")
    git(tmp_path, "init", "-q")
    with anyio.fail_after(BOUND), pytest.raises(StartError, match="has no commit yet"):
        async with Scripted(scripted.completes()).start("go", cwd=tmp_path, isolation="worktree"):
            pass  # pragma: no cover


@pytest.mark.parametrize(("field", "value"), [("changes", 1), ("isolation", "container")])
def test_what_means_nothing_is_refused(field: str, value: Any) -> None:
    with pytest.raises(TaskError, match=field):
        Task("x", **{field: value})


async def test_no_look_is_left_when_the_loop_ends(repository: Path) -> None:
    """A run whose loop ends over it takes no time for a look: there is nobody to read it."""
    seen: list[str] = []

    async def body(task: Task, link: Link) -> None:
        link.ready()
        try:
            await anyio.sleep_forever()
        finally:
            seen.append("torn down")

    async def main() -> None:
        run = Scripted(body).start("go", cwd=repository)
        await run.__aenter__()

    await anyio.to_thread.run_sync(lambda: anyio.run(main))
    assert seen == ["torn down"]
