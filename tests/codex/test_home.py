"""A pinned home is used by one run at a time, whatever the harness does meanwhile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from subagent_codex._home import configuration, key_variables, speaks_about

FORKING = """
import os, sys
from pathlib import Path
import anyio
from subagents.backend.homes import pinned_home

class Link:
    def emit(self, event):
        print(event.text)

async def main():
    home, (rest, hold) = Path(sys.argv[1]), os.pipe()
    async with pinned_home(home, Link()):
        child = os.fork()
        if child == 0:
            os.close(hold)
            os.read(rest, 1)
            os._exit(0)
    with anyio.fail_after(20):
        async with pinned_home(home, Link()):
            print("again")
    os.close(hold)
    os.waitpid(child, 0)

anyio.run(main)
"""


def test_a_fork_of_the_harness_does_not_keep_the_home_of_a_run_that_has_ended(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, tmp_path / "home"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "again\n"), done.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[projects."/w"]\ntrust_level = "trusted"\n', True),
        ('[projects."/w"]\ntrust_level = "untrusted"\n', True),
        ('[projects."/w/sub"]\ntrust_level = "trusted"\n', False),
        ('[projects."/w"]\n', False),
        ("projects = 3\n", False),
        ("not toml", False),
        (None, False),
    ],
)
def test_the_persons_word_about_a_folder_is_found_in_their_configuration(
    tmp_path: Path, text: str | None, says: bool
) -> None:
    if text is not None:
        (tmp_path / "config.toml").write_text(text)
    assert speaks_about(configuration(tmp_path), "/w") is says


MINE = '[model_providers.mine]\nenv_key = "MY_KEY"\nenv_http_headers = { x = "MY_HEADER" }\n'


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (f'model_provider = "mine"\n{MINE}', ("MY_KEY", "MY_HEADER")),
        (f'profile = "p"\n[profiles.p]\nmodel_provider = "mine"\n{MINE}', ("MY_KEY", "MY_HEADER")),
        (f'model_provider = "another"\n{MINE}', ()),
        (MINE, ()),
        ('model_provider = "mine"\n[model_providers.mine]\nenv_key = 3\n', ()),
        ("profile = 3\nmodel_providers = 4\n", ()),
    ],
)
def test_the_variable_that_holds_the_key_of_their_model_server_is_known(
    tmp_path: Path, text: str, names: tuple[str, ...]
) -> None:
    (tmp_path / "config.toml").write_text(text)
    assert key_variables(configuration(tmp_path)) == names
