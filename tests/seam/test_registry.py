"""Providers by name: found lazily, a broken one stands in nobody's way, and every error says what to do next."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import BaseModel, ConfigDict

import subagents
from subagents import ConfigError, DuplicateProvider, Link, Task, Unavailable, UnknownProvider
from subagents._plugin import load

Install = Callable[..., Path]


def test_listing_imports_nothing(install: Install) -> None:
    install("acme-lazy", "lazy = acme_lazy:Good")
    assert "lazy" in subagents.installed()
    assert "acme_lazy" not in sys.modules


def test_a_provider_is_made_by_its_name_with_its_options(install: Install) -> None:
    install("acme-good", "good = acme_good:Good")
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
    install("acme-fine", "fine = acme_fine:Good")
    with pytest.raises(
        Unavailable, match=r"'broken' \(acme_broken:Good\) cannot be loaded: ModuleNotFoundError: .*a_module"
    ):
        subagents.create("broken")
    assert subagents.create("fine").name == "fine"


def test_what_is_no_provider_is_unavailable(install: Install) -> None:
    install("acme-wrong", "wrong = acme_wrong:not_a_class")
    with pytest.raises(Unavailable, match="is not a subclass"):
        subagents.create("wrong")


@pytest.mark.parametrize(
    ("point", "says"),
    [
        ("Caps = acme_odd:Good", "an entry point of acme-odd: a provider's name is kebab-case"),
        ("a.b = acme_odd:Good", "an entry point of acme-odd: a provider's name is kebab-case"),
        ("odd = acme odd !!", "an entry point of acme-odd, is not MODULE:CLASS"),
    ],
)
def test_an_entry_point_that_is_none_is_named(install: Install, point: str, says: str) -> None:
    install("acme-odd", point)
    with pytest.raises(Unavailable, match=says):
        subagents.create(point.partition(" =")[0])


@pytest.mark.parametrize("kept", ["self.name = 'another'", "pass"])
def test_a_provider_that_does_not_keep_its_name_is_unavailable(install: Install, kept: str) -> None:
    source = f"""
import subagents
class Odd(subagents.Provider):
    def __init__(self, name): {kept}
    async def drive(self, task, link): ...
"""
    install("acme-odd", "odd = acme_odd:Odd", source)
    with pytest.raises(Unavailable, match="was given the name 'odd' and has"):
        subagents.create("odd")


def test_a_name_that_is_nearly_right_is_suggested(install: Install) -> None:
    install("acme-good", "good = acme_good:Good")
    with pytest.raises(UnknownProvider, match="did you mean good"):
        subagents.create("godo")


@pytest.mark.parametrize(("words", "fits"), [("'send'", False), ("None", False), ("{1}", False), ("{'send'}", True)])
def test_capabilities_are_a_set_of_words(install: Install, words: str, fits: bool) -> None:
    source = f"""
import subagents
class Odd(subagents.Provider):
    capabilities = {words}
    def __init__(self, name): self.name = name
    async def drive(self, task, link): ...
"""
    install("acme-odd", "odd = acme_odd:Odd", source)
    if fits:
        assert subagents.create("odd").name == "odd"
    else:
        with pytest.raises(Unavailable, match="its capabilities are no set of words"):
            subagents.create("odd")


def test_two_distributions_with_one_name_are_an_error_that_names_both(install: Install) -> None:
    install("acme-one", "twice = acme_one:Good")
    install("acme-two", "twice = acme_two:Good")
    with pytest.raises(DuplicateProvider, match=r"acme-one .* and acme-two"):
        subagents.create("twice")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"retires": 3},
            r"options of good: retires: there is no such option; did you mean retries\? \(options: retries, key, ",
        ),
        ({"retries": "many"}, "retries: input should be a valid integer"),
    ],
)
def test_a_wrong_option_is_named_with_what_there_is(install: Install, options: dict[str, str], says: str) -> None:
    install("acme-good", "good = acme_good:Good")
    with pytest.raises(ConfigError, match=says):
        subagents.create("good", options=options)


def test_the_value_of_a_wrong_option_is_not_shown(install: Install) -> None:
    install("acme-good", "good = acme_good:Good")
    with pytest.raises(ConfigError) as caught:
        subagents.create("good", options={"key": ["sk-canary"]})
    assert "canary" not in str(caught.value)


def test_options_for_a_provider_without_any_are_refused(install: Install) -> None:
    install("acme-bare", "bare = acme_bare:Bare")
    assert subagents.create("bare").name == "bare"
    with pytest.raises(ConfigError, match="bare has no options, and colour was given"):
        subagents.create("bare", options={"colour": "red"})


def test_a_name_that_is_not_kebab_case_is_refused(install: Install) -> None:
    install("acme-bare", "bare = acme_bare:Bare")
    with pytest.raises(ConfigError, match="kebab-case"):
        subagents.create("bare", name="Bare One")


# -- what is broken in a distribution of somebody else ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("raise SystemExit(3)", "cannot be loaded: SystemExit: 3"),
        ("class Skipped(BaseException): ...\nraise Skipped('no display')", "cannot be loaded: Skipped: no display"),
        ("class Bad(Exception):\n  def __str__(self): 1/0\nraise Bad", "cannot be loaded: Bad$"),
        ("def (", "cannot be loaded: SyntaxError: "),
        (
            "raise ValueError('token=kQ7canary5511x, Authorization: Bearer kQ7canary5511x')",
            "cannot be loaded: ValueError",
        ),
        ("", "cannot be loaded: AttributeError: module 'acme_odd' has no attribute 'Good'$"),
        (
            "import a_module_that_is_missing",
            "No module named 'a_module_that_is_missing'; install a_module_that_is_missing, or acme-odd anew$",
        ),
    ],
)
def test_whatever_an_import_does_it_is_unavailable(install: Install, source: str, says: str) -> None:
    install("acme-odd", "odd = acme_odd:Good", source)
    with pytest.raises(Unavailable, match=rf"^the provider 'odd' \(acme_odd:Good\) .*{says}") as caught:
        subagents.create("odd")
    assert "Bearer kQ7canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("points", "metadata", "says"),
    [
        (
            "odd = acme_odd:Good",
            "Provides-Extra: sdk\nProvides-Extra: docs\nRequires-Dist: Acme_SDK>=2; extra == 'sdk'\n"
            "Requires-Dist: sphinx ; python_version > '3' and extra == \"docs\"\nRequires-Dist: anyio\n",
            "install what it needs: pip install 'acme-odd[sdk]'",
        ),
        ("odd = acme_odd:Good", "Provides-Extra: b\nRequires-Dist: z; extra == 'b'\n", "pip install 'acme-odd[b]'"),
        ("odd = acme_odd:Good [sdk]", "", "pip install 'acme-odd[sdk]'"),
    ],
)
def test_a_missing_extra_is_named(install: Install, points: str, metadata: str, says: str) -> None:
    install("acme-odd", points, "import acme_sdk.client", metadata)
    with pytest.raises(Unavailable) as caught:
        subagents.create("odd")
    assert str(caught.value).endswith(says)


OLD = {
    "class Good(subagents.Provider):\n  async def run(self, task): ...": "it does not write drive",
    "class Good(subagents.Bare):\n  async def drive(self, prompt): ...": "its drive cannot be called with (task, link)",
    "class Good(subagents.Bare):\n  async def drive(self, task, link, extra): ...": "its drive cannot be called with",
    "class Good(subagents.Bare):\n  async def drive(self, task, link): yield": "its drive yields, and it is awaited",
    "class Good(subagents.Bare):\n  async def pull(self, model): ...": "its pull cannot be called with (model, pro",
    "class Good(subagents.Bare):\n  def start(self, task): ...": "it writes its own start, which belongs to the seam",
    "class Good(subagents.Bare):\n  async def probe(self): ...": "it writes its own probe",
    "class Good(subagents.Bare):\n  def __init__(self): ...": "its constructor takes no name",
    "class Good(subagents.Bare):\n  options_type = dict": "its options_type is no pydantic model",
    "from subagents import Delegate": "cannot import name 'Delegate' from 'subagents'",
    "class Good(subagents.Backend): ...": "module 'subagents' has no attribute 'Backend'",
    "import subagents.transport": "No module named 'subagents.transport'",
}
BARE = """
import subagents
class Bare(subagents.Provider):
    def __init__(self, name): self.name = name
    async def drive(self, task, link): ...
"""


@pytest.mark.parametrize("source", OLD)
def test_one_that_was_made_for_another_version_is_told_by_what_it_is(install: Install, source: str) -> None:
    install(
        "acme-old",
        "old = acme_old:Good",
        BARE + source.replace("subagents.Bare", "Bare"),
        "Requires-Dist: subagents (<0.1)\n",
    )
    with pytest.raises(Unavailable) as caught:
        subagents.create("old")
    says = str(caught.value)
    assert OLD[source] in says
    assert "made for another version of subagents" in says
    assert "acme-old asks for subagents<0.1, and 0.1.0 is here; upgrade it: pip install --upgrade acme-old" in says


def test_one_that_says_nothing_about_versions_is_told_to_be_upgraded(install: Install) -> None:
    install("acme-old", "old = acme_old:Good", "from subagents import Delegate")
    with pytest.raises(Unavailable, match=r"version of subagents: upgrade it: pip install --upgrade acme-old$"):
        subagents.create("old")
    with pytest.raises(Unavailable, match=r"version of subagents: install a version of it that fits$"):
        load(EntryPoint("old", "acme_old:Good", "subagents.providers"))  # of no distribution


@pytest.mark.parametrize(
    "source",
    [
        "class Good(Bare):\n  async def drive(self, *args, **more): ...",
        "class Good(Bare):\n  @staticmethod\n  async def drive(task, link): ...",
        "class Good(Bare):\n  def __init__(self, url='', **more): super().__init__(more['name'])",
        "import functools\nclass Good(Bare):\n  drive = functools.partialmethod(Bare.drive)",
        "class Good(Bare):\n  async def pull(self, model, *, progress=None, retries=3): ...",
    ],
)
def test_what_can_be_called_as_the_seam_does_is_taken(install: Install, source: str) -> None:
    install("acme-fine", "fine = acme_fine:Good", BARE + source)
    assert subagents.create("fine").name == "fine"


@pytest.mark.parametrize(
    "raises", ["SystemExit(2)", "ValueError('no engine')", "type('Odd', (BaseException,), {})('x')"]
)
def test_a_constructor_that_fails_however_is_unavailable(install: Install, raises: str) -> None:
    install("acme-odd", "odd = acme_odd:Good", f"{BARE}class Good(Bare):\n  def __init__(self, name): raise {raises}")
    with pytest.raises(Unavailable, match=r"'odd' cannot be made: (SystemExit: 2|ValueError: no engine|Odd: x)"):
        subagents.create("odd")


def test_a_constructor_may_refuse_its_configuration(install: Install) -> None:
    source = f"{BARE}class Good(Bare):\n  def __init__(self, name): raise subagents.ConfigError('not both')"
    install("acme-odd", "odd = acme_odd:Good", source)
    with pytest.raises(ConfigError, match=r"^not both$"):
        subagents.create("odd")


def test_ctrl_c_in_an_import_is_ctrl_c(install: Install) -> None:
    install("acme-odd", "odd = acme_odd:Good", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        subagents.create("odd")


def test_a_distribution_with_broken_metadata_hides_no_other(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    info = install("acme-unreadable", "unreadable = acme_unreadable:Good")
    (info / "entry_points.txt").write_bytes(b"[subagents.providers]\nx = \xff\xfe:Y\n")
    seen_twice = install("acme-fine", "fine = acme_fine:Good")
    monkeypatch.setattr("sys.path", [str(seen_twice.parent), *sys.path, f"{seen_twice.parent}/."])
    assert subagents.create("fine").name == "fine"
    assert "local" in subagents.installed()
    assert "unreadable" not in subagents.installed()


def test_two_names_of_one_class_are_no_duplicate(install: Install) -> None:
    install("acme-one", "good = acme_one:Good")
    install("acme-fork", "good = acme_one:Good")
    assert subagents.create("good").name == "good"


def test_a_distribution_without_a_name_is_told_without_one(install: Install) -> None:
    install("acme-one", "twice = acme_one:Good")
    (install("acme-two", "twice = acme_two:Good") / "METADATA").unlink()
    with pytest.raises(DuplicateProvider, match=r"acme-one \(acme_one:Good\) and .* \(acme_two:Good\)"):
        subagents.create("twice")


def test_the_options_of_a_class_are_a_frozen_model_that_refuses_what_it_does_not_know() -> None:
    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid", frozen=True)

    class Mine(subagents.Provider):
        name = "mine"
        options_type: ClassVar[type[BaseModel] | None] = Options

        async def drive(self, task: Task, link: Link) -> None: ...

    assert Mine.options_type is Options
