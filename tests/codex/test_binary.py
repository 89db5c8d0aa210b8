"""Which codex runs, and what a probe finds there."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from subagent_codex import _binary
from subagent_codex._binary import Binary, locate, probe
from subagent_codex._methods import PINNED
from subagent_codex.options import CodexOptions
from subagents import Probe, StartError
from subagents.backend import programs

pytestmark = pytest.mark.anyio

NATIVE = b"\x7fELF and so on"
SHIM = b"#!/usr/bin/env node\n"
PACKAGE, TARGET = {
    "x86_64": ("codex-linux-x64", "x86_64-unknown-linux-musl"),
    "aarch64": ("codex-linux-arm64", "aarch64-unknown-linux-musl"),
}.get(platform.machine(), ("", ""))
CODEX = f"""#!/bin/sh
case "$1" in
    --version) echo "codex-cli {PINNED}" ;;
    login) echo "WARNING: something" >&2; env | sort >"$CODEX_HOME/env"; cat "$CODEX_HOME/said" >&2
        exit "$(cat "$CODEX_HOME/code")" ;;
esac
"""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is bundled, and nothing is on PATH."""
    monkeypatch.setitem(sys.modules, "codex_cli_bin", None)
    monkeypatch.setenv("PATH", "/nonexistent")
    for name in ("CODEX_HOME", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)


def program(path: Path, content: bytes | str = NATIVE, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)
    return path


def on_path(monkeypatch: pytest.MonkeyPatch, *folders: Path | str) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))


async def located(**options: object) -> Binary:
    with anyio.fail_after(10):
        return await locate(CodexOptions.model_validate(options))


async def probed(**options: object) -> Probe:
    with anyio.fail_after(20):
        return await probe(CodexOptions.model_validate(options))


# -- which one ---------------------------------------------------------------------------------------------------------


async def test_the_configured_one_comes_before_all_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = program(tmp_path / "mine"), program(tmp_path / "bin" / "codex")
    on_path(monkeypatch, other.parent)
    assert await located(executable=mine) == Binary(mine, "configured", script=False, path_folder=None)


async def test_the_bundled_one_comes_before_path_and_brings_its_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "codex_cli_bin")
    bundled = pytest.importorskip("codex_cli_bin", reason="openai-codex-cli-bin is not installed")
    on_path(monkeypatch, program(tmp_path / "codex").parent)
    path = bundled.bundled_codex_path()
    assert await located() == Binary(path, "bundled", script=False, path_folder=bundled.bundled_path_dir())


async def test_a_broken_package_is_named_and_path_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "codex_cli_bin")
    bundled = pytest.importorskip("codex_cli_bin", reason="openai-codex-cli-bin is not installed")
    monkeypatch.setattr(bundled, "PACKAGE_METADATA_FILENAME", "absent.json")
    with pytest.raises(StartError, match=r"neither bundled \(openai-codex-cli-bin is installed but .*\) nor on PATH"):
        await located()
    on_path(monkeypatch, program(tmp_path / "codex").parent)
    assert (await located()).source == "path"


async def test_there_may_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StartError) as none:
        await located()
    assert (none.value.failure.kind, none.value.failure.stage) == ("launch", "start")
    assert none.value.failure.message == (
        "codex is neither bundled nor on PATH: install subagent-codex[cli], or codex itself, or name it as the option"
        " executable"
    )
    assert await probed() == Probe(False, detail=none.value.failure.message, fix=none.value.failure.message[38:])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("absent", "does not exist"),
        ("folder", "is a folder"),
        ("text", "may not be read and executed"),
        ("dangling", "does not exist"),
    ],
)
async def test_a_configured_one_that_cannot_be_started_is_refused_with_the_reason(
    name: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    program(tmp_path / "text", mode=0o644)
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(StartError, match=f"configured executable {tmp_path / name} {why}"):
        await located(executable=tmp_path / name)


async def test_path_is_that_of_the_child_and_only_absolute_folders_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "venv/bin", "folder", "text", "good", "later"):
        (tmp_path / name).mkdir(parents=True)
    program(tmp_path / "codex")
    program(tmp_path / "here" / "codex")
    program(tmp_path / "venv" / "bin" / "codex")
    (tmp_path / "folder" / "codex").mkdir()
    program(tmp_path / "text" / "codex", mode=0o600)
    good = tmp_path / "good" / "codex"
    good.symlink_to(program(tmp_path / "elsewhere" / "codex-1.2"))
    program(tmp_path / "later" / "codex")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    folders = [tmp_path / name for name in ("venv/bin", "folder", "text", "good", "later")]
    on_path(monkeypatch, "", ".", "here", *folders)
    assert await located() == Binary(good, "path", script=False, path_folder=None)


# -- npm ---------------------------------------------------------------------------------------------------------------


def npm(root: Path, *, beside: bool) -> tuple[Path, Path]:
    """What npm makes: the link in .bin, and the native program; `beside`: in a package next to @openai/codex."""
    package = root / "node_modules" / "@openai" / "codex"
    script = program(package / "bin" / "codex.js", SHIM)
    place = package.parent / PACKAGE if beside else package
    native = program(place / "vendor" / TARGET / "bin" / "codex")
    (native.parent.parent / "codex-path").mkdir()
    link = root / "node_modules" / ".bin" / "codex"
    link.parent.mkdir()
    link.symlink_to(os.path.relpath(script, link.parent))
    return link, native


@pytest.mark.skipif(not PACKAGE, reason=f"npm has no codex for {platform.machine()}")
@pytest.mark.parametrize("beside", [True, False])
async def test_the_native_program_is_taken_instead_of_the_script_of_npm(
    beside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, native = npm(tmp_path, beside=beside)
    tools = native.parent.parent / "codex-path"
    on_path(monkeypatch, link.parent)
    assert await located() == Binary(native, "path", script=False, path_folder=tools)
    assert await located(executable=link) == Binary(native, "configured", script=False, path_folder=tools)


async def test_a_native_one_further_on_is_taken_before_a_script_and_the_script_when_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, native = program(tmp_path / "1" / "codex.js", SHIM), program(tmp_path / "2" / "codex")
    (tmp_path / "1" / "codex").symlink_to(script)
    on_path(monkeypatch, script.parent, native.parent)
    assert (await located()).path == native
    on_path(monkeypatch, script.parent)
    found = await located()
    assert (found.path, found.script, found.where) == (script.parent / "codex", True, "found on PATH (a script)")


async def test_where_npm_has_no_program_its_script_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    (tmp_path / "codex").symlink_to(program(tmp_path / "codex.js", SHIM))
    assert (await located(executable=tmp_path / "codex")).script


# -- the probe ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def codex(tmp_path: Path) -> Path:
    return program(tmp_path / "codex", CODEX)


@pytest.fixture
def signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CODEX_HOME, of which the codex above says what stands in its files."""
    home = tmp_path / "signed in"
    home.mkdir()
    (home / "said").write_text("Logged in using an API key - sk-proj-***abcde\n")
    (home / "code").write_text("0")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return home


async def test_a_probe_says_which_where_from_and_which_version(codex: Path) -> None:
    found = await probed(executable=codex, base_url="http://127.0.0.1:1/v1")
    detail = f"{codex}, the configured executable (a script); a model server of its own, asked without a key"
    assert found == Probe(True, PINNED, str(codex), None, detail)


async def test_a_probe_says_when_the_version_is_not_the_tested_one(tmp_path: Path) -> None:
    other = program(tmp_path / "codex", "#!/bin/sh\necho codex-cli 9.9.9-alpha.1")
    found = await probed(executable=other, base_url="http://127.0.0.1:1/v1")
    assert found.version == "9.9.9-alpha.1"
    assert f"version 9.9.9-alpha.1, tested with {PINNED}" in found.detail


@pytest.mark.parametrize(
    "script", ["echo something else", "echo codex-cli 1.0; exit 3", "echo codex-cli", "kill -9 $$"]
)  # fmt: skip
async def test_what_is_no_codex_is_not_available(script: str, tmp_path: Path) -> None:
    found = await probed(executable=program(tmp_path / "codex", f"#!/bin/sh\n{script}"))
    assert (found.available, found.version) == (False, None)
    assert "is no codex: --version ended with exit code" in found.detail
    assert found.fix


async def test_what_cannot_be_started_is_not_available(tmp_path: Path) -> None:
    found = await probed(executable=program(tmp_path / "codex", NATIVE))
    assert not found.available
    assert str(tmp_path / "codex") in found.detail


async def test_a_codex_that_hangs_is_not_available(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_VERSION_LIMIT", 0.3)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    found = await probed(executable=program(tmp_path / "codex", "#!/bin/sh\nexec sleep 100"))
    assert not found.available
    assert "0.3 s" in found.detail


async def test_a_key_signs_in_and_no_word_of_it_is_told(codex: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-" + "a1B2c3D4e5F6"
    configured = await probed(executable=codex, api_key=key, base_url="http://127.0.0.1:1/v1")
    assert (configured.available, configured.signed_in) == (True, True)
    assert configured.detail.endswith("; an API key is configured")
    absent = await probed(executable=codex, api_key_env="MY_KEY")
    assert (absent.available, absent.signed_in) == (False, False)
    assert absent.fix == "set MY_KEY, which api_key_env names, to an API key"
    monkeypatch.setenv("MY_KEY", key)
    there = await probed(executable=codex, api_key_env="MY_KEY")
    assert (there.available, there.signed_in) == (True, True)
    assert there.detail.endswith("; an API key is in the variable MY_KEY")
    assert key not in repr((configured, absent, there))


async def test_an_isolated_home_without_a_key_says_what_to_do(codex: Path) -> None:
    found = await probed(executable=codex)
    assert (found.available, found.signed_in) == (False, False)
    assert all(word in found.fix for word in ("home=inherit", " login`", "api_key", "base_url"))


async def test_the_home_that_a_run_would_have_is_asked_whether_it_is_signed_in(
    codex: Path, signed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUST_LOG", "trace")
    pinned = await probed(executable=codex, home=signed)
    assert (pinned.available, pinned.signed_in, pinned.fix) == (True, True, "")
    assert pinned.detail.endswith("; Logged in using an API key")
    env = dict(line.split("=", 1) for line in (signed / "env").read_text().splitlines())
    assert (env["CODEX_HOME"], env["RUST_LOG"]) == (str(signed), "off")
    assert env["HOME"] != os.environ["HOME"]
    monkeypatch.setenv("CODEX_HOME", str(signed))
    assert (await probed(executable=codex, home="inherit")).signed_in
    env = dict(line.split("=", 1) for line in (signed / "env").read_text().splitlines())
    assert (env["CODEX_HOME"], env["HOME"]) == (str(signed), os.environ["HOME"])


async def test_a_home_that_is_not_signed_in_says_what_to_do(codex: Path, signed: Path) -> None:
    (signed / "said").write_text("Not logged in\n")
    (signed / "code").write_text("1")
    found = await probed(executable=codex, home=signed)
    assert (found.available, found.signed_in) == (False, False)
    assert found.detail.endswith("; Not logged in")
    assert found.fix == f"run `CODEX_HOME='{signed}' codex login`"
    (signed / "said").write_text("")
    (signed / "code").write_text("3")
    assert (await probed(executable=codex, home=signed)).detail.endswith("; WARNING: something")


async def test_a_home_that_does_not_exist_is_not_made(
    codex: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await probed(executable=codex, home=tmp_path / "new")
    assert (found.available, found.signed_in) == (False, False)
    assert "does not exist yet" in found.detail
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    found = await probed(executable=codex, home="inherit")
    assert (found.available, found.signed_in, found.fix) == (False, False, "run `codex login`")
    assert not {"new", "nobody"} & set(os.listdir(tmp_path))


async def test_a_sign_in_that_cannot_be_checked_is_not_known(
    signed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_binary, "_STATUS_LIMIT", 0.3)
    slow = program(tmp_path / "codex", CODEX.replace("login)", "login) sleep 100;"))
    found = await probed(executable=slow, home=signed)
    assert (found.available, found.signed_in) == (True, None)
    assert "could not be checked" in found.detail


async def test_the_bundled_one_says_that_nobody_is_signed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "codex_cli_bin")
    pytest.importorskip("codex_cli_bin", reason="openai-codex-cli-bin is not installed")
    (tmp_path / "home").mkdir()
    found = await probed(home=tmp_path / "home")
    assert (found.version, found.available, found.signed_in) == (PINNED, False, False)
    assert found.detail.endswith("from openai-codex-cli-bin; Not logged in")


def test_a_probe_does_not_wait_for_the_input_of_its_program(signed: Path, tmp_path: Path) -> None:
    reading = program(tmp_path / "codex", CODEX.replace("#!/bin/sh", "#!/bin/sh\ncat >/dev/null"))
    code = f"""
import anyio
from subagent_codex._binary import probe
from subagent_codex.options import CodexOptions
options = CodexOptions.model_validate({{"executable": {str(reading)!r}, "home": {str(signed)!r}}})
print(anyio.run(probe, options).signed_in)
"""
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdin is not None  # open, and never written
        assert harness.stdout is not None
        assert harness.stdout.readline() == "True\n"
        assert harness.wait(30) == 0
