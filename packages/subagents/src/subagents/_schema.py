"""JSON Schema: is it one, and does a value satisfy it.

Imported only when a task has a schema: jsonschema is slow to load.  Nothing is ever fetched.
"""

from __future__ import annotations

import json
from typing import Any, cast

from jsonschema import SchemaError
from jsonschema.exceptions import best_match  # pyright: ignore[reportUnknownVariableType]
from jsonschema.validators import validator_for
from jsonschema_specifications import REGISTRY  # pyright: ignore[reportMissingTypeStubs]
from referencing import Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from subagents._result import JsonSchema
from subagents.errors import TaskError


def check_schema(schema: JsonSchema) -> None:
    """Refuse what is no schema, or refers to what is not in it.

    Raises:
        TaskError: it is none, cannot be written as JSON, is not an object of keywords, or has a reference that nothing
            in it (and no published JSON Schema) answers.
    """
    try:
        plain: object = json.loads(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as exc:
        raise TaskError(f"output_schema cannot be written as JSON: {exc}") from None
    if not isinstance(plain, dict):
        raise TaskError("output_schema is a JSON object of keywords")
    try:
        validator_for(schema).check_schema(dict(schema))
    except SchemaError as exc:
        raise TaskError(f"output_schema is no JSON Schema: {exc.message} at {exc.json_path}") from None
    root: Resource[Any] = cast("Any", Resource).from_contents(plain, default_specification=DRAFT202012)
    uri = root.id() or ""
    _check_references(root, REGISTRY.with_resource(uri, root).resolver(uri))


def _check_references(resource: Resource[Any], resolver: Any) -> None:
    contents: Any = resource.contents
    reference: object = contents.get("$ref") if hasattr(contents, "get") else None  # True and False are schemas too
    if isinstance(reference, str):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            raise TaskError(f"output_schema: $ref {reference} cannot be resolved, and nothing is fetched") from None
    for inner in resource.subresources():
        _check_references(inner, resolver.in_subresource(inner))


def violation(value: Any, schema: JsonSchema) -> str | None:
    """What is wrong with the value, in one sentence; None when it satisfies the schema."""
    try:
        error: Any = cast("Any", best_match)(cast("Any", validator_for(schema))(schema).iter_errors(value))
    except (Unresolvable, RecursionError) as exc:
        return f"the schema could not be applied: {exc}"
    return None if error is None else f"{error.message} at {error.json_path}"
