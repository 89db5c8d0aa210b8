"""To JSON and back, unchanged: the base of the values that travel (Task, Event, Result).

pydantic does the work and is imported when the first value travels, not when the package is imported.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self, cast

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_COMPACT: Final = (",", ":")


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """The pydantic adapter of a type, built once."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


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
