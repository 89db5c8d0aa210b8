"""One progress bar, for notices with the code `progress` (data: `done`, `total`, `unit`)."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table
from rich.text import Text

from subagents import NoticeEvent
from subagents._cli.lines import amount, one_line


class Downloads:
    """What is on its way: the thing that was told of last.

    Args:
        console: standard error.
        drawn: somebody draws `rows`; otherwise lines say that something began and that it is here.
    """

    def __init__(self, console: Console, *, drawn: bool) -> None:
        self._console, self._drawn = console, drawn
        self._words = self._unit = ""
        self._bar: Progress | None = None

    def show(self, event: NoticeEvent) -> bool:
        """Whether the notice was one of progress, which is now shown."""
        done, total, unit = event.data.get("done"), event.data.get("total"), str(event.data.get("unit", ""))
        if not isinstance(done, int | float) or not isinstance(total, int | float | None):
            return False
        words = one_line(event.text, 60)
        full = total is not None and done >= total
        if self._bar is None or unit != self._unit:
            self._unit, self._bar = unit, self._new(unit)
        if not self._drawn and (words != self._words or full):
            self._console.print(Text(f"{words}: {amount(done, total, unit)}", "dim"), soft_wrap=True)
        self._words = words
        # Kept while the words change: another source goes on where the last one stopped, and so does the speed.
        self._bar.update(TaskID(0), description=words, completed=done, total=total)
        return True

    def _new(self, unit: str) -> Progress:
        count: tuple[ProgressColumn, ...] = (MofNCompleteColumn(),)
        if unit == "bytes":
            count = (DownloadColumn(), TransferSpeedColumn())
        words = TextColumn("{task.description}", markup=False)
        bar = Progress(
            words, BarColumn(20), *count, TimeRemainingColumn(compact=True), console=self._console, auto_refresh=False
        )
        bar.add_task("", total=None)
        return bar

    def rows(self) -> Iterator[Table]:
        """The bar, until it is full."""
        if self._bar is not None and not self._bar.finished:
            yield self._bar.make_tasks_table(self._bar.tasks)
