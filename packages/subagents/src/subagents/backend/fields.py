"""Types and checks of the options that every engine has: a home, a key, an address, times.

Needs pydantic, as everything that describes options does.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from subagent_process import child_env, remember
from subagents import Failure, StartError
from subagents._options import VARIABLE

HomeKind: TypeAlias = Literal["isolated", "inherit"]

_HOMES: Final = ("isolated", "inherit")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY: Final = re.compile(r"[\x21-\x7e]+")
_APART: Final = re.compile(r"[?#]|(?<!/)@")  # also in the path: a password may hold a slash
_NO_KEYS: Final = frozenset({"lm-studio", "ollama", "not-needed", "no-key-required", "sk-no-key-required"})
"""What documentation tells people to give where no key is needed."""

_PRINTABLE: Final = re.compile(r"[^\x00-\x20\x7f]+")


def _absolute(value: object) -> object:
    """A path as an absolute one: the child has another working folder."""
    if not isinstance(value, str | Path):
        return value
    if not str(value).strip() or "\0" in str(value):
        raise ValueError("a path is not empty and holds no null character")
    try:
        return Path(value).expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def _home(value: object) -> object:
    """One of the words, or what is surely a path: a word that is mistyped would be a folder that is made."""
    if isinstance(value, str) and value in _HOMES:
        return value
    if isinstance(value, str) and value.strip() and not (value.startswith(("~", ".")) or "/" in value):
        raise ValueError(f"isolated, inherit, or a path (./{value[:80]})")
    return _absolute(value)


def check_key(value: str) -> None:
    """Refuse what cannot be sent as a key.

    Raises:
        ValueError: it cannot; the text does not hold it.
    """
    if not _KEY.fullmatch(value):
        raise ValueError("an API key is printable ASCII without blanks")


def _key(value: SecretStr) -> SecretStr:
    check_key(value.get_secret_value())
    return value


def _variable(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("api_key_env is the name of a variable, not a key")
    return value


def plain_url(value: str, *, option: str = "base_url", word: str = "") -> str:
    """The address as it is compared later: no blanks around it, scheme and host in lower case, no slash at its end.

    Raises:
        ValueError: it is none, or may hold what is secret; the text does not quote it.
    """
    value = value.strip()
    try:
        parts = urlsplit(value)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # its text may quote a piece of a password
        whole, parts = False, urlsplit("")
    if not whole or not _PRINTABLE.fullmatch(value):
        raise ValueError(f"{option} is {word}http://… or https://… with a host")
    if _APART.search(value):
        raise ValueError(f"{option} holds no user, password, query or fragment: give the key as api_key")
    return parts._replace(netloc=parts.netloc.lower()).geturl().rstrip("/")


Folder: TypeAlias = Annotated[Path, BeforeValidator(_absolute)]
"""A path, absolute and with `~` expanded."""

Home: TypeAlias = Annotated[HomeKind | Path, BeforeValidator(_home)]
"""`isolated`, `inherit`, or a path."""

ApiKey: TypeAlias = Annotated[SecretStr, AfterValidator(_key)]
KeyVariable: TypeAlias = Annotated[str, AfterValidator(_variable)]
"""The name of a variable that holds a key."""

BaseUrl: TypeAlias = Annotated[str, AfterValidator(plain_url)]
"""http or https, without anything secret, without a slash at its end."""

Seconds: TypeAlias = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Limit: TypeAlias = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
"""Seconds of which there must be some."""


def read_key(key: SecretStr | None, variable: str | None) -> str | None:
    """The key that `api_key` or `api_key_env` gives; None where neither is set.

    From now on it is redacted: a server may repeat it, and not every key has a shape that is known.

    Raises:
        StartError: of kind `auth`: the variable is not set, or holds no key.
    """
    found = _key_of(variable) if key is None else key.get_secret_value()
    if found is not None and found not in _NO_KEYS:
        remember([found])
    return found


def _key_of(variable: str | None) -> str | None:
    if variable is None:
        return None
    found = child_env(passing=(variable,)).get(variable)
    told = f"{variable}, which api_key_env names," if VARIABLE.fullmatch(variable) else "that api_key_env names"
    if not found:
        raise StartError(Failure("auth", "start", f"the variable {told} is not set"))
    try:
        check_key(found)
    except ValueError as error:
        raise StartError(Failure("auth", "start", f"the variable {told} holds no API key: {error}")) from None
    return found
