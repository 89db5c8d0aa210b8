"""What an app-server is started with: every argument, variable, descriptor, the folder and the umask."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest
from protocol_kit import BOUND, Json, codex, follow, refused, task, told, turn

from subagent_testing import FakeCodex, FakeRun
from subagents import ToolEvent

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


KEY = "sk-key-of-the-configuration-0123456789"
CANARIES = {
    "OPENAI_API_KEY": "canary-openai",
    "CODEX_API_KEY": "canary-codex",
    "ANTHROPIC_API_KEY": "canary-anthropic",
    "AWS_SECRET_ACCESS_KEY": "canary-aws",
    "GITHUB_TOKEN": "canary-github",
    "GH_TOKEN": "canary-gh",
    "NPM_TOKEN": "canary-npm",
    "DATABASE_URL": "postgres://canary:canary-db@db/x",
    "MY_SERVICE_PASSWORD": "canary-password",
    "SSH_AUTH_SOCK": "/tmp/canary-ssh",
    "CODEX_HOME": "/tmp/canary-codex-home",
    "CODEX_SANDBOX": "canary-seatbelt",
    "OPENAI_BASE_URL": "http://canary.invalid/v1",
    "RUST_LOG": "canary=trace",
    "LD_PRELOAD": "",
    "PYTHONPATH": "/tmp/canary-python",
    "GIT_DIR": "/tmp/canary-git",
    "A_HARMLESS_ONE": "canary-harmless",
}


@pytest.fixture
def canaries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)


def resolved(path: str) -> str:
    """The path without links."""
    return os.path.realpath(path)


async def started(fake: FakeCodex, cwd: Path, **options: Any) -> FakeRun:
    """The one process of a run that went well."""
    assert (await told(fake, cwd, **options)).result.ok
    (run,) = fake.runs
    return run


@pytest.mark.usefixtures("canaries")
async def test_neither_a_key_nor_anything_of_ours_is_in_what_it_is_started_with(tmp_path: Path) -> None:
    with FakeCodex() as fake:
        run = await started(fake, tmp_path, api_key=KEY)
        everything = repr((run.argv, dict(run.env), run.cwd))
        assert "canary" not in everything
        assert KEY not in everything
        told = fake.wait_for("thread/start").message["params"]
        assert KEY in repr(told["config"]["model_providers"])  # the one place where it is told
        assert KEY not in repr([m for m in fake.received if m.get("method") != "thread/start"])
        assert "canary" not in repr(fake.received)


@pytest.mark.usefixtures("canaries")
async def test_its_environment_is_a_short_list(tmp_path: Path) -> None:
    with FakeCodex() as fake:
        run = await started(fake, tmp_path)
    home = run.env["HOME"]
    root = os.path.dirname(home)
    allowed = {"PATH", "HOME", "CODEX_HOME", "TMPDIR", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TERM"}
    allowed |= {"TZ", "TMP", "TEMP", "CI", "NO_COLOR", "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE"}
    allowed |= {"NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE"}
    others = {name for name in run.env if name not in allowed and not name.startswith(("XDG_", "SUBAGENT", "LC_"))}
    assert others == set()
    ours = ("HOME", "CODEX_HOME", "TMPDIR", *(n for n in run.env if n.startswith("XDG_") and n.endswith("_HOME")))
    assert all(run.env[name].startswith(f"{root}/") for name in ours)
    assert "RUST_LOG" not in run.env
    assert run.env["PATH"].strip(os.pathsep)


@pytest.mark.usefixtures("canaries")
async def test_an_inherited_home_passes_no_secret_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The person's own settings, but no key of theirs and nobody's log level."""
    home = tmp_path / "codex-home"
    home.mkdir()
    monkeypatch.setenv("CODEX_HOME", str(home))
    with FakeCodex({"on": {"account/read": [[{"result": {"requiresOpenaiAuth": False}}]]}}) as fake:
        run = await started(fake, tmp_path, base_url=None, home="inherit")
    secret = [value for name, value in CANARIES.items() if name not in ("CODEX_HOME", "A_HARMLESS_ONE", "LD_PRELOAD")]
    assert [value for value in secret if value in repr(dict(run.env))] == ["http://canary.invalid/v1"]
    assert run.env["CODEX_HOME"] == str(home)


async def test_it_works_in_its_own_home_which_is_private_and_gone_afterwards(tmp_path: Path) -> None:
    """Never in the task's folder: whatever an engine writes beside itself is ours to remove."""
    with FakeCodex(turn({"gate": "look"}, {"message": "done"})) as fake:
        async with codex(fake).start("go", cwd=tmp_path) as run:
            await fake.happened("look")
            (process,) = fake.runs
            folders = [Path(process.env[name]) for name in ("CODEX_HOME", "HOME", "TMPDIR")]
            modes = [stat.S_IMODE(os.stat(folder).st_mode) for folder in (process.cwd, *folders)]
            fake.open("look")
            await follow(run)
    assert set(modes) == {0o700}
    assert all(folder.is_relative_to(process.cwd) for folder in folders)
    assert not process.cwd.is_relative_to(tmp_path)
    assert not process.cwd.exists()


async def test_it_inherits_no_descriptor_and_a_plain_umask(tmp_path: Path) -> None:
    os.umask(mask := os.umask(0o077))
    with FakeCodex() as fake, (tmp_path / "open").open("w"):
        run = await started(fake, tmp_path)
    assert run.descriptors == (0, 1, 2)
    assert run.umask == mask


async def test_a_socket_below_its_home_fits_into_the_limit_also_under_a_long_tmpdir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An app-server binds one 43 characters below; 103 is what macOS takes."""
    long = tmp_path / ("t" * 70)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    monkeypatch.setattr("tempfile.tempdir", None)
    with FakeCodex() as fake:
        run = await started(fake, tmp_path)
    assert len(run.env["CODEX_HOME"]) + len("/app-server-control/app-server-control.sock") <= 103


async def test_a_pinned_home_is_made_private_and_absolute_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    with FakeCodex() as fake:
        first = await started(fake, work, home="./deep/ch")
    home = tmp_path / "deep" / "ch"
    assert first.env["CODEX_HOME"] == str(home)
    assert stat.S_IMODE(os.stat(home).st_mode) == 0o700
    assert first.env["HOME"] != str(home)
    assert home.is_dir()
    with FakeCodex() as fake:
        again = await started(fake, work, home=str(home))
    assert again.env["CODEX_HOME"] == str(home)


async def test_a_pinned_home_that_cannot_be_one_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with FakeCodex() as fake:
        failure = await refused(fake, tmp_path, home=tmp_path / "file")
        assert (failure.kind, failure.stage) == ("launch", "start")
        assert str(tmp_path / "file") in failure.message
        assert fake.runs == []


async def test_a_pinned_home_serves_one_run_at_a_time(tmp_path: Path) -> None:
    """The second one waits, says so, and goes on when the first has ended."""
    home, seen = tmp_path / "home", list[str]()
    with FakeCodex(turn({"gate": "go"}, {"message": "done"})) as fake, anyio.fail_after(BOUND):
        async with codex(fake, home=home).start("go", cwd=tmp_path) as first, anyio.create_task_group() as tasks:
            await fake.happened("go")
            second = codex(fake, home=home).start("go", cwd=tmp_path)

            async def enter() -> None:
                async with second:
                    seen.extend((await follow(second)).notices("waiting"))

            tasks.start_soon(enter)
            async for event in second.events():
                if event.type == "notice" and event.code == "waiting":
                    break
            assert len(fake.runs) == 1
            fake.open("go")
            await follow(first)
    assert len(fake.runs) == 2
    assert seen == [f"waiting for the home {home}, which another run uses"]


async def test_what_the_task_wants_of_the_turn_is_told_to_the_engine(tmp_path: Path) -> None:
    schema: Json = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    fields: Json = {"effort": "high", "model": "gpt-5.6", "instructions": "be brief", "output_schema": schema}
    with FakeCodex(turn({"message": '{"n": 5}'})) as fake, anyio.fail_after(BOUND):
        async with codex(fake).start(task(tmp_path, **fields)) as run:
            found = await follow(run)
        opened, begun = (fake.wait_for(method).message["params"] for method in ("thread/start", "turn/start"))
    assert (opened["model"], opened["developerInstructions"], opened["cwd"]) == ("gpt-5.6", "be brief", str(tmp_path))
    assert (begun["effort"], begun["outputSchema"]) == ("high", schema)
    assert found.result.structured == {"n": 5}


async def test_a_folder_that_is_reached_through_a_link_is_the_folder_behind_it(tmp_path: Path) -> None:
    """The engine answers in resolved paths: the same file is told once, and below the folder."""
    real, link = tmp_path / "real", tmp_path / "w"
    (real / "src").mkdir(parents=True)
    link.symlink_to(real)
    change = {"file_change": {"path": "src/a.py", "diff": "x = 1\n"}}
    with FakeCodex(turn(change, {"message": "done"})) as fake:
        found = await told(fake, link)
        params = fake.wait_for("thread/start").message["params"]
    assert resolved(params["cwd"]) == str(real)
    assert (real / "src" / "a.py").read_text() == "x = 1\n"
    paths = {path for event in found.of(ToolEvent) for path in event.paths}
    assert {resolved(os.path.join(params["cwd"], path)) for path in paths} == {str(real / "src" / "a.py")}
    assert found.result.evidence.edits == 1


async def test_the_trust_of_the_folder_is_denied_and_the_configuration_strict(tmp_path: Path) -> None:
    with FakeCodex() as fake:
        run = await started(fake, tmp_path)
    assert run.argv[1:3] == ("app-server", "--strict-config")
    settings = dict(text.split("=", 1) for text in run.argv[4::2])
    assert settings["projects"] == f'{{"{tmp_path}" = {{"trust_level" = "untrusted"}}}}'
    assert settings["features.plugins"] == "false"
    assert settings["cli_auth_credentials_store"] == '"ephemeral"'
