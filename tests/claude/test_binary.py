"""Which `claude` runs, and what a probe finds."""

from __future__ import annotations

import importlib.util
import os
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import anyio
import pytest

from subagent_claude_code import ClaudeCode, ClaudeCodeOptions
from subagent_claude_code._binary import locate
from subagents import StartError

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

VERSION = "#!/bin/sh\necho '2.1.332 (Claude Code)'\n"


def program(path: Path, text: str = VERSION) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an SDK that has no program in it, and nothing on PATH."""
    folder = tmp_path / "sdk"

    def found(name: str) -> ModuleSpec:
        spec = ModuleSpec(name, None)
        spec.origin = str(folder / "__init__.py")
        return spec

    monkeypatch.setattr(importlib.util, "find_spec", found)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return folder


async def test_the_bundled_one_comes_before_the_one_on_path(
    sdk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = program(tmp_path / "bin" / "claude")
    monkeypatch.setenv("PATH", os.pathsep.join(("relative", str(tmp_path / "empty"), str(on_path.parent))))
    found = await locate(ClaudeCodeOptions())
    assert (found.path, found.source) == (on_path, "path")
    bundled = program(sdk / "_bundled" / "claude")
    found = await locate(ClaudeCodeOptions())
    assert (found.path, found.source) == (bundled, "bundled")
    named = program(tmp_path / "mine")
    found = await locate(ClaudeCodeOptions(executable=named))
    assert (found.path, found.source) == (named, "configured")


@pytest.mark.usefixtures("sdk")
async def test_none_at_all_says_what_to_install() -> None:
    with pytest.raises(StartError, match=r"subagent-claude-code\[sdk\]"):
        await locate(ClaudeCodeOptions())


async def test_a_missing_sdk_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    with pytest.raises(StartError, match=r"subagent-claude-code\[sdk\]"):
        await locate(ClaudeCodeOptions())
    probe = await ClaudeCode().probe()
    assert not probe.available
    assert "[sdk]" in probe.fix


@pytest.mark.usefixtures("sdk")
@pytest.mark.parametrize(("make", "says"), [("", "does not exist"), ("folder", "is a folder")])
async def test_a_configured_one_that_is_unfit_is_named(tmp_path: Path, make: str, says: str) -> None:
    path = tmp_path / "claude"
    if make:
        path.mkdir()
    with pytest.raises(StartError, match=says):
        await locate(ClaudeCodeOptions(executable=path))


@pytest.mark.usefixtures("sdk")
@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_configured_one_that_may_not_be_run_is_named(tmp_path: Path) -> None:  # pragma: no cover
    path = program(tmp_path / "claude")
    path.chmod(0o644)
    with pytest.raises(StartError, match="may not be read and executed"):
        await locate(ClaudeCodeOptions(executable=path))


@pytest.mark.usefixtures("sdk")
async def test_what_is_no_claude_is_not_available(tmp_path: Path) -> None:
    probe = await ClaudeCode(executable=program(tmp_path / "claude", "#!/bin/sh\necho hello\n")).probe()
    assert not probe.available
    assert "is no claude" in probe.detail


@pytest.mark.usefixtures("sdk")
@pytest.mark.parametrize(
    ("said", "signed_in", "detail"),
    [
        ('{"loggedIn": true, "authMethod": "claude.ai"}', True, "claude.ai"),
        ('{"loggedIn": false}', False, "nobody"),
        ("[]", None, "could not be read"),
        ("oops", None, "could not be read"),
        ('{"loggedIn": "yes"}', None, "could not be read"),
    ],
)
async def test_a_probe_reads_what_the_engine_says_of_its_sign_in(
    tmp_path: Path, said: str, signed_in: bool | None, detail: str
) -> None:
    code = f"#!/bin/sh\n[ \"$1\" = --version ] && echo '2.1.332 (Claude Code)' || echo '{said}'\n"
    probe = await ClaudeCode(executable=program(tmp_path / "claude", code), home="inherit").probe()
    assert probe.signed_in is signed_in
    assert detail in probe.detail
    assert probe.available is (signed_in is not False)
    assert "tested with" not in probe.detail


@pytest.mark.usefixtures("sdk")
async def test_a_sign_in_that_cannot_be_asked_for_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import subagent_claude_code._binary as binary

    monkeypatch.setattr(binary, "_STATUS_LIMIT", 0.2)
    code = "#!/bin/sh\n[ \"$1\" = --version ] && echo '2.1.332 (Claude Code)' || /bin/sleep 60\n"
    with anyio.fail_after(20):
        probe = await ClaudeCode(executable=program(tmp_path / "claude", code), home="inherit").probe()
    assert probe.signed_in is None
    assert "could not be checked" in probe.detail


@pytest.mark.usefixtures("sdk")
async def test_a_pinned_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    options: dict[str, Any] = {"executable": program(tmp_path / "claude"), "base_url": "http://127.0.0.1:9"}
    with anyio.fail_after(20), pytest.raises(StartError, match="cannot be used"):
        async with ClaudeCode(home=file / "below", **options).start("x", cwd=tmp_path):
            pass  # pragma: no cover
