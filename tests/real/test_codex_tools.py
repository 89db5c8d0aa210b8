"""Work inside a task under workspace-write on the real Codex: it can be done, or is refused with the stated reason.

What makes it possible is tested apart, without an engine: `tests/process/test_toolenv.py`, `tests/codex/test_roots.py`,
`test_guard.py`, `test_placeholders.py`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import anyio
import pytest
from codex_kit import Told, against, shell, shell_outputs, told
from tools_kit import COMMIT, READS, TOKEN, fill, git, installed, repository, rustup_shim

from subagent_testing import ScriptedResponses
from subagents import ToolEvent

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("codex_binary")]

HARM = (
    'common=$(git rev-parse --path-format=absolute --git-common-dir); own=$(git rev-parse --absolute-git-dir); '
    'git config core.fsmonitor ./evil; echo "#!/bin/sh" > "$common/hooks/pre-commit"; mv "$common/hooks" "$common/h"; '
    'for name in commondir gitdir config config.worktree; do echo evil > "$own/$name"; rm "$own/$name"; done; '
    'mv "$own" "$own.old"; true'
)  # fmt: skip


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The person's HOME: a git identity, and tokens."""
    home = fill(tmp_path / "person")
    monkeypatch.setenv("HOME", str(home))
    return home


def control(folder: Path) -> dict[str, bytes]:
    """What leads git to commands: configuration, hooks, pointers."""
    found = [*folder.glob("config*"), *folder.glob("hooks*/*"), *folder.glob("*dir"), *folder.glob("worktrees/*/*dir")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


async def done(work: Path, *commands: str, within: float = 60, **options: object) -> tuple[Told, list[str]]:
    """A run in which the model runs these commands, and what each said."""
    with ScriptedResponses([*([shell(command)] for command in commands), "done"]) as api:
        options = {"sandbox": "workspace-write", **options}
        return await told(against(api, **options), "work", work, within=within), shell_outputs(api)


async def test_a_commit_in_a_plain_repository_is_the_persons_and_nothing_else_opens(work: Path, person: Path) -> None:
    repo = repository(work)
    before = control(repo / ".git")
    found, said = await done(repo, COMMIT, HARM)
    assert "COMMITTED" in said[0]
    assert said[1].count("Read-only file system") + said[1].count("busy") >= 5
    assert git(repo, "log", "-1", "--format=%s by %an <%ae>") == "by the task by The Person <p@x>\n"
    assert control(repo / ".git") == before
    assert git(repo, "status", "--short") == ""
    assert not {".git", ".codex", ".aws", ".agents", "commondir"} & set(os.listdir(repo / ".git"))
    assert found.result.ok
    assert found.notices("git") == []
    assert found.result.evidence.notes == ()


async def test_a_commit_in_a_linked_worktree_opens_neither_configuration_nor_hooks(work: Path, person: Path) -> None:
    repo = repository(work.parent / "repo")
    git(repo, "worktree", "add", "-q", "-b", "side", str(work))
    before = control(repo / ".git")
    found, said = await done(work, COMMIT, HARM, "git switch -q -c other && git stash list && echo BRANCHED")
    assert "COMMITTED" in said[0]
    assert said[1].count("Read-only file system") + said[1].count("busy") >= 5
    assert "BRANCHED" in said[2]
    assert control(repo / ".git") == before
    assert git(repo, "log", "-1", "--format=%s", "side") == "by the task\n"
    assert sorted(os.listdir(work)) == [".git", "first.txt", "more.txt"]
    assert found.result.evidence.notes == ()


async def test_a_commit_from_a_folder_below_the_repository(work: Path, person: Path) -> None:
    repo = repository(work)
    (repo / "sub").mkdir()
    _, said = await done(repo / "sub", COMMIT, "touch ../outside")
    assert "COMMITTED" in said[0]
    assert "Read-only file system" in said[1]
    assert git(repo, "log", "-1", "--format=%s", "--", "sub/more.txt") == "by the task\n"


async def test_where_git_is_not_to_be_opened_a_commit_is_refused(work: Path, person: Path) -> None:
    repo = repository(work)
    _, said = await done(repo, COMMIT, git_writable=False)
    assert "Read-only file system" in said[0]
    assert git(repo, "log", "--format=%s") == "first\n"
    assert sorted(os.listdir(repo)) == [".git", "first.txt", "more.txt"]


async def test_a_repository_that_cannot_be_closed_is_not_opened_and_the_reason_told(work: Path, person: Path) -> None:
    repo = repository(work)
    shutil.rmtree(repo / ".git/hooks")
    (repo / ".git/hooks").symlink_to(person)
    found, said = await done(repo, COMMIT)
    assert "Read-only file system" in said[0]
    (reason,) = found.notices("git")
    assert "a commit will be refused" in reason
    assert f"{repo}/.git/hooks is a link" in reason


async def test_a_nested_repository_that_the_task_registers_is_told(work: Path, person: Path) -> None:
    repo = repository(work)
    found, _ = await done(repo, "git init -q sub && git -C sub commit -q --allow-empty -m x; git add sub")
    (note,) = found.result.evidence.notes
    assert "nested repositories in the index (sub)" in note


async def test_commands_find_no_token_of_the_person(work: Path, person: Path) -> None:
    _, said = await done(work, READS)
    assert "END" in said[0]
    assert TOKEN not in said[0]
    _, said = await done(work, READS, tool_home="real")
    assert said[0].count(TOKEN) >= 5


async def test_configuration_above_the_folder_is_told(work: Path, person: Path) -> None:
    (work.parent / ".npmrc").write_text("//x/:_authToken=t\n")
    found, _ = await done(work, "true")
    (notice,) = found.notices("tools")
    assert str(work.parent / ".npmrc") in notice


async def test_uv_npm_and_cargo_work_in_a_task(work: Path) -> None:
    """With whatever of them is installed here, under the real HOME: no network, no cache of the person."""
    commands = installed(work)
    found, said = await done(work, *commands, within=110)
    for (command, expected), output in zip(commands.items(), said, strict=True):
        assert expected in output, command
    assert found.result.ok


async def test_a_shim_of_rustup_works_in_a_task(work: Path, person: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", rustup_shim(person), prepend=os.pathsep)
    _, said = await done(work, "cargo --version")
    assert "default = stable\nwritable" in said[0]
    assert not (person / ".cargo/registry").exists()


async def test_a_run_that_is_cancelled_in_a_command_leaves_no_empty_folders(work: Path, person: Path) -> None:
    repo, more = repository(work), work.parent / "more"
    more.mkdir()
    before = set(repo.rglob("*"))
    with ScriptedResponses([[shell("touch started; sleep 600")], "done"]) as api, anyio.fail_after(60):
        provider = against(api, sandbox="workspace-write", writable_roots=[more])
        async with provider.start("wait", cwd=repo) as run:
            async for event in run.events():
                if isinstance(event, ToolEvent):
                    break
            while not (repo / "started").exists():  # noqa: ASYNC110 - nothing tells it
                await anyio.sleep(0.01)
            assert (more / ".codex").is_dir()  # else this shows nothing
            run.cancel()
        result = await run.closed()
    assert result.stop_reason == "aborted"
    assert {str(path) for path in set(repo.rglob("*")) - before} == {str(repo / "started")}
    assert list(more.iterdir()) == []
    assert git(repo, "status", "--short") == "?? started\n"


async def test_in_the_persons_own_home_a_worktree_leads_where_it_led_again(
    work: Path, person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their own `sandbox_mode` would win over a permission profile, so that nothing can be closed: it is put back."""
    (person / ".codex").mkdir()
    (person / ".codex/config.toml").write_text('sandbox_mode = "read-only"\n')
    monkeypatch.delenv("CODEX_HOME", raising=False)
    repo = repository(work.parent / "repo")
    git(repo, "worktree", "add", "-q", "-b", "side", str(work))
    before = control(repo / ".git")
    found, said = await done(
        work, COMMIT, 'echo ../evil > "$(git rev-parse --absolute-git-dir)/commondir"', home="inherit"
    )
    assert "COMMITTED" in said[0]
    assert control(repo / ".git") == before
    (note,) = found.result.evidence.notes
    assert "commondir" in note
    assert "it has been put back" in note
    assert git(work, "log", "-1", "--format=%s") == "by the task\n"
