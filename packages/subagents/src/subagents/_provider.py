"""`Provider`: what stands behind a name, and the one thing that a backend writes (`drive`)."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, Unpack, cast, final

import anyio

from subagent_process import redact
from subagents import _host
from subagents._events import NoticeEvent
from subagents._link import Link
from subagents._permission import Permission
from subagents._result import MESSAGE_BYTES
from subagents._run import Run
from subagents._task import Task, TaskFields, prepare
from subagents._verdict import leaves, told
from subagents._wire import Wire, sound
from subagents.errors import TaskError, Unsupported

if TYPE_CHECKING:
    from pydantic import BaseModel

PROBE_TIMEOUT: Final = 15.0
"""Seconds that a probe may take."""

_KEBAB: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

W = TypeVar("W", bound=Wire)


@dataclass(frozen=True, slots=True)
class Probe(Wire):
    """What a provider found out about itself without doing any work.

    Attributes:
        available: it can be used now.
        version: of the engine.
        path: of the engine.
        signed_in: whether it has credentials; None where it needs none or cannot tell.
        detail: one sentence about what is there.
        fix: what to do when something is missing; empty when nothing is.
    """

    available: bool
    version: str | None = None
    path: str | None = None
    signed_in: bool | None = None
    detail: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Model(Wire):
    """A model that a provider offers.

    Attributes:
        name: what `Task.model` takes.
        title: a name for people.
        context: how many tokens prompt and answer may have together.
        size: bytes to download or on disk.
        present: it can be used without a download; None where that is not a question.
        default: it is used when a task names none.
        licence: an SPDX expression.
    """

    name: str
    title: str = ""
    context: int | None = None
    size: int | None = None
    present: bool | None = None
    default: bool = False
    licence: str = ""


def shown(found: W) -> W:
    """What a backend says of itself, redacted and at most 4,096 characters each: it goes into reports."""
    value = cast("Any", found)
    texts = {field.name: text for field in fields(value) if isinstance(text := getattr(value, field.name), str)}
    return cast("W", replace(value, **{name: redact(text)[:MESSAGE_BYTES] for name, text in texts.items()}))


class Provider(ABC):
    """A configured engine; two configurations are two instances.

    Attributes:
        name: of the instance, kebab-case; people put it in configuration, so it never changes.
        capabilities: the Task fields that really work here, and `send`; anything else that a task sets is refused by
            the seam.
        max_depth: how many levels of delegation below the first program may be reached; 1 refuses a delegate's
            delegate.
        leave_timeout: seconds that leaving a run waits for the proof that nothing is left, and that teardown may take.
        ask_timeout: seconds that a permission callback may take before it counts as a rejection.
        options_type: the frozen pydantic model (`extra="forbid"`) of the keyword arguments, where the class has any.
    """

    name: str
    capabilities: frozenset[str] = frozenset()
    max_depth: int = 1
    leave_timeout: float = 15.0
    ask_timeout: float = 300.0
    options_type: ClassVar[type[BaseModel] | None] = None

    @abstractmethod
    async def drive(self, task: Task, link: Link) -> None:
        """Do one task.

        Start the child, `link.ready()`, `link.emit(...)`, `link.finish(...)` on its terminal message, tear down.

        It is cancelled when the run is stopped or left, also while it tears down after the verdict took too long; it
        ends with nothing left. Raising `StartError` before `ready` is how a start fails with a reason; ending without
        `finish` is an `error`.
        """

    def check(self, task: Task) -> None:  # noqa: B027  # most engines take what the seam takes
        """Refuse a task that this engine cannot take; `start` calls it once the seam has no objection.

        Synchronous; beside its argument and the configuration it may look at files in the folder of the task, and
        waits for nothing else.

        Raises:
            TaskError: it cannot; the message says what can.
        """

    @final
    def start(self, task: Task | str, /, *, permission: Permission | None = None, **fields: Unpack[TaskFields]) -> Run:
        """A run of the task; nothing starts before it is entered.

        Args:
            task: the work, or its prompt.
            permission: who answers when the child asks; None is `"reject"`.
            fields: fields of the Task, on top of it.

        Raises:
            TaskError: the task cannot be right, or (`Unsupported`) asks for what the provider does not do.
        """
        check_name(self.name)
        if permission is not None and permission not in ("reject", "allow") and not callable(permission):
            raise TaskError(f"permission is 'reject', 'allow' or a callback, not {permission!r}")
        prepared = prepare(task, fields, self.capabilities, self.name)
        self.check(prepared)
        return Run(self, prepared, permission or "reject")

    @final
    async def probe(self) -> Probe:
        """What is here: never raises (but for cancellation), never takes longer than 15 s."""
        box: list[Probe] = []
        done, scope = anyio.Event(), anyio.CancelScope()

        async def body() -> None:
            try:
                with scope:
                    found = sound(Probe, await self._probe())
                    box.append(shown(found))
            except BaseException as exc:  # folded: a probe says what it found, whatever it ran into
                box.append(Probe(False, detail=redact(told(leaves(exc)[0]))))
                if _host.being_cancelled():
                    raise
            finally:
                done.set()

        _host.spawn(body, f"subagents probe {self.name}")
        try:
            with anyio.move_on_after(PROBE_TIMEOUT):
                await done.wait()
        finally:
            scope.cancel()  # one that swallows this is left behind, as a run would be
        return box[0] if box else Probe(False, detail=f"no answer within {PROBE_TIMEOUT:g} s")

    async def _probe(self) -> Probe:
        """What `probe` bounds and folds; overridden by a backend."""
        return Probe(True)

    async def models(self) -> Sequence[Model]:
        """The models that `Task.model` takes; empty where the engine has no list."""
        return ()

    async def pull(self, model: str, *, progress: Callable[[NoticeEvent], object] | None = None) -> str:
        """Bring a model here, so that a run need not; returns where it is.

        Cancelling it keeps what is there already, where the provider can go on with it.

        Raises:
            Unsupported: there is nothing to pull.
            Exception: what the provider ran into; its message is for people.
        """
        raise Unsupported(f"{self.name} has no models to pull")


def check_name(name: str) -> None:
    """Refuse what is no name of a provider.

    Raises:
        TaskError: it is not kebab-case.
    """
    if not _KEBAB.fullmatch(name):
        raise TaskError(f"a provider's name is kebab-case (codex, codex-rw), not {name!r}")
