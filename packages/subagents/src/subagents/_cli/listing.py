"""`subagents providers` and `subagents models`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import typer
from rich.filesize import decimal
from typer.core import TyperGroup

from subagents import Config, Provider, SubagentError
from subagents._cli.ending import CommandFailed, UsageProblem, ending
from subagents._cli.looking import keeping, look_at, named
from subagents._cli.loop import interruptible, run_loop
from subagents._cli.options import find_provider, read_config, read_options
from subagents._cli.screen import Screen
from subagents._cli.streams import aside, say_error, stderr_console
from subagents._cli.tables import as_text, table, write
from subagents._doctor import Finding
from subagents._registry import KNOWN, provider_type

Json = Annotated[bool, typer.Option("--json", help="A JSON array instead of a table.")]
Options = Annotated[
    list[str] | None, typer.Option("--option", "-o", metavar="KEY=VALUE", help="A provider's option. Repeatable.")
]
ConfigFile = Annotated[str | None, typer.Option(metavar="FILE", help="TOML file of providers, in place of your own.")]


def providers(
    provider: Annotated[str | None, typer.Argument(help="Show the options of this one.")] = None,
    as_json: Json = False,
    config: ConfigFile = None,
) -> None:
    """Show the providers, installed and configured, and what is wrong with one; or the options of one."""
    with ending() as end:
        found = read_config(config)
        if provider is None:
            end.code = run_loop(partial(_providers, found, as_json), end_now=True)
        else:
            end.code = run_loop(partial(_options, found, provider, as_json), end_now=True)
    raise typer.Exit(end.code)


async def _providers(config: Config | None, as_json: bool) -> int:
    instances = named(config)
    if not instances and not as_json:
        raise CommandFailed(f"no provider is installed; get one with: {' or '.join(KNOWN.values())}")

    def make(name: str) -> Provider | None:
        if config is not None and name in config.providers:
            return config.provider(name)
        provider_type(name)  # not made: one that is configured nowhere may need options
        return None

    findings = await look_at("providers", [one.name for one in instances], make, ())
    rows: list[dict[str, Any]] = [
        {
            "name": one.name,
            "type": one.kind,
            "distribution": one.distribution,
            "version": one.version,
            "file": one.file,
            "problem": finding.problem or None,
        }
        for one, finding in zip(instances, findings, strict=True)
    ]
    heads = ("provider", "type", "distribution", "version", "configured in", "")
    return await write(as_text(rows) if as_json else table(heads, (tuple(row.values()) for row in rows)))


async def _options(config: Config | None, name: str, as_json: bool) -> int:
    kind = config.kind(name) if config is not None and name in config.providers else name
    wrong: list[SubagentError] = []

    def make(name: str) -> None:
        with keeping(wrong):
            provider_type(name)

    (finding,) = await look_at("providers", [kind], make, ())
    if finding.problem:
        raise wrong[0] if wrong else CommandFailed(f"{name}: {finding.problem}")
    rows = _option_rows(kind)
    if not rows and not as_json:
        raise CommandFailed(f"{name} has no options")
    heads = ("option", "values", "default", "")
    text = as_text(rows) if as_json else table(heads, (tuple(map(_cell, row.values())) for row in rows))
    return await write(text)


def _cell(value: object) -> object:
    """A default as `-o` takes it."""
    return json.dumps(value) if isinstance(value, (bool, list, dict)) else value


def _option_rows(kind: str) -> list[dict[str, Any]]:
    """What `-o` takes, out of the model of the provider's options.

    Raises:
        RegistryError: as `provider_type`.
    """
    model = provider_type(kind).options_type
    try:
        properties: dict[str, dict[str, Any]] = {} if model is None else model.model_json_schema()["properties"]
    except Exception as exc:  # the types of somebody else's options may have no schema
        raise CommandFailed(f"the options of {kind} cannot be shown: {exc}") from exc
    return [
        {
            "name": option,
            "values": _values(schema),
            "default": schema.get("default"),
            "help": schema.get("description", ""),
        }
        for option, schema in properties.items()
    ]


def _values(schema: dict[str, Any]) -> str:
    """`read-only|workspace-write`, `text|none`, `number`."""
    if "anyOf" in schema:
        return "|".join(dict.fromkeys(_values(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return "|".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"[{_values(schema.get('items', {}))}, …]"
    kind = str(schema.get("format", schema.get("type", "any")))
    return {"string": "text", "boolean": "true|false", "null": "none", "password": "text"}.get(kind, kind)


class _ListByDefault(TyperGroup):
    """`models`, `models local` and `models --json` mean `models list …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named else ["list", *args])


models = typer.Typer(name="models", cls=_ListByDefault, help="Show the models of the providers, or pull one.")


@models.command("list")
def list_models(
    provider: Annotated[str | None, typer.Argument(help="Of this provider alone.")] = None,
    as_json: Json = False,
    option: Options = None,
    config: ConfigFile = None,
) -> None:
    """Show the models that --model takes; the word `list` can be left out."""
    with ending() as end:
        options = read_options(option or ())
        if provider is None and options:
            raise UsageProblem("-o is for one provider: subagents models PROVIDER …")
        end.code = run_loop(partial(_list, read_config(config), provider, options, as_json), end_now=True)
    raise typer.Exit(end.code)


async def _list(config: Config | None, one: str | None, options: dict[str, Any], as_json: bool) -> int:
    wrong: list[SubagentError] = []

    def make(name: str) -> Provider:
        with keeping(wrong):
            return find_provider(name, config, options)

    chosen = [instance.name for instance in named(config)] if one is None else [one]
    findings = await look_at("models", chosen, make, ("models",))
    if one is not None and wrong:
        raise wrong[0]  # what was typed is wrong: that is another exit code than a list that did not come
    rows = [{"provider": f.name, **model.to_dict()} for f in findings for model in f.models or ()]
    silent = [f.name for f in findings if f.models == ()]
    if as_json:
        await write(as_text(rows))
    elif rows:
        heads = ("provider", "model", "", "context", "size", "here", "licence")
        await write(table(heads, (_model_cells(row) for row in rows)))
    if not as_json and (silent or not chosen):
        words = f"no list of models from {', '.join(silent) or 'any provider'}"
        stderr_console().print(words, style="dim", soft_wrap=True)
    for finding in findings:
        if problem := finding.problem or finding.models_problem:
            say_error(f"models of {finding.name}: {problem}")
    return 1 if findings and all(finding.models is None for finding in findings) else 0


def amount_of_models(finding: Finding) -> str | None:
    """`3, 1 here`; None where nobody said it."""
    if finding.models is None:
        return None
    if not finding.models:
        return "no list"
    here = sum(model.present is True for model in finding.models)
    asked = any(model.present is not None for model in finding.models)
    return f"{len(finding.models)}, {here} here" if asked else str(len(finding.models))


def _model_cells(row: dict[str, Any]) -> Sequence[object]:
    name = f"{row['name']} (default)" if row["default"] else row["name"]
    size = None if row["size"] is None else decimal(row["size"])
    here = None if row["present"] is None else "yes" if row["present"] else "no"
    return row["provider"], name, row["title"], row["context"], size, here, row["licence"]


@models.command()
def pull(
    name: Annotated[str, typer.Argument(help="The model, as `subagents models` names it.")],
    provider: Annotated[str, typer.Option(metavar="NAME", help="The provider that runs it.")] = "local",
    option: Options = None,
    config: ConfigFile = None,
) -> None:
    """Bring a model here, so that no run has to; print where it is."""
    with ending() as end:
        with aside():
            found = find_provider(provider, read_config(config), read_options(option or ()))
        end.code = run_loop(partial(_pull, found, name))
    raise typer.Exit(end.code)


async def _pull(provider: Provider, name: str) -> int:
    view = Screen(f"pulling {name}")
    try:
        path = await interruptible(view, partial(provider.pull, name, progress=view.show))
    except SubagentError:
        raise
    except Exception as exc:  # the provider's own errors, which are for people: it says what to do
        raise CommandFailed(str(exc)) from exc
    return await write(f"{path}\n")
