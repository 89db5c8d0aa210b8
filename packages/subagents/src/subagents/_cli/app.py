"""The commands put together, and the frame around them: streams and logging."""

from __future__ import annotations

import logging
from importlib.metadata import version
from typing import Annotated

import typer

from subagents._cli.doctor import EXIT_CODES, doctor
from subagents._cli.listing import models, providers
from subagents._cli.run import EXAMPLES, run
from subagents._cli.streams import prepare_streams

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help and errors: examples keep their lines, a narrow terminal its words
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(no_args_is_help=True, epilog=EXAMPLES)(run)
app.command()(providers)
app.command(epilog=EXIT_CODES)(doctor)
app.add_typer(models)


def run_app() -> int:
    """Run the command; returns its exit code."""
    prepare_streams()
    code: object = 0
    try:
        app(prog_name="subagents")
    except SystemExit as exc:  # how typer always ends
        code = exc.code
    return code if isinstance(code, int) else 1


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"subagents {version('subagents')}")
        raise typer.Exit


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Log what the library does, to standard error.")] = False,
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Hand a task to another agent, follow it, stop it, and get one honest answer back."""
    # Left alone, logging would print errors with their tracebacks.
    logging.basicConfig(level=logging.DEBUG if debug else logging.CRITICAL, force=True)
