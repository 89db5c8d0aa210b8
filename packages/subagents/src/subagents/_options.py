"""What is wrong with the options that somebody gave to a provider, told without their values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from subagent_process import redact, remember, removal_reason

if TYPE_CHECKING:
    from pydantic import BaseModel

_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")  # not every name: a key in its place may look like one
_MOST: Final = 200  # faults that are told, and unknown names that are held against the known ones
_SHORTEST: Final = 4  # characters of a secret: a shorter one stands in ordinary words


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        path: of the option, as `("roots", 0)`; empty where it is about all of them.
        says: what is wrong, for a person.
    """

    path: tuple[str | int, ...]
    says: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (".".join(map(str, self.path)), self.says)))


def option_faults(model: type[BaseModel], given: Mapping[str, Any]) -> list[Fault]:
    """What is wrong, the first 200 of it; nothing when the model takes them.

    The input is left out: an option may be a key.
    """
    from pydantic import ValidationError

    secrets = sorted(_secrets(model, given), key=len, reverse=True)
    remember(secrets)  # whatever the provider says about it later
    try:
        model.model_validate(given)
    except ValidationError as exc:
        found = exc.errors(include_input=False, include_url=False, include_context=False)[:_MOST]
    else:
        return []
    faults: list[Fault] = []
    for error in found:
        says = error["msg"][:1].lower() + error["msg"][1:]
        path = error["loc"]
        if error["type"] == "extra_forbidden" and len(path) == 1:
            near = get_close_matches(str(path[0]), model.model_fields, n=1)
            says = f"there is no such option{f'; did you mean {near[0]}?' if near else ''}"
        for secret in secrets:  # a validator of somebody else's may repeat what it got
            says = says.replace(secret, "[redacted]")
        faults.append(Fault(path, redact(says)))
    return faults


def _secrets(model: type[BaseModel], given: Mapping[str, Any]) -> set[str]:
    """The texts that are secret: by the name of a key above them, or the type of the option, also a mistyped one."""
    found: set[str] = set()
    for name, value in given.items():
        meant = [name]
        if name not in model.model_fields and len(given) <= _MOST:
            meant += get_close_matches(name, model.model_fields, n=1)
        typed = any(_holds_secrets(model, one) for one in meant)
        for path, text in _texts(value, tuple(meant)):
            named = any(_names_secret(one, text) for one in path)
            if len(text) >= _SHORTEST and (typed or named):
                found.add(text)
    return found


def _names_secret(key: str, text: str) -> bool:
    # The name of a variable is told, so that somebody can set it.
    variable = key.endswith("_env") and _VARIABLE.fullmatch(text)
    return not variable and removal_reason(key.upper(), text) == "credential"


def _holds_secrets(model: type[BaseModel], name: str) -> bool:
    """Whether the type of an option has secrets in it, at any depth."""
    from pydantic import BaseModel, SecretBytes, SecretStr

    field = model.model_fields.get(name)
    pending: list[Any] = [] if field is None else [field.annotation]
    seen: list[Any] = []
    while pending:
        one = pending.pop()
        if one is SecretStr or one is SecretBytes:
            return True
        pending += get_args(one)
        if isinstance(one, type) and issubclass(one, BaseModel) and one not in seen:
            seen.append(one)
            pending += [inner.annotation for inner in one.model_fields.values()]
    return False


def _texts(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every text and number, with the keys above it."""
    if isinstance(value, Mapping):
        for key, one in cast("Mapping[object, object]", value).items():
            yield from _texts(one, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for one in cast("list[object]", value):
            yield from _texts(one, path)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield path, str(value)
