"""Named providers from a file: what is wrong points at file, line and key, and shows no value."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from subagent_process import redact
from subagents import Config, ConfigError, Provider, SubagentError, Unavailable, UnknownProvider, create

Install = Callable[..., Path]


NESTED = """
from typing import Any
from pydantic import BaseModel, ConfigDict, SecretStr, field_validator
import subagents
class Inner(BaseModel):
    model_config = ConfigDict(extra="allow")
    token: SecretStr | None = None
    opener: SecretStr | None = None
    @field_validator("*", mode="before")
    def tell(cls, value): raise ValueError(f"cannot use {value}")
class Options(BaseModel):
    inner: Inner | None = None
    speed: int = 1
    pin: SecretStr | None = None
    @field_validator("inner", "pin", mode="before")
    def talk(cls, value): raise ValueError(f"cannot use {value}")
class Talker(subagents.Provider):
    options_type = Options
    def __init__(self, name, **options): self.name = name
    async def drive(self, task, link): ...
"""
"""Options whose validators repeat what they got."""


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str | bytes], Path]:
    """A configuration file."""

    def put(text: str | bytes) -> Path:
        path = tmp_path / "agents.toml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return put


Write = Callable[[str | bytes], Path]


@pytest.fixture
def good(install: Install) -> None:
    install("acme-good", "good = acme_good:Good\nbare = acme_good:Bare")


def options(provider: Provider) -> dict[str, object]:
    return dict(vars(provider)["options"])


@pytest.mark.usefixtures("good")
def test_a_file_names_providers(write: Write) -> None:
    config = Config(write('[providers.fast]\ntype = "good"\nretries = 7\n[providers.good]\nretries = 2\n'))
    fast = config.provider("fast", key="k")
    assert (fast.name, options(fast)["retries"], options(fast)["key"]) == ("fast", 7, "k")
    assert options(config.provider("good"))["retries"] == 2
    assert options(config.provider("good", retries="5"))["retries"] == 5
    assert config.kind("fast") == "good"


@pytest.mark.usefixtures("good")
def test_a_name_that_the_file_does_not_have_is_that_of_an_installed_provider(write: Write) -> None:
    assert Config(write("")).provider("good").name == "good"


@pytest.mark.usefixtures("good")
@pytest.mark.parametrize("front", [b"\xef\xbb\xbf", b""])
def test_a_file_of_another_system_is_read(write: Write, front: bytes) -> None:
    config = Config(write(front + b'[providers.a]\r\ntype = "good"\r\nretries = 3\r\n'))
    assert options(config.provider("a"))["retries"] == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[providers]\na = \n", "2: no TOML: Invalid value"),
        ('a = "x', "1: no TOML: "),
        ("[providers.a]\nb = 1\nb = 2\n", "3: no TOML: Cannot overwrite a value"),
        (b"\n\n# \xff\n", "3: not UTF-8 text: invalid start byte"),
        ("\n[servers.a]\n", r"2: servers: only \[providers\.NAME\] tables belong here"),
        ("providers = 3\n", r"1: providers: only"),
        ("[providers]\na = {}\n'b c' = 3\n", r'3: providers\."b c": a provider is a table of options, not int'),
        (f"a = {'9' * 5000}\n", "no TOML that can be read: "),
        (f"a = {'[' * 5000}\n", "no TOML"),
        ("# " + "x" * 1024 * 1024, "longer than 1,048,576 bytes"),
    ],
)
def test_a_file_that_is_none_is_refused_with_its_line(write: Write, text: str | bytes, says: str) -> None:
    with pytest.raises(ConfigError, match=rf"agents\.toml:? ?{says}"):
        Config(write(text))


@pytest.mark.parametrize("path", ["none.toml", ".", "a\0b"])
def test_what_cannot_be_read_is_refused_by_its_name(tmp_path: Path, path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config(tmp_path / path)
    assert str(tmp_path) in str(caught.value)


WRONG = """
[providers]
[providers.a]
type = "good"
retires = 3
retries = "many"
roots = [
  1,
  "x",
]
providers.x = 1

[providers.b]
type = 5

[providers.c]
type = "goood"

["providers"."D e"]
type = "good"

[providers.f]
type = "bare"
speed = 1
"""


@pytest.mark.usefixtures("good")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "a",
            [
                ":5: providers.a.retires: there is no such option; did you mean retries?",
                ":6: providers.a.retries: input should be a valid integer, unable to parse string as an integer",
                ":9: providers.a.roots[1]: input should be a valid integer, unable to parse string as an integer",
                ":11: providers.a.providers: there is no such option",
                "(options of good: retries, key, pin, roots)",
            ],
        ),
        ("b", [":14: providers.b.type: is the name of a provider, not int"]),
        ("c", [":17: providers.c.type: no provider named 'goood' is installed (installed: "]),
        ("D e", [":19: providers.\"D e\": a provider's name is kebab-case (codex, codex-rw), not 'D e'"]),
        ("f", [":22: providers.f: bare has no options, and speed was given"]),
    ],
)
def test_what_is_wrong_points_at_file_line_and_key(write: Write, name: str, says: list[str]) -> None:
    path = write(WRONG)
    with pytest.raises(SubagentError) as caught:
        Config(path).provider(name)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(says)
    for line, wanted in zip(lines, says, strict=True):
        assert line.startswith(f"{path}{wanted}" if wanted.startswith(":") else wanted)


def test_the_kind_of_the_error_stays(install: Install, write: Write) -> None:
    install("acme-broken", "broken = acme_broken:Good", "raise ImportError('libengine.so is missing')")
    config = Config(write('[providers.a]\ntype = "broken"\n[providers.b]\ntype = "nope"\n'))
    with pytest.raises(Unavailable, match=r"agents\.toml:2: providers\.a\.type: .*libengine"):
        config.provider("a")
    with pytest.raises(UnknownProvider, match=r"agents\.toml:4: providers\.b\.type: no provider named 'nope'"):
        config.provider("b")


def test_an_option_that_is_required_is_named_at_its_table(install: Install, write: Write) -> None:
    source = """
from pydantic import BaseModel, model_validator
import subagents
class Options(BaseModel):
    url: str
    @model_validator(mode="after")
    def both(self):
        if self.url == "x":
            raise ValueError("not both")
        return self
class Needy(subagents.Provider):
    options_type = Options
    def __init__(self, name, **options): self.name = name
    async def drive(self, task, link): ...
"""
    install("acme-needy", "needy = acme_needy:Needy", source)
    config = Config(write('\n[providers.needy]\n[providers.a]\ntype="needy"\nurl = "x"'))
    with pytest.raises(ConfigError, match=r"agents\.toml:2: providers\.needy\.url: field required"):
        config.provider("needy")
    with pytest.raises(ConfigError, match=r"agents\.toml:3: providers\.a: value error, not both"):
        config.provider("a")


@pytest.mark.usefixtures("good")
def test_what_was_given_beside_the_file_is_not_told_as_of_the_file(write: Write) -> None:
    with pytest.raises(ConfigError, match=r"^retries: input should be a valid integer.*\n\(options of good"):
        Config(write("[providers.good]\nretries = 1\n")).provider("good", retries="x")


LEAKY = """
from typing import Annotated
from pydantic import AfterValidator, BaseModel, SecretStr
import subagents
def talk(value):
    raise ValueError(f"cannot use {value!r}")
def tell(value):
    raise ValueError(f"cannot use {value.get_secret_value()!r}")
class Options(BaseModel):
    api_key: Annotated[str, AfterValidator(talk)] = ""
    seat: Annotated[SecretStr, AfterValidator(tell)] | None = None
    headers: dict[str, Annotated[str, AfterValidator(talk)]] = {}
class Leaky(subagents.Provider):
    options_type = Options
    def __init__(self, name, **options): raise ValueError(f"cannot be made with {options}")
    async def drive(self, task, link): ...
class Careless(subagents.Provider):
    class options_type(BaseModel):
        token: str = ""
    def __init__(self, name, **options): raise ValueError(f"cannot be made with {options}")
    async def drive(self, task, link): ...
"""


@pytest.mark.parametrize(
    "text",
    [
        '[providers.a]\ntype = "leaky"\napi_key = "SECRET"',
        '[providers.a]\ntype = "leaky"\nseat = "SECRET"',
        '[providers.a]\ntype = "leaky"\nheaders = {Authorization = "SECRET"}',
        '[providers.a]\ntype = "leaky"\napi_keyy = "SECRET"',
        '[providers.a]\ntype = "leaky"\napi_key = ["SECRET"]',
        '[providers.a]\ntype = "careless"\ntoken = "SECRET"',
        '[providers.a]\ntype = ["SECRET"]',
        '[providers]\na = "SECRET"',
        'api_key = "SECRET"',
        '[providers.a]\napi_key = "SECRET',
        '[providers.a]\napi_key = "SECRET"\napi_key = "SECRET"',
        "[providers.a]\napi_key = SECRET",
        '[providers.a]\ntype = "sk-ant-api03-' + "a1B2" * 12 + '"',
    ],
)
def test_no_error_shows_a_secret_of_the_file(install: Install, write: Write, text: str) -> None:
    install("acme-leaky", "leaky = acme_leaky:Leaky\ncareless = acme_leaky:Careless", LEAKY)
    secret = f"canary-{uuid4().hex}"  # a new one each time: what was seen once is known from then on
    with pytest.raises(SubagentError) as caught:
        Config(write(text.replace("SECRET", secret))).provider("a")
    assert "canary" not in str(caught.value)
    assert "a1B2a1B2" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "given",
    [
        'inner = {token = "hunter2secret"}',
        'inner = {password = "hunter2secret", n = "x"}',
        "pin = [123456789]",
        '[providers.talker.inner]\ntoken = "hunter2secret"',
        '[providers.talker.inner.more]\napi_key = ["hunter2secret"]',
    ],
)
def test_a_secret_at_any_depth_is_not_shown(install: Install, write: Write, given: str) -> None:
    install("acme-talker", "talker = acme_talker:Talker", NESTED)
    with pytest.raises(ConfigError) as caught:
        Config(write(f"[providers.talker]\n{given}\n")).provider("talker")
    assert "hunter2secret" not in str(caught.value)
    assert "123456789" not in str(caught.value)
    assert "hunter2secret" not in redact("it said hunter2secret") or "pin" in given


def test_what_stands_beside_a_secret_is_no_secret_elsewhere(install: Install, write: Write) -> None:
    install("acme-talker", "talker = acme_talker:Talker", NESTED)
    text = '[providers.talker.inner]\ntoken = "hunter3secret"\nurl = "http://127.0.0.1:8000/x"\n'
    with pytest.raises(ConfigError):
        Config(write(text)).provider("talker")
    assert redact("hunter3secret of http://127.0.0.1:8000/x") == "[redacted] of http://127.0.0.1:8000/x"


def test_a_secret_of_a_nested_model_is_remembered(install: Install, write: Write) -> None:
    install("acme-talker", "talker = acme_talker:Talker", NESTED)
    with pytest.raises(ConfigError):
        Config(write('[providers.talker.inner]\nopener = "9999sesame"\n')).provider("talker")
    assert redact("9999sesame") == "[redacted]"


def test_an_error_elsewhere_is_not_searched_for_what_may_be_secret(install: Install, write: Write) -> None:
    install("acme-talker", "talker = acme_talker:Talker", NESTED)
    text = '[providers.talker]\nspeed = "input should"\n[providers.talker.inner]\nurl = "valid integer"\n'
    with pytest.raises(ConfigError, match="speed: input should be a valid integer"):
        Config(write(text)).provider("talker")


def test_a_list_of_texts_is_no_key_whatever_it_is_called() -> None:
    assert create("local", options={"secret": ["a-pattern.toml"]}).name == "local"
    assert redact("a-pattern.toml") == "a-pattern.toml"


def test_many_faults_are_told_in_bounds(good: None, write: Write) -> None:
    many = "\n".join(f"unknown_{number} = 1" for number in range(5000))
    with pytest.raises(ConfigError) as caught:
        Config(write(f"[providers.good]\n{many}\n")).provider("good")
    lines = str(caught.value).splitlines()
    assert len(lines) == 22
    assert lines[0].endswith("agents.toml:2: providers.good.unknown_0: there is no such option")
    assert lines[20] == "and more"


def test_a_table_of_no_type_is_told_how_to_say_it(write: Write) -> None:
    with pytest.raises(UnknownProvider, match=r"providers\.mine: .*; say of which type mine is: type = …"):
        Config(write("[providers.mine]\n")).provider("mine")


def test_a_short_secret_is_not_shown_either(install: Install, write: Write) -> None:
    install("acme-leaky", "leaky = acme_leaky:Leaky", LEAKY)
    with pytest.raises(ConfigError, match=r"providers\.a\.seat: value error, cannot use '\[redacted\]'"):
        Config(write('[providers.a]\ntype = "leaky"\nseat = "q7Zx"')).provider("a")


# -- the person's own file -------------------------------------------------------------------------------------------


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of their own, and a project in it."""
    for name in ("SUBAGENTS_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    home, project = tmp_path / "home", tmp_path / "home" / "project"
    project.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)
    return home


def put(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.toml"
    path.write_text(f'[providers.{name}]\ntype = "good"\n')
    return path


def found() -> list[str] | None:
    config = Config.find()
    return None if config is None else list(config.providers)


def test_the_file_of_the_person_is_found_in_the_order_of_the_documentation(
    person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found() is None
    put(person / ".config/subagents", "home")
    assert found() == ["home"]
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert found() == ["home"]
    put(person / "xdg/subagents", "xdg")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(person / "xdg"))
    assert found() == ["xdg"]
    named = put(person / "named", "named")
    monkeypatch.setenv("SUBAGENTS_CONFIG", "~/named/config.toml")
    assert found() == ["named"]
    monkeypatch.setenv("SUBAGENTS_CONFIG", os.devnull)
    assert found() == []
    named.unlink()
    monkeypatch.setenv("SUBAGENTS_CONFIG", str(named))
    with pytest.raises(ConfigError, match=r"config\.toml: No such file"):
        Config.find()
    monkeypatch.setenv("SUBAGENTS_CONFIG", "~nobody-of-that-name/x")
    with pytest.raises(ConfigError, match="SUBAGENTS_CONFIG: "):
        Config.find()


def test_a_file_of_the_project_is_not_read(person: Path) -> None:
    for name in ("config.toml", "subagents.toml", ".subagents.toml", "subagents/config.toml", ".subagents/config.toml"):
        path = person / "project" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("[providers.evil]\n")
    assert found() is None


def test_who_has_no_home_has_no_file(person: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", nobody)
    assert found() is None


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="needs another user")
def test_a_home_of_somebody_else_is_no_error(person: Path) -> None:
    put(person / ".config/subagents", "home")
    person.chmod(0o700)
    assert found() == ["home"]
    os.seteuid(65534)
    try:
        assert found() is None
    finally:
        os.seteuid(0)
