"""The answer on standard output: Markdown for a person, the text as it is for a pipe or a file."""

from __future__ import annotations

import json
import sys
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from subagents import Result, visible
from subagents._cli.streams import rendered, write_stdout

ANSWERS: Final = frozenset({"completed", "max-tokens", "refusal"})
"""With these there is an answer; what an `error` or an aborted run leaves behind never reaches standard output."""


class _VisibleMarkdown:
    """Markdown whose every piece is made visible after it was read: `&#x202e;` is a hidden character only then."""

    def __init__(self, text: str) -> None:
        from rich.markdown import Markdown  # a tenth of a second, and only a terminal needs it

        # No hyperlinks: a terminal would show the words and hide where they lead.
        self._inner = Markdown(visible(text), hyperlinks=False)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._inner, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


async def write_answer(result: Result) -> None:
    """Write what the result answers, if it does.

    Raises:
        OutputLost: standard output cannot be written.
    """
    text = answer_text(result)
    if not text:
        return
    if not sys.stdout.isatty():
        await write_stdout(text if text.endswith("\n") else f"{text}\n")
    elif result.structured is not None:
        await write_stdout(rendered(Text(visible(text)), wrap=False))
    else:
        await write_stdout(rendered(_VisibleMarkdown(text)))


def answer_text(result: Result) -> str:
    """The answer as it is: text, or the structured value as JSON; empty where there is none."""
    if result.stop_reason not in ANSWERS:
        return ""
    if result.structured is None:
        return result.output
    return json.dumps(result.structured, ensure_ascii=False, indent=2)
