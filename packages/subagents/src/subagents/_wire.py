"""To JSON and back, unchanged: the base of the values that travel (Task, Event, Result).

pydantic does the work and is imported when the first value travels, not when the package is imported.
"""

from __future__ import annotations

import json
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import TypeAdapter

W = TypeVar("W")

_COMPACT: Final = (",", ":")


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """The pydantic adapter of a type, built once."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def sound(kind: type[W], value: object) -> W:
    """The value, when it is one of the kind and each of its fields has its type: for what a third party's code made.

    Raises:
        TypeError: it is not; the text does not hold it.
    """
    from pydantic import ValidationError

    if not isinstance(value, kind):
        raise TypeError(f"a {kind.__name__} was expected, and not a value of type {type(value).__name__}")
    given = {field.name: getattr(value, field.name) for field in fields(cast("Any", kind))}
    try:
        return cast("W", adapter(kind).validate_python(given))
    except ValidationError as exc:
        error = exc.errors(include_input=False, include_url=False, include_context=False)[0]
        where, says = ".".join(map(str, error["loc"])), error["msg"]
        raise TypeError(f"{kind.__name__}.{where}: {says[:1].lower()}{says[1:]}") from None


class Wire:
    """A value with a JSON form: an object whose keys are the field names."""

    __slots__ = ()

    def to_dict(self) -> dict[str, object]:
        """The JSON object of this value as a dict of plain values."""
        return cast("dict[str, object]", adapter(type(self)).dump_python(self, mode="json"))

    def to_json(self) -> str:
        """This value as one line of JSON, ASCII only: a line separator in a text cannot end the line.

        Half of a surrogate pair, which no UTF-8 holds, is written as U+FFFD.
        """
        value = self.to_dict()
        text = json.dumps(value, ensure_ascii=True, separators=_COMPACT)
        if "\\ud" in text:
            whole = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            text = json.dumps(json.loads(whole), ensure_ascii=True, separators=_COMPACT)
        return text

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The value that `to_json` wrote.

        Raises:
            pydantic.ValidationError: the text is no JSON object of this type.
        """
        return cast("Self", adapter(cls).validate_json(text))
