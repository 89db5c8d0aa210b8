"""Look at many providers at once, whatever is broken in them.

Each is loaded, made and asked in a thread of its own with an event loop of its own: an import that never ends, a
constructor that exits, a probe that blocks its loop or swallows its cancellation costs the others nothing, and costs
itself its answer. What does not end is left behind, in a daemon thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, TypeAlias

import anyio

from subagent_process import redact
from subagents import _host
from subagents._provider import Model, Probe, Provider, shown
from subagents._verdict import leaves, told
from subagents._wire import Wire, sound
from subagents.errors import SubagentError

_log: Final = logging.getLogger("subagents")

LIMIT: Final = 15.0
"""Seconds that one provider may take for all of it."""

_GRACE: Final = 1.0  # s beyond, in which one that was cancelled gives its answer

Question: TypeAlias = Literal["probe", "models"]
State: TypeAlias = Literal["ready", "not ready", "broken"]


@dataclass(frozen=True, slots=True)
class Finding(Wire):
    """What was found out about one provider.

    Attributes:
        name: of the instance.
        problem: why it could not be loaded, made or asked; empty where it could.
        probe: what it says about itself; None where it was not asked, or did not say.
        models: those it lists; None where it was not asked, or did not say.
        models_problem: why it did not list any; empty where it did.
    """

    name: str
    problem: str = ""
    probe: Probe | None = None
    models: tuple[Model, ...] | None = None
    models_problem: str = ""

    @property
    def state(self) -> State:
        """In a word."""
        if self.problem or self.probe is None:
            return "broken"
        return "ready" if self.probe.available else "not ready"


@dataclass(slots=True)
class _Look:
    """One provider under examination: written by its thread, read by whoever waits."""

    finding: Finding
    make: Callable[[str], Provider | None]
    questions: Collection[Question]
    answered: Callable[[], object]
    limit: float
    loaded: bool = False
    began: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """The thread."""
        try:
            _log.debug("loading %s", self.finding.name)
            provider = self.make(self.finding.name)
            if provider is not None and self.questions:
                self.loaded = True
                _log.debug("asking %s", self.finding.name)
                anyio.run(self._ask, provider)
        except SubagentError as exc:
            self._say(problem=redact(str(exc)))
        except KeyboardInterrupt:  # by a module of somebody's: a real one comes to the main thread
            self._say(problem="it cannot be loaded: it raises KeyboardInterrupt")
        except BaseException as exc:  # noqa: BLE001  # it is told; nobody is above a thread
            self._say(problem=redact(told(leaves(exc)[0])))
        finally:
            self.loaded = True
            self.answered()

    async def _ask(self, provider: Provider) -> None:
        late = f"no answer within {self.limit:g} s"
        unanswered = {"probe": {"probe": Probe(False, detail=late)}, "models": {"models_problem": late}}
        asking = {"probe": self._probe, "models": self._models}
        for question in self.questions:
            self._say(**unanswered[question])
        with anyio.move_on_after(self.began + self.limit - time.monotonic()):
            async with anyio.create_task_group() as tasks:
                for question in self.questions:
                    tasks.start_soon(asking[question], provider)
        self.answered()  # before the loop ends, which waits for a name lookup and what else runs in its threads

    async def _probe(self, provider: Provider) -> None:
        self._say(probe=await provider.probe())

    async def _models(self, provider: Provider) -> None:
        try:
            models = tuple(shown(sound(Model, one)) for one in await provider.models())
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as exc:  # noqa: BLE001  # a third party's code
            self._say(models_problem=redact(told(leaves(exc)[0])))
        else:
            self._say(models=models, models_problem="")

    def _say(self, **what: object) -> None:
        self.finding = replace(self.finding, **what)  # pyright: ignore[reportArgumentType]  # its fields, by name

    def seen(self) -> Finding:
        """What there is by now; who has not answered has a problem."""
        if self.loaded or self.finding.problem:
            return self.finding
        return replace(self.finding, problem=f"it could not be loaded within {self.limit:g} s")


async def examine(
    names: Iterable[str],
    make: Callable[[str], Provider | None],
    questions: Collection[Question] = ("probe", "models"),
    *,
    waiting: Callable[[Sequence[str]], object] = len,
    limit: float | None = None,
) -> list[Finding]:
    """Load and ask all of them at once.

    Args:
        names: of the instances.
        make: loads one and makes it, in a thread; None where there is nothing to ask.
        questions: what to ask; nothing to see only whether it can be made.
        waiting: told who has not answered yet, at the beginning and whenever one has.
        limit: seconds for each; None is `LIMIT`.

    Returns:
        The findings in the order of the names. What did not end is left behind.
    """
    bound = LIMIT if limit is None else limit
    token = _host.current()
    done = {name: anyio.Event() for name in names}
    looks = [
        _Look(Finding(name), make, questions, partial(_host.post, token, event.set), bound)
        for name, event in done.items()
    ]

    async def wait(name: str) -> None:
        with anyio.move_on_after(bound + _GRACE):
            await done[name].wait()
        pending.remove(name)
        waiting(pending)

    pending = list(done)
    waiting(pending)
    for look in looks:
        threading.Thread(target=look.run, name=f"subagents look at {look.finding.name}", daemon=True).start()
    async with anyio.create_task_group() as tasks:
        for name in done:
            tasks.start_soon(wait, name)
    return [look.seen() for look in looks]
