"""What is wrong with the options that somebody gave to a provider, told without their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from subagent_process import redact, remember, removal_reason

if TYPE_CHECKING:
    from pydantic import BaseModel

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
    """What is wrong; nothing when the model takes them.  The input is left out: an option may be a key."""
    from pydantic import ValidationError

    secrets = sorted(_secrets(model, given), key=len, reverse=True)
    remember(secrets)  # whatever the provider says about it later
    try:
        model.model_validate(given)
    except ValidationError as exc:
        found = exc.errors(include_input=False, include_url=False, include_context=False)
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
    """The texts that are secret: by the name of the option, or by its type; also where the name is mistyped."""
    found: set[str] = set()
    for name, value in given.items():
        meant = [name] if name in model.model_fields else [name, *get_close_matches(name, model.model_fields, n=1)]
        for text in _texts(value):
            named = any(removal_reason(one.upper(), text) == "credential" for one in meant)
            if len(text) >= _SHORTEST and (named or any(_is_secret(model, one) for one in meant)):
                found.add(text)
    return found


def _is_secret(model: type[BaseModel], name: str) -> bool:
    from pydantic import SecretBytes, SecretStr

    field = model.model_fields.get(name)
    pending: list[Any] = [] if field is None else [field.annotation]
    while pending:
        one = pending.pop()
        if one is SecretStr or one is SecretBytes:
            return True
        pending += get_args(one)
    return False


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in cast("Mapping[object, object]", value).values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in cast("list[object]", value):
            yield from _texts(one)
