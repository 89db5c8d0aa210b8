"""JSON Schema: is it one, and does a value satisfy it.

Imported only when a task has a schema: jsonschema is slow to load.  Nothing is ever fetched: its own registry would ask
the network for a reference that the schema does not answer, so that ours is always given.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from jsonschema import SchemaError
from jsonschema.exceptions import best_match  # pyright: ignore[reportUnknownVariableType]
from jsonschema.validators import validator_for
from jsonschema_specifications import REGISTRY  # pyright: ignore[reportMissingTypeStubs]
from referencing import Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from subagents._result import JsonSchema
from subagents.errors import TaskError

_REFERENCES: Final = ("$ref", "$dynamicRef")
_LATEST: Final = "https://json-schema.org/draft/2020-12/schema"


def checked_schema(schema: JsonSchema) -> dict[str, Any]:
    """The schema as plain JSON.

    Raises:
        TaskError: it is no schema, cannot be written as JSON, is not an object of keywords, or has a reference that
            nothing in it (and no published JSON Schema) answers.
    """
    try:
        plain: object = json.loads(json.dumps(schema, allow_nan=False, default=_plain))
    except (TypeError, ValueError, RecursionError) as exc:
        raise TaskError(f"output_schema cannot be written as JSON: {exc}") from None
    if not isinstance(plain, dict):
        raise TaskError("output_schema is a JSON object of keywords")
    found = cast("dict[str, Any]", plain)
    dialect: object = found.get("$schema", _LATEST)
    if not isinstance(dialect, str) or dialect.rstrip("#") not in REGISTRY:
        raise TaskError(f"output_schema is of the unknown dialect {dialect!r} ($schema)")
    try:
        validator_for(found).check_schema(found)
        root: Resource[Any] = cast("Any", Resource).from_contents(found, default_specification=DRAFT202012)
        uri = root.id() or ""
        _check_references(root, REGISTRY.with_resource(uri, root).resolver(uri))
    except SchemaError as exc:
        raise TaskError(f"output_schema is no JSON Schema: {exc.message} at {exc.json_path}") from None
    except RecursionError:
        raise TaskError("output_schema is nested too deep to be checked") from None
    return found


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _check_references(resource: Resource[Any], resolver: Any) -> None:
    contents: Any = resource.contents
    for keyword in _REFERENCES if hasattr(contents, "get") else ():  # True and False are schemas too
        reference: object = contents.get(keyword)
        if isinstance(reference, str):
            try:
                resolver.lookup(reference)
            except Unresolvable:
                raise TaskError(
                    f"output_schema: {keyword} {reference} cannot be resolved, and nothing is fetched"
                ) from None
    for inner in resource.subresources():
        _check_references(inner, resolver.in_subresource(inner))


def violation(value: Any, schema: JsonSchema) -> str | None:
    """What is wrong with the value, in one sentence; None when it satisfies the schema."""
    try:
        validator = cast("Any", validator_for(schema))(schema, registry=REGISTRY)
        error: Any = cast("Any", best_match)(validator.iter_errors(value))
    except Exception as exc:  # noqa: BLE001  # a reference into the middle of nowhere can lead to anything
        return f"the schema could not be applied: {type(exc).__name__}: {exc}"
    return None if error is None else f"{error.message} at {error.json_path}"
