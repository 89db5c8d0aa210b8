"""What a person sees on standard error while a run works.

On a terminal: lines for what is done, and below them a region that is drawn anew ten times a second (the tail of the
text as it streams, steps under way, the plan, a download, a spinner with the elapsed time). Elsewhere: lines alone. At
the end the region goes, and the answer is written to standard output.

The region is drawn by the event loop (`tick`), not by a thread of rich: a thread would read what an event is changing.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final, Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from subagents import (
    Event,
    NoticeEvent,
    PermissionEvent,
    PlanEvent,
    Result,
    StartedEvent,
    TextEvent,
    ThoughtEvent,
    ToolEvent,
    UsageEvent,
    visible,
)
from subagents._cli.answer import answer_text, write_answer
from subagents._cli.downloads import Downloads
from subagents._cli.lines import (
    change_lines,
    diff_lines,
    failure_lines,
    notice_line,
    permission_line,
    plan_lines,
    seconds,
    summary_line,
    thought_line,
    tool_line,
    usage_words,
    worktree_lines,
)
from subagents._cli.streams import can_draw, stderr_console
from subagents._cli.view import View

_TAIL: Final = 4000  # characters of a streaming text that can matter for the region


class Screen(View):
    """A run for people.

    Args:
        title: what runs, for the spinner.
        quiet: show the answer and a failure alone.
    """

    def __init__(self, title: str, *, quiet: bool = False) -> None:
        self._console = stderr_console(quiet=quiet)
        self._draw = not quiet and can_draw(self._console)
        self._live: Live | None = None
        self._spinner, self._began = Spinner("dots"), time.monotonic()
        self._title, self._status, self._usage = visible(title), "starting", ""
        self._message: TextEvent | ThoughtEvent | None = None  # that is being told
        self._steps: dict[str, ToolEvent] = {}  # under way
        self._plan: PlanEvent | None = None
        self._downloads = Downloads(self._console, drawn=self._draw)
        self._held: list[Text] | None = None  # lines that wait for a question to be answered

    def __enter__(self) -> Self:
        if self._draw:
            # Always a new one: rich's cannot be started twice without overflowing the terminal.
            region = _Region(self)
            self._live = Live(region, console=self._console, auto_refresh=False, transient=True, redirect_stdout=False)
            self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    @contextmanager
    def paused(self) -> Generator[None]:
        """Without the region; lines wait until the end."""
        self.__exit__()
        self._held = held = list[Text]()
        try:
            yield
        finally:
            self._held = None
            self._print(*held)
            self.__enter__()

    def tick(self) -> None:
        if self._live is not None:
            self._live.refresh()

    def stopping(self, why: str) -> None:
        self.doing(f"stopping: {why}")

    def doing(self, words: str) -> None:
        """What the last row says, beside the title and the time."""
        self._status = visible(words)

    async def event(self, event: Event) -> None:
        self.show(event)

    def show(self, event: Event) -> None:
        """`event`, for callbacks that cannot wait."""
        match event:
            case TextEvent() | ThoughtEvent():
                self._say(event)
            case ToolEvent():
                self._step(event)
            case PlanEvent():
                self._plan = event
                if not self._draw:
                    self._print(*plan_lines(event))
            case UsageEvent():
                self._usage = usage_words(event.usage, event.cost_usd)
            case NoticeEvent():
                if event.code != "progress" or not self._downloads.show(event):
                    self._print(notice_line(event))
            case StartedEvent():
                self._status = "working"
            case PermissionEvent(choice=None):
                pass  # the question, which whoever answers it shows
            case _:
                self._print(permission_line(event))

    async def result(self, result: Result) -> None:
        self.__exit__()
        answer = answer_text(result)
        if not answer and result.output:
            self._print_whole(result.output)
        elif isinstance(self._message, TextEvent) and self._message.text.strip() not in answer:
            self._end_message()
        await write_answer(result)
        if result.changes is not None:
            self._print(*change_lines(result.changes))
        if result.worktree is not None:
            self._print(*worktree_lines(result.worktree))
        self._print(summary_line(result))
        if not result.ok:
            self._print(*(Text(visible(note), "dim") for note in result.evidence.notes))
        if result.failure is not None:
            stderr_console().print(*failure_lines(result.failure), sep="\n", soft_wrap=True)

    def _print(self, *lines: Text, whole: bool = False) -> None:
        """Lines: cut at the width of a terminal but for `whole` ones, left as they are elsewhere."""
        if self._held is not None:
            self._held += lines
            return
        for line in lines:
            if self._console.is_terminal and not whole:
                self._console.print(line, no_wrap=True, overflow="ellipsis")
            else:
                self._console.print(line, soft_wrap=True)

    def _print_whole(self, text: str) -> None:
        for line in visible(text.strip()).split("\n"):
            (self._console.print if self._held is None else self._held.append)(Text(line, "dim"))

    def _say(self, event: TextEvent | ThoughtEvent) -> None:
        last = self._message
        if last is None or type(last) is not type(event) or (last.id, last.parent) != (event.id, event.parent):
            self._end_message()
            self._message = event
        else:
            self._message = type(event)(last.text + event.text, event.id, event.parent)

    def _end_message(self) -> None:
        """Put what was told above the region: something follows it, so it was not the answer."""
        message, self._message = self._message, None
        if isinstance(message, ThoughtEvent):
            self._print(thought_line(message.text))
        elif message is not None and message.text.strip():
            self._print_whole(message.text)

    def _step(self, event: ToolEvent) -> None:
        before = self._steps.get(event.id)
        if before is not None and (before.status, before.title) == (event.status, event.title):
            return
        self._end_message()
        if event.status in ("completed", "failed"):
            self._steps.pop(event.id, None)
            self._print(tool_line(event))
            self._print(*diff_lines(event), whole=True)
        else:
            self._steps[event.id] = event
            if not self._draw:
                self._print(tool_line(event))

    def rows(self, console: Console, options: ConsoleOptions) -> Iterator[Text | Table]:
        """The rows of the region, the status last; never more than the terminal has."""
        room = max(1, console.height - 3)
        below = [*self._downloads.rows(), self._status_row()]
        steps = [tool_line(step) for step in [*self._steps.values()][-max(1, room // 4) :]]
        plan = plan_lines(self._plan)[: room // 3] if self._plan is not None else []
        room -= len(below) + len(steps) + len(plan)
        if self._message is not None and room > 0:
            thought = isinstance(self._message, ThoughtEvent)
            text = Text(visible(self._message.text[-_TAIL:]), "dim italic" if thought else "")
            yield from text.wrap(console, options.max_width)[-(min(room, 3) if thought else room) :]
        for line in (*steps, *plan):
            line.no_wrap, line.overflow = True, "ellipsis"
            yield line
        yield from below

    def _status_row(self) -> Table:
        words = (self._title, self._status, seconds(time.monotonic() - self._began), self._usage)
        row = Table.grid(padding=(0, 1))
        line = Text(" · ".join(word for word in words if word), "dim", no_wrap=True, overflow="ellipsis")
        row.add_row(self._spinner, line)
        return row


class _Region:
    """The region as rich asks for it, at the width and height that the terminal has then."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._screen.rows(console, options)
