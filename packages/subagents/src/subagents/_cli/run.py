"""`subagents run`: the options of the command, and the run that they stand for."""

from __future__ import annotations

import sys
from enum import StrEnum
from functools import partial
from typing import Annotated, Final

import typer

from subagents import Provider, Task
from subagents._cli.ask import Asker
from subagents._cli.ending import UsageProblem, ending
from subagents._cli.follow import follow
from subagents._cli.jsonl import JsonLines
from subagents._cli.loop import run_loop
from subagents._cli.options import find_provider, read_config, read_options, read_prompt, read_schema
from subagents._cli.screen import Screen
from subagents._cli.streams import aside

EXAMPLES: Final = """\b
Examples:
  subagents run local "What is a context manager?"
  subagents run local -m smollm2-135m -f task.md > answer.md
  git diff | subagents run local --json -
  subagents run local "Who?" --schema '{"type": "object"}'

\b
Exit codes:
  0 completed  1 error  2 usage  3 limit  4 refusal
  5 max-tokens  130 aborted  141 nobody reads the output
"""


class Ask(StrEnum):
    """Who answers when the child asks for permission."""

    ask = "ask"
    allow = "allow"
    reject = "reject"


def run(
    provider: Annotated[
        str, typer.Argument(metavar="PROVIDER", help="A name from `subagents providers`, or from --config.")
    ],
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="What to do; - reads standard input.")] = None,
    file: Annotated[str | None, typer.Option("--file", "-f", metavar="FILE", help="Read the task from a file.")] = None,
    cwd: Annotated[str | None, typer.Option(metavar="DIR", help="The folder to work in.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="NAME", help="The model to use.")] = None,
    effort: Annotated[str | None, typer.Option(metavar="WORD", help="How hard to think, in the engine's word.")] = None,
    schema: Annotated[
        str | None, typer.Option(metavar="FILE|JSON", help="JSON Schema that the answer must satisfy.")
    ] = None,
    read: Annotated[list[str] | None, typer.Option(metavar="PATH", help="A path it may read. Repeatable.")] = None,
    write: Annotated[list[str] | None, typer.Option(metavar="PATH", help="A path it may write. Repeatable.")] = None,
    tool: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A tool it may use. Repeatable.")] = None,
    max_turns: Annotated[int | None, typer.Option(metavar="N", help="The most model turns.")] = None,
    budget: Annotated[float | None, typer.Option(metavar="USD", help="The most to spend, in US dollars.")] = None,
    deadline: Annotated[float | None, typer.Option(metavar="SECONDS", help="The most time for all of it.")] = None,
    idle_limit: Annotated[float | None, typer.Option(metavar="SECONDS", help="The most time without news.")] = None,
    resume: Annotated[str | None, typer.Option(metavar="SESSION", help="Go on with an earlier session.")] = None,
    label: Annotated[str | None, typer.Option(metavar="TEXT", help="A name for people.")] = None,
    instructions: Annotated[str | None, typer.Option(metavar="TEXT", help="System instructions.")] = None,
    changes: Annotated[
        bool | None,
        typer.Option("--changes/--no-changes", help="Tell what it changed; by default in a git repository."),
    ] = None,
    worktree: Annotated[bool, typer.Option("--worktree", help="Work in a fresh git worktree, from HEAD.")] = False,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", metavar="KEY=VALUE", help="A provider's option. Repeatable.")
    ] = None,
    config: Annotated[str | None, typer.Option(metavar="FILE", help="TOML file of providers.")] = None,
    permission: Annotated[Ask, typer.Option(help="Who answers when the child asks.")] = Ask.reject,
    max_depth: Annotated[int | None, typer.Option(metavar="N", min=1, help="Levels of delegation allowed.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON event a line; the result is the last.")] = False,
    no_download: Annotated[bool, typer.Option("--no-download", help="Short for -o download=false.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the answer, or the failure.")] = False,
) -> None:
    """Hand TASK to PROVIDER and print its answer."""

    def body() -> int:
        options = read_options([*(option or ()), *(["download=false"] if no_download else ())])
        if permission is Ask.ask and not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageProblem(
                "--permission ask needs a terminal to ask on: use allow or reject, or --file for the task"
            )
        with aside():  # what its module prints is no answer
            found = find_provider(provider, read_config(config), options)
        if max_depth is not None:
            found.max_depth = max_depth
        work = Task(
            prompt=read_prompt(task, file),
            cwd=cwd,
            model=model,
            effort=effort,
            output_schema=read_schema(schema),
            read=tuple(read or ()),
            write=tuple(write or ()),
            tools=None if tool is None else tuple(tool),
            max_turns=max_turns,
            budget=budget,
            deadline=deadline,
            idle_limit=idle_limit,
            resume=resume,
            label=label,
            instructions=instructions,
            changes=changes,
            isolation="worktree" if worktree else None,
        )
        return _perform(found, work, permission, as_json=as_json, quiet=quiet)

    with ending() as end:
        end.code = body()
    raise typer.Exit(end.code)


def _perform(provider: Provider, task: Task, answers: Ask, *, as_json: bool, quiet: bool) -> int:
    title = f"{provider.name} ({task.label})" if task.label else provider.name
    view = JsonLines() if as_json else Screen(title, quiet=quiet)
    handle = provider.start(task, permission=Asker(view) if answers is Ask.ask else answers.value)
    return run_loop(partial(follow, handle, view))
