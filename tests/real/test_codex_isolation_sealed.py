"""The real Codex in a network of its own and on a file system that tells what is written: `isolation_sealed.py`.

As root on Linux; elsewhere it is skipped, and says what was not allowed.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Final

import isolation_seal
import pytest
from isolation_seal import OWN

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("codex_binary")]

KEY: Final = "sk-test-sealed-0123456789"
LONG_ENOUGH: Final = 6  # s; what plugins contact, they contact in the first two
PREPARED: Final = re.compile(r"/tmp/sealed/person/\.cache/subagents/codex/(lock|[0-9a-f]{16}/\w+\.sqlite)")

sealed = partial(isolation_seal.sealed, "codex")


def test_with_a_server_of_ones_own_no_name_is_looked_up_and_nothing_else_is_contacted(tmp_path: Path) -> None:
    seen = sealed(tmp_path, seconds=LONG_ENOUGH, options={"base_url": "SCRIPTED", "api_key": KEY})
    assert seen.result == "completed", seen.why
    assert seen.names == []
    assert seen.contacted == ["127.0.0.1:SCRIPTED"]
    assert seen.asked == ["/v1/responses"]
    assert seen.authorization == [f"Bearer {KEY}"]


def test_with_a_key_alone_the_host_of_the_api_is_looked_up_and_nothing_else(tmp_path: Path) -> None:
    seen = sealed(tmp_path, seconds=LONG_ENOUGH, options={"api_key": KEY})
    assert seen.result == "completed", seen.why
    assert seen.names == ["api.openai.com"]
    assert seen.contacted == ["127.0.0.1:SCRIPTED", "192.0.2.7:443"]  # the first is our own, behind the second
    assert seen.asked == ["/v1/responses"]
    assert seen.authorization == [f"Bearer {KEY}"]


def test_a_key_that_is_handed_over_as_a_sign_in_is_in_no_file_argument_or_variable(tmp_path: Path) -> None:
    assert sealed(tmp_path, options={"api_key": KEY}).keys == []
    mutant = ["settings_without", ["cli_auth_credentials_store"]]
    (seen,) = sealed(tmp_path, options={"api_key": KEY}, mutant=mutant).keys
    assert seen.endswith("/codex/auth.json")


def test_a_sign_in_that_lies_in_a_home_that_is_given_is_used(tmp_path: Path) -> None:
    auth = {"auth_mode": "apikey", "OPENAI_API_KEY": KEY}
    seen = sealed(tmp_path, auth=auth, options={"home": "/tmp/sealed/pinned"})
    assert seen.result == "completed", seen.why
    assert seen.names == ["api.openai.com"]
    assert seen.authorization == [f"Bearer {KEY}"]
    assert "/tmp/sealed/pinned/auth.json" not in seen.after


@pytest.mark.parametrize("sandbox", ["read-only", "workspace-write", "danger-full-access"])
def test_nothing_is_written_but_in_the_home_of_the_run_and_nothing_of_that_is_left(
    tmp_path: Path, sandbox: str
) -> None:
    seen = sealed(tmp_path, options={"base_url": "SCRIPTED", "api_key": KEY, "sandbox": sandbox})
    assert seen.result == "completed", seen.why
    assert any(OWN.match(path) for path in seen.during)  # else this shows nothing
    assert [path for path in seen.during if not OWN.match(path) and not PREPARED.fullmatch(path)] == []
    # What is prepared once per machine, for the runs to come.
    assert [path for path in seen.after if not PREPARED.fullmatch(path)] == []


def test_a_name_that_is_looked_up_is_seen(tmp_path: Path) -> None:
    options = {"base_url": "SCRIPTED", "api_key": KEY}
    mutant = ["settings_without", ["features.plugins"]]
    seen = sealed(tmp_path, seconds=LONG_ENOUGH, options=options, mutant=mutant)
    assert seen.names == ["api.github.com", "chatgpt.com", "github.com"]
    assert "192.0.2.7:443" in seen.contacted


def test_a_file_that_is_written_elsewhere_is_seen(tmp_path: Path) -> None:
    options = {"base_url": "SCRIPTED", "api_key": KEY}
    seen = sealed(tmp_path, options=options, mutant=["thread_without", "shell_environment_policy"])
    assert [path for path in seen.after if "codex-bwrap" in path] != []
