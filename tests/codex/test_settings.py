"""Every key that we set, as TOML, and where it goes."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from subagent_codex import CodexOptions
from subagent_codex._settings import arguments, process_settings, thread_config, toml, wider

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_written_is_what_a_toml_reader_reads(value: Any) -> None:
    text = toml(value)
    assert text.isascii()
    assert "\n" not in text
    assert tomllib.loads(f"x = {text}")["x"] == value


def test_a_folder_of_any_name_is_untrusted_in_the_nested_form() -> None:
    cwd = '/w/a b/"q"/é.🧪/x=y'
    found = list(arguments(process_settings(CodexOptions(), cwd, keyed=False, trust=True)))
    (projects,) = [text for text in found if text.startswith("projects=")]
    assert tomllib.loads(projects) == {"projects": {cwd: {"trust_level": "untrusted"}}}


def settled(keyed: bool = False, trust: bool = True, **options: Any) -> dict[str, Any]:
    return process_settings(CodexOptions(**options), "/w", keyed=keyed, trust=trust)


@pytest.mark.parametrize("home", ["isolated", "/pinned"])
def test_a_home_of_ours_has_every_setting_that_isolates(home: str) -> None:
    found = settled(home=home)
    assert found["features.plugins"] is False
    assert found["shell_environment_policy.inherit"] == "none"
    assert found["allow_login_shell"] is False
    assert found["features.shell_snapshot"] is False
    assert found["project_doc_max_bytes"] == 0
    assert found["model_providers.subagents"]["requires_openai_auth"] is True


def test_the_persons_home_gets_only_what_a_headless_run_needs() -> None:
    assert settled(home="inherit", trust=False).keys() == {
        "check_for_update_on_startup",
        "features.unbounded_connection_retries",
        "features.shell_snapshot",
    }


@pytest.mark.parametrize(
    ("options", "keyed", "memory"),
    [
        ({}, False, True),
        ({}, True, True),
        ({"home": "/pinned"}, False, False),  # a sign-in that lies there is read
        ({"home": "/pinned"}, True, True),
        ({"home": "inherit"}, False, False),
        ({"home": "inherit"}, True, True),
    ],
)
def test_a_key_of_ours_is_kept_in_memory_and_a_sign_in_of_theirs_is_found(
    options: dict[str, Any], keyed: bool, memory: bool
) -> None:
    found = settled(keyed=keyed, **options).get("cli_auth_credentials_store")
    assert found == ("ephemeral" if memory else None)


def test_no_key_is_among_the_arguments_and_only_a_provider_of_ones_own_gets_it_in_the_thread() -> None:
    options = CodexOptions(api_key=SecretStr("sk-canary-1"), base_url="http://127.0.0.1:1/v1")
    assert not any("canary" in text for text in arguments(process_settings(options, "/w", keyed=True, trust=True)))
    found = thread_config(options, key="sk-canary-1", tools={}, filesystem={})
    assert found["model_providers"]["subagents"]["experimental_bearer_token"] == "sk-canary-1"
    plain = CodexOptions(api_key=SecretStr("sk-canary-1"))
    assert "canary" not in str(thread_config(plain, key="sk-canary-1", tools={}, filesystem={}))


def test_the_sandbox_is_a_profile_that_closes_tmp_because_the_homes_of_all_runs_lie_there() -> None:
    options = CodexOptions(sandbox="workspace-write")
    found = thread_config(options, key=None, tools={"A": "b"}, filesystem={"/r": "write", "/r/x": "read"})
    assert found == {
        "default_permissions": "subagents",
        "permissions": {
            "subagents": {
                "extends": ":workspace",
                "filesystem": {":slash_tmp": "read", "/r": "write", "/r/x": "read"},
                "network": {"enabled": False},
            }
        },
        "shell_environment_policy": {"inherit": "none", "set": {"A": "b"}},
    }


def test_in_the_persons_home_a_profile_would_lose_to_their_sandbox_mode() -> None:
    options = CodexOptions(home="inherit", sandbox="workspace-write", network_access=True)
    found = thread_config(options, key=None, tools={"A": "b"}, filesystem={"/r": "write", "/r/x": "read"})
    assert found == {
        "sandbox_workspace_write": {"writable_roots": ["/r"], "network_access": True, "exclude_slash_tmp": True}
    }


def test_commands_do_not_get_the_key_of_the_persons_own_model_provider() -> None:
    found = thread_config(CodexOptions(home="inherit"), key=None, tools={}, filesystem={}, hidden=("MINE", "KEY"))
    assert found == {"shell_environment_policy": {"exclude": ["MINE", "KEY"]}}


@pytest.mark.parametrize(
    ("answered", "asked", "is_wider"),
    [
        ("readOnly", "read-only", False),
        ("workspaceWrite", "read-only", True),
        ("dangerFullAccess", "workspace-write", True),
        ("readOnly", "danger-full-access", False),  # an administrator may narrow it
        ("somethingNew", "read-only", False),
        (None, "read-only", False),
    ],
)
def test_a_sandbox_that_is_wider_than_asked_for_is_told(answered: str | None, asked: Any, is_wider: bool) -> None:
    assert wider(answered, asked) is is_wider
