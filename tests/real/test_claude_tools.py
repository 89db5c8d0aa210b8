"""Work inside a task on the real Claude Code: what a person's tools do there, and what they do not get to know.

What makes it possible is tested apart, without an engine: `tests/process/test_toolenv.py`,
`tests/claude/test_environment.py`.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from claude_kit import KEY, Told, against, bash, results, told
from isolation_kit import later
from tools_kit import COMMIT, READS, TOKEN, fill, git, installed, repository, rustup_shim

from subagent_claude_code import ClaudeCode
from subagent_testing import ScriptedMessages

pytestmark = pytest.mark.anyio

SHOWN = "env; echo; {}; for one in /proc/$$ /proc/$PPID; do tr '\\0' '\\n' < $one/cmdline; done; echo END"
CHILD = "python3 -c 'print(open(\"/proc/self/environ\").read().replace(chr(0), chr(10)))'"
ENGINES = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_ENV_FILE",
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # what commands get does not depend on the loop


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The person's HOME: a git identity, and tokens."""
    home = fill(tmp_path / "person")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return home


async def done(work: Path, *commands: str, within: float = 60, **options: object) -> tuple[Told, list[str]]:
    """A run in which the model runs these commands, and what each said."""
    with ScriptedMessages([*([bash(command)] for command in commands), "done"]) as api:
        found = await told(against(api, **options), "work", work, permission="allow", within=within)
        return found, results(api)


async def inherited(work: Path, person: Path, *commands: str) -> tuple[Told, list[str]]:
    """The same in the home of a person whose own settings name the server and the key."""
    with ScriptedMessages([*([bash(command)] for command in commands), "done"]) as api:
        settings = {"env": {"ANTHROPIC_BASE_URL": api.base_url, "ANTHROPIC_API_KEY": KEY}}
        (person / ".claude").mkdir()
        (person / ".claude/settings.json").write_text(json.dumps(settings))
        found = await told(ClaudeCode(home="inherit"), "work", work, permission="allow")
        return found, results(api)


@pytest.mark.parametrize("place", ["worktree", *map(later, ("plain", "below"))])
async def test_a_commit_is_the_persons(work: Path, person: Path, place: str) -> None:
    folder = work
    match place:
        case "worktree":
            repo = repository(work.parent / "repo")
            git(repo, "worktree", "add", "-q", "-b", "side", str(work))
        case _:
            repo = repository(work)
    if place == "below":
        folder = work / "sub"
        folder.mkdir()
    found, said = await done(folder, COMMIT)
    assert found.result.ok
    assert "COMMITTED" in said[0]
    assert git(folder, "log", "-1", "--format=%s by %an <%ae>") == "by the task by The Person <p@x>\n"
    assert git(folder, "status", "--short") == ""


async def test_uv_npm_and_cargo_work(work: Path) -> None:
    """With whatever of them is installed here, under the real HOME: no network, no cache of the person."""
    commands = installed(work)
    found, said = await done(work, *commands, within=110)
    for (command, expected), output in zip(commands.items(), said, strict=True):
        assert expected in output, command
    assert found.result.ok


async def test_a_shim_of_rustup_works(work: Path, person: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", rustup_shim(person), prepend=os.pathsep)
    _, said = await done(work, "cargo --version")
    assert "default = stable\nwritable" in said[0]
    assert not (person / ".cargo/registry").exists()


async def test_commands_find_no_token_of_the_person(work: Path, person: Path) -> None:
    _, said = await done(work, READS)
    assert "END" in said[0]
    assert TOKEN not in said[0]


@pytest.mark.long
async def test_with_the_real_home_they_find_every_one(work: Path, person: Path) -> None:
    _, said = await done(work, READS, tool_home="real")
    assert said[0].count(TOKEN) >= 5
    assert KEY not in said[0]


@pytest.mark.parametrize("home", ["isolated", later("pinned")])
async def test_neither_a_command_nor_its_children_have_what_is_the_engines(
    work: Path, person: Path, tmp_path: Path, home: str
) -> None:
    where = tmp_path / "pinned" if home == "pinned" else home
    _, said = await done(work, SHOWN.format(CHILD), home=where)
    assert "END" in said[0]
    assert said[0].count("/tools/home\n") >= 2  # HOME, in both
    assert KEY not in said[0]
    assert [name for name in ENGINES if f"\n{name}=" in said[0]] == []


async def test_nor_in_the_persons_home_where_their_settings_give_the_key(work: Path, person: Path) -> None:
    repository(work)
    found, said = await inherited(work, person, SHOWN.format(CHILD), COMMIT)
    assert found.result.ok, found.result
    assert KEY not in said[0]
    assert [name for name in ENGINES if name != "ANTHROPIC_BASE_URL" and f"\n{name}=" in said[0]] == []
    assert f"\nHOME={person}\n" in said[0]
    assert "COMMITTED" in said[1]


async def test_what_commands_get_is_in_no_argument_and_in_files_for_us_alone(work: Path, person: Path) -> None:
    """The engine puts the text of `CLAUDE_ENV_FILE` into the arguments of every shell."""
    found, said = await done(work, SHOWN.format("true") + "; stat -c %a,%n $(dirname $HOME)/../own/*")
    assert "/own/tools.sh" in said[0]
    assert "export " not in said[0]
    modes = [line.split(",") for line in said[0].splitlines() if line.endswith(".sh")]
    assert [(mode, path.rpartition("/")[2]) for mode, path in modes] == [("600", "env.sh"), ("600", "tools.sh")]
    assert found.result.evidence.process is not None
    assert found.result.evidence.process.home_removed


async def test_odd_values_reach_commands_as_they_are(work: Path, person: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = 'a\'b "c" $(id) `id` \\\n\ttwo \udcff'
    monkeypatch.setenv("EMAIL", odd)
    _, said = await done(work, "python3 -c 'import os; print(ascii(os.environb[b\"EMAIL\"]))'")
    assert ascii(os.fsencode(odd)) in said[0]


async def test_a_hostile_folder_changes_nothing_of_it(
    work: Path, person: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    for name in ("rc", ".envrc", ".env", ".bashrc", ".profile", "ls", "git", "bash", "env"):
        (work / name).write_text(f"#!/bin/sh\n: > {ran}\n")
        (work / name).chmod(stat.S_IRWXU)
    for name in ("BASH_ENV", "ENV"):
        monkeypatch.setenv(name, str(work / "rc"))
    monkeypatch.setenv("PROMPT_COMMAND", f": > {ran}")
    monkeypatch.setenv("BASH_FUNC_ls%%", f"() {{ : > {ran}; }}")
    found, said = await done(work, "ls; git --version; bash -c 'env | grep ^PATH='; sh -c 'echo $ENV $BASH_ENV END'")
    assert found.result.ok
    assert "\nEND" in said[0]
    assert not ran.exists()


async def test_configuration_above_the_folder_is_told(work: Path, person: Path) -> None:
    (work.parent / ".npmrc").write_text("//x/:_authToken=t\n")
    found, _ = await done(work, "true")
    (notice,) = found.notices("tools")
    assert str(work.parent / ".npmrc") in notice
    found, _ = await inherited(work, person, "true")
    assert found.notices("tools") == []
