"""What a promise is, and what it is shown with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeVar

from subagent_testing.errors import NotApplicable
from subagents import Permission, Provider, Run, Task

T = TypeVar("T")

Backend: TypeAlias = Literal["asyncio", "trio"]
BACKENDS: Final[tuple[Backend, ...]] = ("asyncio", "trio")

Kind: TypeAlias = Literal["task", "slow_task", "ask_task", "burst_task", "linger_task"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A provider under test, and the tasks that show how it behaves.

    The more is given, the more can be shown; a promise that needs what was not given is reported as skipped.

    Attributes:
        make: a new provider, configured and ready to work.
        task: one that completes, soon.
        slow_task: one that works until it is stopped, or for a minute at least.
        ask_task: one for which the child asks permission at least once, and that ends whatever the answer.
        burst_task: one that makes the child tell much at once (several times 64 KiB of events).
        linger_task: one whose child lives on for `lingers` seconds after its terminal message.
        failing: a new provider whose child never accepts the work (a missing program, a wrong key).
        lingers: seconds.
        patience: seconds that any one promise may take.
    """

    make: Callable[[], Provider]
    task: Task | str
    slow_task: Task | str | None = None
    ask_task: Task | str | None = None
    burst_task: Task | str | None = None
    linger_task: Task | str | None = None
    failing: Callable[[], Provider] | None = None
    lingers: float = 1.0
    patience: float = 30.0

    def given(self, kind: Kind) -> Task | str:
        """That task.

        Raises:
            NotApplicable: it was not given.
        """
        found: Task | str | None = getattr(self, kind)
        if found is None:
            raise NotApplicable(f"no {kind} was given")
        return found

    def start(self, kind: Kind = "task", permission: Permission | None = None) -> Run:
        """A run of that task by a new provider, not entered; what it changes in its folder is not asked."""
        task = self.given(kind)
        return self.make().start(task, permission=permission, changes=False)


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise of a provider or of the seam.

    Attributes:
        keep: shows it on the running loop: returns, or raises whatever says how it was broken.
        leaves_open: it leaves a run open on purpose, for the end of the loop to end.
    """

    keep: Callable[[Subject], Awaitable[None]]
    leaves_open: bool = False

    @property
    def name(self) -> str:
        """Kebab-case, of the function."""
        return getattr(self.keep, "__name__", "promise").replace("_", "-")

    @property
    def says(self) -> str:
        """The promise in one sentence."""
        return (self.keep.__doc__ or "").strip().splitlines()[0]


def expect(kept: bool, what: str) -> None:
    """Say what happened instead.  Not `assert`: the kit must also work under `python -O`."""
    if not kept:
        raise AssertionError(what)


def expect_equal(got: object, wanted: object, what: str) -> None:
    """The same, with both values in the message."""
    expect(got == wanted, f"{what}: {got!r} where {wanted!r} was promised")


def expect_a(got: object, kind: type[T], what: str) -> T:
    """The value, which must be of that type whatever its annotation says."""
    if not isinstance(got, kind):
        raise AssertionError(f"{what} is a {type(got).__name__}, and a {kind.__name__} was promised")
    return got


def names(found: Iterable[str]) -> str:
    """For a message."""
    return ", ".join(sorted(found))
