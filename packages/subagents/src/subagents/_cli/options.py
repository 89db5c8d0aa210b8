"""From what was typed to a Task and a provider.  Everything wrong is a `UsageProblem` or an error of the seam."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from subagents import Config, Provider, UnknownProvider, create
from subagents._cli.ending import UsageProblem


def read_prompt(words: str | None, file: str | None) -> str:
    """The task: the argument, a file, or standard input (`-`, or neither of the two where it is no terminal)."""
    if words is not None and file is not None:
        raise UsageProblem("the task was given twice: as an argument and with --file")
    source = file if file is not None else "-" if words in (None, "-") else None
    if source is None:
        return cast("str", words)
    if source != "-":
        return _read(source, "the task")
    if words is None and file is None and sys.stdin.isatty():
        raise UsageProblem(
            'what is to be done? Add the task: subagents run PROVIDER "…", or --file FILE, or - for standard input'
        )
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as exc:
        raise UsageProblem(f"the task on standard input is not UTF-8 text: {exc.reason} at byte {exc.start}") from None


def read_schema(given: str | None) -> Mapping[str, Any] | None:
    """The JSON Schema of `--schema`: the JSON itself where it starts with `{`, else a file that holds it."""
    if given is None:
        return None
    inline = given.lstrip().startswith("{")
    text = given if inline else _read(given, "the schema")
    try:
        schema: object = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise UsageProblem(f"--schema {'' if inline else given + ' '}is no JSON: {exc}") from None
    if not isinstance(schema, dict):
        raise UsageProblem(f"--schema is a JSON object, not {type(schema).__name__}")
    return cast("dict[str, Any]", schema)


def read_options(pairs: Sequence[str]) -> dict[str, Any]:
    """The options of `-o KEY=VALUE`; a value that starts with `{` or `[` is JSON, the rest is text for pydantic."""
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            # The pair is not repeated: what follows may be a key.
            raise UsageProblem("-o takes KEY=VALUE, as in: -o temperature=0.2")
        options[key] = value
        if value.lstrip().startswith(("{", "[")):
            try:
                options[key] = json.loads(value)
            except (ValueError, RecursionError) as exc:
                raise UsageProblem(f"-o {key}: starts like JSON and is none: {exc}") from None
    return options


def read_config(file: str | None) -> Config | None:
    """The configuration that `--config` names, else the person's own; None where there is none.

    Raises:
        ConfigError: it cannot be read, or is none.
    """
    return Config(file) if file is not None else Config.find()


def find_provider(name: str, config: Config | None, options: Mapping[str, Any]) -> Provider:
    """The provider of that name, from the configuration where it has one.

    Raises:
        RegistryError, ConfigError: as `subagents.create`; a name that is nearly right is suggested.
    """
    try:
        return create(name, options=options) if config is None else config.provider(name, **options)
    except UnknownProvider as exc:
        if config is not None and name in config.providers:
            raise  # it is the type that nobody offers
        near = get_close_matches(name, config.providers, n=1) if config else []
        if near:
            raise UnknownProvider(f"{exc}; did you mean {near[0]}?") from None
        more = "" if "did you mean" in str(exc) else "; `subagents providers` shows what there is"
        raise UnknownProvider(f"{exc}{more}") from None


def _read(path: str, what: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as exc:
        raise UsageProblem(f"{what} cannot be read: {path}: {exc.strerror}") from None
    except UnicodeDecodeError as exc:
        raise UsageProblem(f"{what} is not UTF-8 text: {path}: {exc.reason} at byte {exc.start}") from None
