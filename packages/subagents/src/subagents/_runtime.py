"""`Runtime`: owns runs, bounds how many work at once, and leaves nothing when it closes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack
from types import MappingProxyType, TracebackType
from typing import Final, Self, Unpack, cast, final

import anyio

from subagents._permission import Permission
from subagents._provider import Provider, check_name
from subagents._result import Result
from subagents._run import Run
from subagents._short import complete
from subagents._task import Task, TaskFields
from subagents.errors import Busy, DuplicateProvider, SubagentError, UnknownProvider

CLOSED: Final = "the runtime is closed"


class _Slots:
    """A counted gate, first come first served; `n` None lets everybody through."""

    def __init__(self, n: int | None) -> None:
        self.used = 0  # taken or waited for
        self._gate = None if n is None else anyio.Semaphore(n)

    async def take(self, wait: bool, what: str) -> None:
        self.used += 1
        try:
            if self._gate is None:
                return
            try:
                self._gate.acquire_nowait()
            except anyio.WouldBlock:
                if not wait:
                    raise Busy(f"{what}: wait for one of its runs to close, or raise the limit") from None
                await self._gate.acquire()
        except BaseException:
            self.used -= 1
            raise

    def give(self) -> None:
        self.used -= 1
        if self._gate is not None:
            self._gate.release()


@final
class Runtime(AbstractAsyncContextManager["Runtime"]):
    """Named providers, and the runs that were started through it.

    A run outlives the scope that started it and ends with the Runtime at the latest.  A full Runtime makes `start`
    wait, or raises `Busy` with `wait=False`; a slot is free when its run is *closed*, not when its verdict is known.

    Args:
        providers: instances, each known by its `name`.
        limit: the most runs at once.
        per_folder: the most runs at once in one folder (resolved `Task.cwd`); None does not bound that.
    """

    def __init__(self, providers: Iterable[Provider] = (), *, limit: int = 8, per_folder: int | None = None) -> None:
        for name, value in (("limit", limit), ("per_folder", per_folder)):
            if value is not None and value < 1:
                raise ValueError(f"{name} is at least 1, not {value}")
        self._limit, self._per_folder = limit, per_folder
        self._providers: dict[str, Provider] = {}
        self._runs: dict[str, Run] = {}
        self._folders: dict[str, _Slots] = {}
        self._slots: _Slots | None = None
        self._closing = False
        self._waiting: set[anyio.CancelScope] = set()
        for provider in providers:
            self.register(provider)

    def __iter__(self) -> Iterator[str]:
        return iter(self._providers)

    @property
    def providers(self) -> Mapping[str, Provider]:
        """What is registered, by name; a live view that cannot be written."""
        return MappingProxyType(self._providers)

    @property
    def runs(self) -> Mapping[str, Run]:
        """The runs that are not closed, by id; a live view that cannot be written."""
        return MappingProxyType(self._runs)

    def register(self, provider: Provider) -> None:
        """Offer a provider by its name.

        Raises:
            DuplicateProvider: the name is taken.
            TaskError: the name is not kebab-case.
        """
        check_name(provider.name)
        if provider.name in self._providers:
            raise DuplicateProvider(
                f"a provider named {provider.name!r} is registered already: give one of them another name"
            )
        self._providers[provider.name] = provider

    def unregister(self, name: str) -> None:
        """Offer it no longer.  Its runs go on.

        Raises:
            UnknownProvider: nothing of that name is registered.
        """
        if self._providers.pop(name, None) is None:
            raise self._unknown(name)

    def _unknown(self, name: str) -> UnknownProvider:
        return UnknownProvider(
            f"no provider {name!r} is registered (registered: {', '.join(self._providers) or 'none'})"
        )

    async def start(
        self,
        provider: str,
        task: Task | str,
        /,
        *,
        permission: Permission | None = None,
        wait: bool = True,
        **fields: Unpack[TaskFields],
    ) -> Run:
        """A run that is entered already; the Runtime owns it.

        Cancelling the caller while it waits starts nothing; cancelling it later leaves the run alone.

        Raises:
            UnknownProvider: no such name.
            TaskError: as `Provider.start`.
            Busy: no slot is free and `wait` is False.
            StartError: the child never accepted the work.
            SubagentError: the Runtime is not open.
        """
        return await (await self._admit(self._made(provider, task, permission, fields), wait)).__aenter__()

    def _made(self, provider: str, task: Task | str, permission: Permission | None, fields: TaskFields) -> Run:
        if self._slots is None or self._closing:
            raise SubagentError("the runtime is not open: use it as `async with Runtime(...)`")
        if provider not in self._providers:
            raise self._unknown(provider)
        return self._providers[provider].start(task, permission=permission, **fields)

    async def _admit(self, run: Run, wait: bool) -> Run:
        """The run, once it has its slot; the slot is given back when the run has ended."""
        folder = cast("str", run.task.cwd)
        with ExitStack() as undo:
            with anyio.CancelScope() as waiting:  # closing wakes who waits for a slot that may never be freed
                self._waiting.add(waiting)
                undo.callback(self._waiting.discard, waiting)
                await self._take(folder, wait, undo)
            if self._closing:
                raise SubagentError(CLOSED)
            self._runs[run.id] = run
            undo.callback(self._runs.pop, run.id)
            self._waiting.discard(waiting)
            free = undo.pop_all()
        run.when_ended(free.close)
        return run

    async def _take(self, folder: str, wait: bool, undo: ExitStack) -> None:
        """A place in the folder and a slot; `undo` gives back what was taken."""
        assert self._slots is not None
        # The folder first: a run that waits for its folder must not hold a slot that another could use.
        gate = self._folders.setdefault(folder, _Slots(self._per_folder))
        undo.callback(self._forget, folder)
        await gate.take(wait, f"{folder} has its {self._per_folder} runs")
        undo.callback(gate.give)
        await self._slots.take(wait, f"the runtime has its {self._limit} runs")
        undo.callback(self._slots.give)

    def _forget(self, folder: str) -> None:
        if (gate := self._folders.get(folder)) is not None and not gate.used:
            del self._folders[folder]

    async def run(
        self,
        provider: str,
        task: Task | str,
        /,
        *,
        permission: Permission | None = None,
        wait: bool = True,
        **fields: Unpack[TaskFields],
    ) -> Result:
        """Start, and the result when nothing is left.

        A `StartError` is folded into it; cancelling the caller stops the run.

        Raises:
            UnknownProvider, TaskError, Busy, SubagentError: as `start`.
        """
        return await complete(await self._admit(self._made(provider, task, permission, fields), wait))

    async def __aenter__(self) -> Self:
        if self._slots is not None:
            raise SubagentError("a runtime is entered once")
        self._slots = _Slots(self._limit)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        for waiting in self._waiting:
            waiting.cancel()
        runs = list(self._runs.values())
        for run in runs:
            run.cancel(CLOSED)
        held: BaseException | None = None
        end = anyio.current_time() + max((run.leave_timeout for run in runs), default=0.0)
        for run in runs:  # all are ending at once: one bound for all of them
            try:
                await run.leave(max(end - anyio.current_time(), 0.0))
            except BaseException as cancelled:  # noqa: BLE001  # raised when every run was waited for
                held = cancelled
        if held is not None:
            raise held
