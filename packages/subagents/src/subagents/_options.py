"""What is wrong with the options that somebody gave to a provider, told without their values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, cast, get_args, get_origin

from subagent_process import redact, remember, removal_reason

if TYPE_CHECKING:
    from pydantic import BaseModel

VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")
"""What is surely the name of a variable, and can be told; any other one may be the key itself, in the wrong place."""

_MOST: Final = 200  # faults that are told, and unknown names that are held against the known ones
_SUSPECTED: Final = 8  # characters of what may be one
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

    texts = list(_secrets(model, given))
    remember(text for _, text, surely in texts if surely)  # whatever the provider says about it later
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
        mine = {text for option, text, surely in texts if surely or option == path[:1]}
        for secret in sorted(mine, key=len, reverse=True):  # a validator of somebody else's may repeat what it got
            says = says.replace(secret, "[redacted]")
        faults.append(Fault(path, redact(says)))
    return faults


def _secrets(model: type[BaseModel], given: Mapping[str, Any]) -> Iterator[tuple[tuple[str], str, bool]]:
    """The texts that may be secret: of which option, and whether it surely is, by its key or by its type.

    What stands beside a secret may be one: it is left out of what is said of this option, and may be told elsewhere.
    """
    for name, value in given.items():
        names = [name]
        if name not in model.model_fields and len(given) <= _MOST:
            names += get_close_matches(name, model.model_fields, n=1)
        kinds = [model.model_fields[one].annotation for one in names if one in model.model_fields]
        direct = any(map(_is_secret, kinds))
        inner = {field for kind in kinds for field in _secret_fields(kind)}
        if any(get_origin(kind) in (list, tuple) for kind in kinds) and not direct:
            names = []  # a list of texts is no key, whatever it is called: patterns of secret files
        for keys, text in _texts(value):
            named = any(_names_secret(key, text) for key in keys[-1:] or names)
            surely = direct or named or not inner.isdisjoint(keys)
            beside = inner or any(_names_secret(key, text) for key in (*names, *keys))
            if surely or (beside and len(text) >= _SUSPECTED):
                yield (name,), text, surely


def _names_secret(key: str, text: str) -> bool:
    # The name of a variable is told, so that somebody can set it.
    variable = key.endswith("_env") and VARIABLE.fullmatch(text)
    return not variable and removal_reason(key.upper(), text) == "credential"


def _is_secret(kind: Any) -> bool:
    from pydantic import SecretBytes, SecretStr

    return kind in (SecretStr, SecretBytes) or any(map(_is_secret, get_args(kind)))


def _secret_fields(kind: Any, above: tuple[Any, ...] = ()) -> Iterator[str]:
    """The names of the secret fields of the models in a type, at any depth."""
    from pydantic import BaseModel

    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in () if kind in above else kind.model_fields.items():
            if _is_secret(field.annotation):
                yield name
            yield from _secret_fields(field.annotation, (*above, kind))
    for one in get_args(kind):
        yield from _secret_fields(one, above)


def _texts(value: object, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every text and number that is long enough for a secret, with the keys above it."""
    if isinstance(value, Mapping):
        for key, one in cast("Mapping[object, object]", value).items():
            yield from _texts(one, (*keys, str(key)))
    elif isinstance(value, list | tuple):
        for one in cast("list[object]", value):
            yield from _texts(one, keys)
    elif isinstance(value, str | int | float) and len(text := str(value)) >= _SHORTEST:
        yield keys, text
