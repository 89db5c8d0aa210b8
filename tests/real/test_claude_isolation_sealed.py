"""The real Claude Code in a network of its own and on a file system that tells what is written: `isolation_sealed.py`.

As root on Linux; elsewhere it is skipped, and says what was not allowed.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import isolation_seal
import pytest
from isolation_seal import OWN

pytestmark = pytest.mark.long

KEY: Final = "sk-ant-api03-sealed-0123456789"
LONG_ENOUGH: Final = 6  # s; what is contacted beside the work is contacted in the first two
MINE: Final = {"base_url": "SCRIPTED", "api_key": KEY}

sealed = partial(isolation_seal.sealed, "claude")


def test_with_a_server_of_ones_own_nothing_else_is_contacted_and_nothing_written_beside(tmp_path: Path) -> None:
    seen = sealed(tmp_path, seconds=LONG_ENOUGH, options=MINE)
    assert seen.result == "completed", seen.why
    assert seen.names == []
    assert seen.contacted == ["127.0.0.1:SCRIPTED"]
    assert [path.partition("?")[0] for path in seen.asked] == ["/v1/messages"]
    assert seen.authorization == [KEY]
    assert any(OWN.match(path) for path in seen.during)  # else this shows nothing
    assert [path for path in seen.during if not OWN.match(path)] == []
    assert seen.after == []
    # A variable of the engine, and of the shells that it starts, until they have run our file.
    assert {path.rpartition("/")[2] for path in seen.keys} == {"environ"}


def test_with_a_key_alone_the_host_of_the_api_is_looked_up_and_nothing_else(tmp_path: Path) -> None:
    """The engine also asks it what the administrator of the account laid down; no variable that was tried ends that."""
    seen = sealed(tmp_path, seconds=LONG_ENOUGH, options={"api_key": KEY})
    assert seen.result == "completed", seen.why
    assert seen.names == ["api.anthropic.com"]
    assert seen.contacted == ["127.0.0.1:SCRIPTED", "192.0.2.7:443"]  # the first is our own, behind the second
    admin = {"/api/claude_code/policy_limits", "/api/claude_code/settings"}
    assert {path.partition("?")[0] for path in seen.asked} == {"/v1/messages", *admin}
    assert seen.authorization == [KEY]


def test_a_pinned_home_keeps_no_key_and_is_all_that_is_left(tmp_path: Path) -> None:
    seen = sealed(tmp_path, options={**MINE, "home": "/tmp/sealed/pinned"})
    assert seen.result == "completed", seen.why
    assert seen.after != []
    assert [path for path in seen.after if not path.startswith("/tmp/sealed/pinned/")] == []
    assert {path.rpartition("/")[2] for path in seen.keys} == {"environ"}


def test_a_name_that_is_looked_up_is_seen(tmp_path: Path) -> None:
    mutant = ["variable_without", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"]
    seen = sealed(tmp_path, seconds=LONG_ENOUGH, options=MINE, mutant=mutant)
    assert "api.anthropic.com" in seen.names
    assert "192.0.2.7:443" in seen.contacted


def test_a_file_that_is_written_elsewhere_is_seen(tmp_path: Path) -> None:
    seen = sealed(tmp_path, options=MINE, mutant=["variable_without", "CLAUDE_CONFIG_DIR"])
    assert [path for path in seen.during if "/.claude" in path] != []
