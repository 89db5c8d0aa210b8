"""Providers by their names, installed and configured, and what the look at all of them finds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from subagents import Config, Provider, SubagentError, installed
from subagents._cli.loop import interruptible
from subagents._cli.screen import Screen
from subagents._cli.streams import aside
from subagents._doctor import Finding, Question, examine
from subagents._plugin import origin


@dataclass(frozen=True, slots=True)
class Named:
    """A name that `subagents run` takes.

    Attributes:
        name: of the instance.
        kind: the name under which a distribution offers its type; None where the file does not say it rightly.
        distribution: that offers it; None where none is installed, or its metadata is broken.
        version: of the distribution.
        file: that configures it; None for what is installed and configured nowhere.
    """

    name: str
    kind: str | None
    distribution: str | None
    version: str | None
    file: str | None


def named(config: Config | None) -> list[Named]:
    """All of them, sorted; one that is configured under the name of an installed one stands in its place."""
    offers = installed()
    kinds: dict[str, str | None] = {name: name for name in offers}
    configured = config.providers if config is not None else {}
    kinds |= {name: _kind(table.get("type", name)) for name, table in configured.items()}
    found: list[Named] = []
    for name, kind in sorted(kinds.items()):
        points = offers.get(kind or "", ())
        file = str(config.path) if config is not None and name in configured else None
        found.append(Named(name, kind, *(origin(points[0]) if points else (None, None)), file))
    return found


def _kind(given: object) -> str | None:
    return given if isinstance(given, str) else None


async def look_at(
    title: str, names: Sequence[str], make: Callable[[str], Provider | None], questions: Collection[Question]
) -> list[Finding]:
    """`examine`, with its progress on a terminal, interruptible, and without a word of the providers' own on stdout.

    Raises:
        KeyboardInterrupt: a signal came.
    """
    view = Screen(title)

    def waiting(pending: Sequence[str]) -> None:
        view.doing(f"waiting for {', '.join(pending)}" if pending else "")

    with aside():
        return await interruptible(view, partial(examine, names, make, questions, waiting=waiting))


@contextmanager
def keeping(errors: list[SubagentError]) -> Generator[None]:
    """Keep the error besides: what was typed is wrong, and that is another exit code than what was found."""
    try:
        yield
    except SubagentError as exc:
        errors.append(exc)
        raise
