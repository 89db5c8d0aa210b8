"""`subagents providers` and `subagents models`: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Any

import typer
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from subagents import Provider, RegistryError, SubagentError, installed, visible
from subagents._cli.ending import CommandFailed, UsageProblem, ending
from subagents._cli.loop import interruptible, run_loop
from subagents._cli.options import find_provider, read_options
from subagents._cli.screen import Screen
from subagents._cli.streams import rendered, stderr_console, write_stdout
from subagents._cli.view import View
from subagents._registry import KNOWN, provider_type

Json = Annotated[bool, typer.Option("--json", help="A JSON array instead of a table.")]
Options = Annotated[
    list[str] | None, typer.Option("--option", "-o", metavar="KEY=VALUE", help="A provider's option. Repeatable.")
]
ConfigFile = Annotated[str | None, typer.Option(metavar="FILE", help="TOML file of providers.")]


def providers(
    provider: Annotated[str | None, typer.Argument(help="Show the options of this one.")] = None, as_json: Json = False
) -> None:
    """Show the installed providers, and what is wrong with one; or the options of one."""
    with ending() as end:
        if provider is None:
            heads, rows = ("provider", "distribution", "version", ""), [_provider_row(name) for name in installed()]
            if not rows and not as_json:
                raise CommandFailed(f"no provider is installed; get one with: {' or '.join(KNOWN.values())}")
        else:
            heads, rows = ("option", "values", "default", ""), _option_rows(provider)
            if not rows and not as_json:
                raise CommandFailed(f"{provider} has no options")
        text = _json(rows) if as_json else _table(heads, (tuple(map(_cell, row.values())) for row in rows))
        end.code = run_loop(partial(_write, text))
    raise typer.Exit(end.code)


def _cell(value: object) -> object:
    """A default as `-o` takes it."""
    return json.dumps(value) if isinstance(value, (bool, list)) else value


def _option_rows(name: str) -> list[dict[str, Any]]:
    """What `-o` takes, out of the model of the provider's options.

    Raises:
        RegistryError: as `provider_type`.
    """
    model = provider_type(name).options_type
    properties: dict[str, dict[str, Any]] = {} if model is None else model.model_json_schema()["properties"]
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


def _provider_row(name: str) -> dict[str, Any]:
    points = installed()[name]
    dist = points[0].dist
    row: dict[str, Any] = {
        "name": name,
        "distribution": dist.name if dist else None,
        "version": dist.version if dist else None,
    }
    try:
        provider_type(name)
    except RegistryError as exc:
        return {**row, "problem": str(exc)}
    return {**row, "problem": None}


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
        if provider is None and (options or config):
            raise UsageProblem("-o and --config are for one provider: subagents models PROVIDER …")
        if provider is not None:
            chosen = [find_provider(provider, config, options)]
        else:
            chosen = [found for name in installed() if (found := _usable(name)) is not None]
        end.code = run_loop(partial(_list, chosen, as_json))
    raise typer.Exit(end.code)


def _usable(name: str) -> Provider | None:
    """The provider with its defaults; None where it needs options or cannot be loaded: `providers` says why."""
    try:
        return find_provider(name, None, {})
    except SubagentError:
        return None


async def _list(chosen: Sequence[Provider], as_json: bool) -> int:
    rows: list[dict[str, Any]] = []
    for provider in chosen:
        view = Screen(f"models of {provider.name}")
        found = await interruptible(view, provider.models)
        rows += [{"provider": provider.name, **model.to_dict()} for model in found]
    if as_json:
        return await _write(_json(rows))
    if rows:
        heads = ("provider", "model", "", "context", "size", "here", "licence")
        return await _write(_table(heads, (_model_cells(row) for row in rows)))
    stderr_console().print(f"no list of models from {', '.join(p.name for p in chosen) or 'any provider'}", style="dim")
    return 0


def _model_cells(row: dict[str, Any]) -> tuple[object, ...]:
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
        found = find_provider(provider, config, read_options(option or ()))
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
    return await _write(f"{path}\n")


async def _write(text: str) -> int:
    await interruptible(View(), partial(write_stdout, text))
    return 0


def _json(rows: Sequence[object]) -> str:
    return json.dumps(rows, indent=2 if sys.stdout.isatty() else None) + "\n"


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else visible(str(cell))) for cell in row))
    return "".join(f"{line.rstrip()}\n" for line in rendered(table).splitlines())
