"""The conformance kit: does a provider keep the promises that the seam makes in its name?

    subagent_testing.check_provider(lambda: MyEngine(binary="/opt/engine"), "say hi", slow_task="count to a million")

Every promise is a small function with a name, run on asyncio and on trio, each on an event loop in a thread of its own,
with a bound, and followed by a look at what is left.  `check_seam` does the same for the seam itself, with scripted
providers: it is what a new Python, a new anyio or another event loop is held against.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from subagent_testing import scripted
from subagent_testing._bench import put_to_test
from subagent_testing._promise import BACKENDS, Backend, Promise, Subject
from subagent_testing._promises import PROVIDER, SEAM
from subagent_testing.errors import BrokenPromise, BrokenPromises, NotApplicable
from subagents import Provider, Task


@dataclass(frozen=True, slots=True)
class Check:
    """One promise on one event loop; call it with the subject.

    Attributes:
        promise: what is promised; `.name`, and `.says` in one sentence.
        backend: `asyncio` or `trio`.
    """

    promise: Promise
    backend: Backend

    @property
    def id(self) -> str:
        """As in `a-task-completes-trio`."""
        return f"{self.promise.name}-{self.backend}"

    def __call__(self, subject: Subject) -> None:
        """Return when the promise is kept.  Blocks; it may be called inside a running loop.

        Raises:
            BrokenPromise: it is not.
            NotApplicable: the subject lacks what it takes to show it.
        """
        put_to_test(self.promise, self.backend, subject)


@dataclass(frozen=True, slots=True)
class Report:
    """What was shown by a check that found nothing broken, and what could not be.

    Attributes:
        kept: ids of the checks, as `a-task-completes-trio`.
        skipped: id -> why, as `no ask_task was given`.
    """

    kept: tuple[str, ...]
    skipped: Mapping[str, str]


def provider_checks(backends: Collection[Backend] = BACKENDS) -> tuple[Check, ...]:
    """Every promise of a provider on every event loop, to be called one by one with a `Subject`."""
    return tuple(Check(promise, backend) for promise in PROVIDER for backend in backends)


def seam_checks(backends: Collection[Backend] = BACKENDS) -> tuple[Check, ...]:
    """Every promise of the seam on every event loop, to be called one by one with `seam_subject()`."""
    return tuple(Check(promise, backend) for promise in SEAM for backend in backends)


def seam_subject(*, patience: float = 30.0) -> Subject:
    """What the seam is checked with: a scripted provider whose prompt is the name of a script."""
    return Subject(
        make=lambda: scripted.Scripted(scripted.by_prompt(scripted.SCRIPTS)),
        failing=lambda: scripted.Scripted(scripted.refuses()),
        task="completes",
        slow_task="lasts",
        ask_task="asks",
        burst_task="bursts",
        linger_task="lingers",
        patience=patience,
    )


def check_provider(
    make: Callable[[], Provider],
    task: Task | str,
    *,
    slow_task: Task | str | None = None,
    ask_task: Task | str | None = None,
    burst_task: Task | str | None = None,
    linger_task: Task | str | None = None,
    failing: Callable[[], Provider] | None = None,
    lingers: float = 1.0,
    patience: float = 30.0,
    backends: Collection[Backend] = BACKENDS,
) -> Report:
    """Hold a provider against every promise that can be shown with what is given.

    Blocks; it may be called inside a running loop. Any number of its promises may be broken: all are run, and all are
    listed.

    Args:
        make: a new provider, configured and ready to work; called many times.
        task: one that completes, soon.
        slow_task: one that works until it is stopped, or for a minute at least.
        ask_task: one for which the child asks permission at least once, and that ends whatever the answer.
        burst_task: one that makes the child tell much at once (several times 64 KiB of events).
        linger_task: one whose child lives on for `lingers` seconds after its terminal message.
        failing: a new provider whose child never accepts the work (a missing program, a wrong key).
        lingers: seconds.
        patience: seconds that any one promise may take.
        backends: the event loops to check on.

    Returns:
        Which promises were shown, and which were skipped and why.

    Raises:
        BrokenPromises: at least one was broken.
    """
    subject = Subject(
        make=make,
        task=task,
        slow_task=slow_task,
        ask_task=ask_task,
        burst_task=burst_task,
        linger_task=linger_task,
        failing=failing,
        lingers=lingers,
        patience=patience,
    )
    return _check(f"provider {make().name}", provider_checks(backends), subject)


def check_seam(*, patience: float = 30.0, backends: Collection[Backend] = BACKENDS) -> Report:
    """Hold the seam against its own promises, and its scripted providers against those of every provider.

    Raises:
        BrokenPromises: at least one was broken.
    """
    checks = (*provider_checks(backends), *seam_checks(backends))
    return _check("the seam", checks, seam_subject(patience=patience))


def _check(what: str, checks: Iterable[Check], subject: Subject) -> Report:
    kept: list[str] = []
    skipped: dict[str, str] = {}
    broken: list[BrokenPromise] = []
    for check in checks:
        try:
            check(subject)
        except NotApplicable as exc:
            skipped[check.id] = str(exc)
        except BrokenPromise as exc:
            broken.append(exc)
        else:
            kept.append(check.id)
    if broken:
        raise BrokenPromises(f"{what} breaks {len(broken)} of {len(kept) + len(broken)} promises:", broken)
    return Report(tuple(kept), MappingProxyType(skipped))
