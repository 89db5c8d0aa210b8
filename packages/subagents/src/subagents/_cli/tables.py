"""Tables for people and JSON for programs, on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from functools import partial

from rich.table import Table
from rich.text import Text

from subagents import visible
from subagents._cli.loop import interruptible
from subagents._cli.streams import rendered, write_stdout
from subagents._cli.view import View


async def write(text: str) -> int:
    """Write it; the exit code."""
    await interruptible(View(), partial(write_stdout, text))
    return 0


def as_text(value: object) -> str:
    """JSON, indented on a terminal."""
    return json.dumps(value, indent=2 if sys.stdout.isatty() else None, allow_nan=False) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table without lines; a cell that is a `Text` keeps its colour, None is empty."""
    shown = Table(box=None, pad_edge=False, header_style="bold", show_header=any(heads))
    for head in heads:
        shown.add_column(head, overflow="fold")
    for row in rows:
        shown.add_row(*map(_cell, row))
    return "".join(f"{line.rstrip()}\n" for line in rendered(shown).splitlines())


def _cell(value: object) -> Text:
    if isinstance(value, Text):
        return Text(visible(value.plain), value.style)
    return Text("" if value is None else visible(str(value)))
