"""Providers by name: found lazily, a broken one stands in nobody's way, and every error says what to do next."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import BaseModel, ConfigDict

import subagents
from subagents import Config, ConfigError, DuplicateProvider, Link, Task, Unavailable, UnknownProvider

MODULE = """
from pydantic import BaseModel, ConfigDict
import subagents
class Options(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    retries: int = 1
    key: str = ""
class Good(subagents.Provider):
    options_type = Options
    def __init__(self, name="good", **options):
        self.name = name
        self.options = Options(**options)
    async def drive(self, task, link):
        link.finish(subagents.Result.completed("x"))
class Bare(subagents.Provider):
    def __init__(self, name):
        self.name = name
    async def drive(self, task, link): ...
not_a_class = 5
"""

Install = Callable[[str, str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a distribution on sys.path: its name, its entry points, the source of its module."""

    def put(dist: str, points: str, source: str) -> None:
        root = tmp_path / dist
        info = root / f"{dist.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[subagents.providers]\n{points}\n")
        (root / f"{dist.replace('-', '_')}.py").write_text(source)
        monkeypatch.syspath_prepend(root)  # pyright: ignore[reportUnknownMemberType]
        sys.modules.pop(dist.replace("-", "_"), None)

    return put


def test_listing_imports_nothing(install: Install) -> None:
    install("acme-lazy", "lazy = acme_lazy:Good", MODULE)
    assert "lazy" in subagents.installed()
    assert "acme_lazy" not in sys.modules


def test_a_provider_is_made_by_its_name_with_its_options(install: Install) -> None:
    install("acme-good", "good = acme_good:Good", MODULE)
    made = subagents.create("good", name="good-two", options={"retries": "3"})
    assert made.name == "good-two"
    assert vars(made)["options"].retries == 3


def test_a_missing_provider_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownProvider, match=r"no provider named 'nope' is installed \(installed: .*local"):
        subagents.create("nope")
    monkeypatch.setattr("subagents._registry.GROUP", "nobody.offers.this")
    with pytest.raises(UnknownProvider, match="pip install 'subagent-local"):
        subagents.create("local")


def test_a_broken_provider_is_unavailable_with_its_reason_and_others_are_not(install: Install) -> None:
    install("acme-broken", "broken = acme_broken:Good", "import a_module_that_is_missing")
    install("acme-fine", "fine = acme_fine:Good", MODULE)
    with pytest.raises(
        Unavailable, match=r"'broken' \(acme_broken:Good\) cannot be loaded: ModuleNotFoundError: .*a_module"
    ):
        subagents.create("broken")
    assert subagents.create("fine").name == "fine"


def test_what_is_no_provider_is_unavailable(install: Install) -> None:
    install("acme-wrong", "wrong = acme_wrong:not_a_class", MODULE)
    with pytest.raises(Unavailable, match="is not a subclass"):
        subagents.create("wrong")


def test_two_distributions_with_one_name_are_an_error_that_names_both(install: Install) -> None:
    install("acme-one", "twice = acme_one:Good", MODULE)
    install("acme-two", "twice = acme_two:Good", MODULE)
    with pytest.raises(DuplicateProvider, match=r"acme-one .* and acme-two"):
        subagents.create("twice")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"retires": 3}, r"options of good: retires: extra inputs are not permitted \(options: retries, key\)"),
        ({"retries": "many"}, "retries: input should be a valid integer"),
    ],
)
def test_a_wrong_option_is_named_with_what_there_is(install: Install, options: dict[str, str], says: str) -> None:
    install("acme-good", "good = acme_good:Good", MODULE)
    with pytest.raises(ConfigError, match=says):
        subagents.create("good", options=options)


def test_the_value_of_a_wrong_option_is_not_shown(install: Install) -> None:
    install("acme-good", "good = acme_good:Good", MODULE)
    with pytest.raises(ConfigError) as caught:
        subagents.create("good", options={"key": ["sk-canary"]})
    assert "canary" not in str(caught.value)


def test_options_for_a_provider_without_any_are_refused(install: Install) -> None:
    install("acme-bare", "bare = acme_bare:Bare", MODULE)
    assert subagents.create("bare").name == "bare"
    with pytest.raises(ConfigError, match="bare has no options, and colour was given"):
        subagents.create("bare", options={"colour": "red"})


def test_a_name_that_is_not_kebab_case_is_refused(install: Install) -> None:
    install("acme-bare", "bare = acme_bare:Bare", MODULE)
    with pytest.raises(ConfigError, match="kebab-case"):
        subagents.create("bare", name="Bare One")


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "subagents.toml"
    path.write_text(text)
    return path


def test_a_file_names_providers(install: Install, tmp_path: Path) -> None:
    install("acme-good", "good = acme_good:Good", MODULE)
    config = Config(write(tmp_path, '[providers.fast]\ntype = "good"\nretries = 7\n[providers.good]\nretries = 2\n'))
    fast = config.provider("fast", key="k")
    assert (fast.name, vars(fast)["options"].retries, vars(fast)["options"].key) == ("fast", 7, "k")
    assert vars(config.provider("good"))["options"].retries == 2
    assert config.provider("good", retries="5").name == "good"


def test_a_name_that_the_file_does_not_have_is_that_of_an_installed_provider(install: Install, tmp_path: Path) -> None:
    install("acme-good", "good = acme_good:Good", MODULE)
    assert Config(write(tmp_path, "")).provider("good").name == "good"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[providers]\na = \n", r"subagents\.toml: .*line 2"),
        ("[servers.a]\n", "servers: only .providers.NAME. tables belong here"),
        ("providers = 3\n", "providers: only"),
        ("[providers]\na = 3\n", "providers.a is a table of options, not int"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_the_key(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Config(write(tmp_path, text))


def test_a_missing_file_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml"):
        Config(tmp_path / "none.toml")


def test_a_wrong_table_is_refused_with_file_and_table(install: Install, tmp_path: Path) -> None:
    install("acme-good", "good = acme_good:Good", MODULE)
    config = Config(write(tmp_path, '[providers.a]\ntype = "good"\nspeed = 1\n[providers.b]\ntype = 5\n'))
    with pytest.raises(ConfigError, match=r"subagents\.toml: \[providers\.a\]: options of good: speed: extra"):
        config.provider("a")
    with pytest.raises(ConfigError, match=r"subagents\.toml: providers\.b\.type is the name of a provider, not 5"):
        config.provider("b")


def test_the_options_of_a_class_are_a_frozen_model_that_refuses_what_it_does_not_know() -> None:
    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid", frozen=True)

    class Mine(subagents.Provider):
        name = "mine"
        options_type: ClassVar[type[BaseModel] | None] = Options

        async def drive(self, task: Task, link: Link) -> None: ...

    assert Mine.options_type is Options
