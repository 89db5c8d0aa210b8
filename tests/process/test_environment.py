"""What a child's environment is, as a whole."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from subagent_process import child_env, depth, redact, run_command, throwaway_home

AMBIENT = {"PATH": "/usr/bin:/bin", "HOME": "/home/anna", "LANG": "C.UTF-8", "TMPDIR": "/tmp", "EDITOR": "vi"}


def test_the_ambient_environment_passes_without_what_is_removed() -> None:
    secret = {
        "FAKECORP_API_KEY": "leak1",
        "CLAUDECODE": "1",
        "NODE_OPTIONS": "--inspect=0",
        "GIT_DIR": "/x",
        "VIRTUAL_ENV": "/v",
    }
    env = child_env(ambient=AMBIENT | secret)
    assert env == AMBIENT | {"SUBAGENT_DEPTH": "1"}


def test_what_configuration_sets_is_layered_on_top_as_it_is() -> None:
    env = child_env(set={"FAKECORP_API_KEY": "mine", "EDITOR": "ed"}, ambient=AMBIENT | {"FAKECORP_API_KEY": "leak1"})
    assert env["FAKECORP_API_KEY"] == "mine"
    assert env["EDITOR"] == "ed"


def test_named_variables_pass_although_they_would_be_removed() -> None:
    ambient = AMBIENT | {"SSH_AUTH_SOCK": "/s", "LD_LIBRARY_PATH": "/l", "GH_TOKEN": "t"}
    env = child_env(passing=["SSH_AUTH_SOCK", "LD_LIBRARY_PATH", "NOT_THERE"], ambient=ambient)
    assert env["SSH_AUTH_SOCK"] == "/s"
    assert env["LD_LIBRARY_PATH"] == "/l"
    assert "GH_TOKEN" not in env
    assert "NOT_THERE" not in env


def test_passing_as_one_text_is_refused() -> None:
    with pytest.raises(TypeError, match="collection of names"):
        child_env(passing="SSH_AUTH_SOCK")


def test_minimal_starts_from_a_short_list_and_still_removes() -> None:
    ambient = AMBIENT | {
        "LC_ALL": "C",
        "MY_APP": "1",
        "https_proxy": "http://u:p@proxy",
        "NODE_EXTRA_CA_CERTS": "/ca",
        "KEEP": "k",
    }
    env = child_env(minimal=True, passing={"KEEP"}, ambient=ambient)
    assert env == {
        "PATH": "/usr/bin:/bin",
        "HOME": "/home/anna",
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",
        "LC_ALL": "C",
        "NODE_EXTRA_CA_CERTS": "/ca",
        "KEEP": "k",
        "SUBAGENT_DEPTH": "1",
    }


@pytest.mark.parametrize(
    ("ambient", "expected"),
    [(None, "1"), ("0", "1"), ("1", "2"), ("41", "42"), ("", "2"), ("-1", "2"), ("-99", "2"), ("x", "2"), ("1.5", "2"),
     (" 3", "2"), ("٣", "2"), ("9" * 5000, "2"), ("1e3", "2")],
)  # fmt: skip
def test_the_depth_is_one_more_and_rubbish_counts_as_one(ambient: str | None, expected: str) -> None:
    env = AMBIENT if ambient is None else AMBIENT | {"SUBAGENT_DEPTH": ambient}
    for arguments in ({}, {"minimal": True}, {"passing": ("SUBAGENT_DEPTH",)}, {"set": {"SUBAGENT_DEPTH": "0"}}):
        assert child_env(ambient=env, **arguments)["SUBAGENT_DEPTH"] == expected  # pyright: ignore[reportArgumentType]


def test_this_process_knows_its_own_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUBAGENT_DEPTH", raising=False)
    assert depth() == 0
    monkeypatch.setenv("SUBAGENT_DEPTH", "3")
    assert depth() == 3
    monkeypatch.setenv("SUBAGENT_DEPTH", "-3")
    assert depth() == 1


def test_the_librarys_own_virtual_environment_leaves_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv, other = tmp_path / "venv", tmp_path / "other"
    for folder in (venv, other):
        (folder / "bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to(venv)
    monkeypatch.setattr(sys, "prefix", str(venv))
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    path = f"{tmp_path}/link/bin:{venv}/bin/:{venv}/bin::/usr/bin:{other}/bin:{venv}/bin2"
    assert child_env(ambient={"PATH": path})["PATH"] == f":/usr/bin:{other}/bin:{venv}/bin2"
    assert child_env(ambient={"PATH": path, "VIRTUAL_ENV": str(other)})["PATH"] == f":/usr/bin:{venv}/bin2"
    assert child_env(ambient={"PATH": path}, passing=["PATH"])["PATH"] == path


@pytest.mark.parametrize(
    ("path", "venv", "kept"),
    [
        ("/usr/bin:/bin", "/usr", "/usr/bin:/bin"),
        ("/v/bin", "/v", os.defpath),
        ("/v/bin:/usr/bin", "/v", "/usr/bin"),
        ("", "/v", os.defpath),
    ],
)
def test_a_path_is_never_emptied(path: str, venv: str, kept: str) -> None:
    assert child_env(ambient={"PATH": path, "VIRTUAL_ENV": venv})["PATH"] == kept


def test_a_python_outside_of_any_environment_keeps_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/opt/python")
    monkeypatch.setattr(sys, "base_prefix", "/opt/python")
    path = "/opt/python/bin:/bin"
    assert child_env(ambient={"PATH": path})["PATH"] == path
    # In a conda environment prefix and base_prefix are the same.
    assert child_env(ambient={"PATH": path, "CONDA_PREFIX": "/opt/python"})["PATH"] == "/bin"


def test_without_a_path_none_is_invented() -> None:
    assert "PATH" not in child_env(ambient={"HOME": "/"})


def test_secrets_that_a_child_was_given_are_redacted_from_then_on() -> None:
    child_env(set={"FAKECORP_TOKEN": "violet-elephant-12", "MODEL": "violet-giraffe-12"}, ambient={})
    assert redact("violet-elephant-12 violet-giraffe-12") == "[redacted] violet-giraffe-12"


@pytest.mark.anyio
async def test_the_child_gets_exactly_this_and_ours_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKECORP_API_KEY", "leak1")
    monkeypatch.setenv("DB_PASSWORD", "leak2")
    before = dict(os.environ)
    async with throwaway_home("engine") as home:
        env = child_env(home=home, set={"X": "1"})
        done = await run_command(["env", "-0"], env=env, timeout=10)
        got = dict(item.split("=", 1) for item in done.stdout.decode().split("\0") if item)
        assert got == env
        assert env["HOME"] == str(home.root / "home")
        assert b"leak" not in done.stdout
        assert "FAKECORP_API_KEY" not in got
    assert dict(os.environ) == before
