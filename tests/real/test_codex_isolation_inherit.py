"""`home="inherit"` on the real Codex: the person's sign-in and settings are used, and nothing of theirs is changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from codex_kit import Told, against, shell, shell_outputs, told
from isolation_codex import CodexBaits, settings_without
from isolation_kit import CANARIES, MARK, later, repository, words

from subagent_codex import Codex, CodexOptions
from subagent_testing import ScriptedResponses

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("codex_binary")]

THEIRS = "sk-of-the-person-31415926"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # whose settings are used does not depend on the loop


@pytest.fixture
def api() -> Iterator[ScriptedResponses]:
    with ScriptedResponses([[shell("cat ~/.npmrc; env; echo END")], "done"]) as api:
        yield api


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: ScriptedResponses) -> Path:
    """A person who has signed in with an API key, and has settings of their own."""
    home = tmp_path / "person"
    signed_in(home / ".codex", api)
    (home / ".npmrc").write_text("their-npm-token")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return home


def signed_in(folder: Path, api: ScriptedResponses, key: str = THEIRS) -> None:
    folder.mkdir(parents=True)
    (folder / "auth.json").write_text(json.dumps({"auth_mode": "apikey", "OPENAI_API_KEY": key}))
    (folder / "auth.json").chmod(0o600)
    (folder / "AGENTS.md").write_text("bait-their-agents")
    (folder / "config.toml").write_text(f"""# theirs
model = "gpt-5.5"
model_reasoning_effort = "low"
model_provider = "theirs"

[model_providers.theirs]
name = "theirs"
base_url = "{api.base_url}"
wire_api = "responses"
requires_openai_auth = true
supports_websockets = false
""")


async def inherited(work: Path, **options: Any) -> Told:
    return await told(Codex(home="inherit", **options), "work", work)


@pytest.mark.parametrize("sandbox", ["workspace-write", *map(later, ("read-only", "danger-full-access"))])
async def test_their_sign_in_and_settings_are_used_and_stay_as_they_are(
    work: Path, person: Path, api: ScriptedResponses, sandbox: str
) -> None:
    repository(work)
    config, auth = (person / ".codex/config.toml").read_bytes(), (person / ".codex/auth.json").read_bytes()
    found = await inherited(work, sandbox=sandbox)
    assert found.result.ok, found.result
    assert {r.headers["authorization"] for r in api.requests} == {f"Bearer {THEIRS}"}
    assert api.requests[0].body["reasoning"]["effort"] == "low"
    assert words(api.requests[0].raw.decode()) == {"bait-their-agents"}
    assert (person / ".codex/config.toml").read_bytes() == config
    assert (person / ".codex/auth.json").read_bytes() == auth


async def test_their_secrets_in_variables_stay_away_also_then(
    work: Path, person: Path, api: ScriptedResponses, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)
    await inherited(work)
    (said,) = shell_outputs(api)
    assert "END" in said
    assert MARK not in said


async def test_their_variable_that_names_the_home_counts(
    work: Path, person: Path, api: ScriptedResponses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_in(tmp_path / "elsewhere", api, "sk-of-elsewhere-2718281828")
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "elsewhere"))
    found = await inherited(work)
    assert found.result.ok, found.result
    assert {r.headers["authorization"] for r in api.requests} == {"Bearer sk-of-elsewhere-2718281828"}


async def test_a_project_that_they_do_not_trust_starts_nothing(
    work: Path, person: Path, api: ScriptedResponses, tmp_path: Path
) -> None:
    repository(work)
    baits = CodexBaits(tmp_path / "ran")
    baits.project(work)
    found = await inherited(work, sandbox="workspace-write")
    assert found.result.ok, found.result
    assert baits.ran == []
    assert "bait-project-config" not in api.requests[0].raw.decode()


@pytest.mark.long
async def test_a_fault_is_seen(work: Path, person: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without our word the engine trusts the folder, writes that down, and starts what lies there."""
    repository(work)
    baits = CodexBaits(tmp_path / "ran")
    baits.project(work)
    settings_without(monkeypatch, ["projects"])
    await inherited(work, sandbox="workspace-write")
    assert baits.ran == ["project-mcp"]
    assert 'trust_level = "trusted"' in (person / ".codex/config.toml").read_text()


@pytest.mark.parametrize("trust", ["trusted", later("untrusted")])
@pytest.mark.parametrize("below", ["", later("sub")])
async def test_what_they_say_about_a_project_counts(
    work: Path, person: Path, api: ScriptedResponses, tmp_path: Path, trust: str, below: str
) -> None:
    repository(work)
    (work / "sub").mkdir()
    baits = CodexBaits(tmp_path / "ran")
    baits.project(work)
    config = person / ".codex/config.toml"
    with config.open("a") as file:
        file.write(f'\n[projects."{work}"]\ntrust_level = "{trust}"\n')
    before = config.read_bytes()
    found = await inherited(work / below, sandbox="workspace-write")
    assert found.result.ok, found.result
    assert ("project-mcp" in baits.ran) == (trust == "trusted")
    assert config.read_bytes() == before


async def test_without_a_home_to_inherit_the_start_says_what_to_do(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    with pytest.raises(Exception, match="codex login") as caught:
        await inherited(work)
    assert type(caught.value).__name__ == "StartError"
    assert not (tmp_path / ".codex").exists()


async def test_commands_with_the_real_home_read_what_lies_in_it_as_the_option_says(
    work: Path, person: Path, api: ScriptedResponses
) -> None:
    await told(against(api, tool_home="real"), "work", work)
    assert "their-npm-token" in shell_outputs(api)[0]
    assert "tokens in its files included" in (CodexOptions.model_fields["tool_home"].description or "")


async def test_commands_with_the_private_home_do_not(work: Path, person: Path, api: ScriptedResponses) -> None:
    await told(against(api), "work", work)
    assert "their-npm-token" not in shell_outputs(api)[0]


async def test_the_variable_that_their_provider_takes_its_key_from_reaches_the_engine(
    work: Path, person: Path, api: ScriptedResponses, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = person / ".codex/config.toml"
    config.write_text(config.read_text().replace("requires_openai_auth = true", 'env_key = "THEIR_API_KEY"'))
    monkeypatch.setenv("THEIR_API_KEY", "sk-of-another-vendor-2718")
    monkeypatch.setenv("ANOTHER_API_KEY", "sk-that-nobody-named-1618")
    found = await inherited(work)
    assert found.result.ok, found.result
    assert {r.headers["authorization"] for r in api.requests} == {"Bearer sk-of-another-vendor-2718"}
    assert "sk-that-nobody-named" not in str(shell_outputs(api))
    assert "sk-of-another-vendor" not in str(found)
