"""Providers that do what a script says: the behaviours of the real world, good and bad, without a process.

A script is an async function of `(task, link)`, as `Provider.drive` is; the functions here make the ones that matter,
and `SCRIPTS` names them.  A trap: on trio a system task that ignores its cancellation keeps `trio.run` from returning,
so the script that never ends takes an event that lets it go.

    provider = Scripted(scripted.lingers())
    provider = Scripted(scripted.by_prompt(scripted.SCRIPTS))     # the prompt's first word chooses: "lingers", …
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Collection, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import anyio
import anyio.lowlevel

from subagents import (
    Failure,
    Link,
    NoticeEvent,
    PermissionRequest,
    Provider,
    Result,
    StartError,
    Task,
    TextEvent,
    ToolEvent,
)

Script: TypeAlias = Callable[[Task, Link], Coroutine[Any, Any, None]]

CHUNK: Final = 437
"""Events in one read of 64 KiB, at 150 bytes a line."""


class Scripted(Provider):
    """A provider whose `drive` is a script, and that counts.

    Attributes:
        started: how often `drive` was called.
        ended: how often it has ended, however.
        tasks: the tasks it was given, as `drive` saw them.
    """

    def __init__(
        self,
        script: Script,
        *,
        name: str = "scripted",
        capabilities: Collection[str] = (),
        max_depth: int = 1,
        leave_timeout: float = 15.0,
        ask_timeout: float = 300.0,
    ) -> None:
        self.name = name
        self.capabilities = frozenset(capabilities)
        self.max_depth, self.leave_timeout, self.ask_timeout = max_depth, leave_timeout, ask_timeout
        self.script = script
        self.started = self.ended = 0
        self.tasks: list[Task] = []

    async def drive(self, task: Task, link: Link) -> None:
        """Do as the script says."""
        self.started += 1
        self.tasks.append(task)
        try:
            await self.script(task, link)
        finally:
            self.ended += 1


def by_prompt(scripts: Mapping[str, Callable[[], Script]]) -> Script:
    """A script that the first word of the prompt chooses; an unknown one is a `StartError` that lists the known."""

    async def script(task: Task, link: Link) -> None:
        word = task.prompt.split()[0]
        if word not in scripts:
            raise StartError(Failure("model", "start", f"no script {word!r} (there are: {', '.join(scripts)})"))
        await scripts[word]()(task, link)

    return script


def completes(output: str = "done", *, pieces: int = 1) -> Script:
    """Accepts, says `output` in as many text events, and completes."""

    async def script(task: Task, link: Link) -> None:
        link.ready(session="s-1")
        step = max(1, -(-len(output) // pieces))
        for at in range(0, len(output), step):
            link.emit(TextEvent(output[at : at + step], "m1"))
            await anyio.lowlevel.checkpoint()
        link.finish(Result.completed(output))

    return script


def writes(files: Mapping[str, str | None], then: Script | None = None) -> Script:
    """Accepts, writes these files below the folder of the task (None removes one), tells of each, and completes.

    Args:
        files: their new texts, by path.
        then: what follows instead of completing.
    """

    async def script(task: Task, link: Link) -> None:
        link.ready()
        for name, text in files.items():
            path = anyio.Path(str(task.cwd), name)
            if text is None:
                await path.unlink()
            else:
                await path.parent.mkdir(parents=True, exist_ok=True)
                await path.write_text(text, encoding="utf-8")
            link.emit(ToolEvent(name, name, "delete" if text is None else "edit", "completed", paths=(name,)))
        await (then or completes())(task, link)

    return script


def lasts(teardown: Callable[[], object] | None = None) -> Script:
    """Starts up, accepts, and works until it is stopped; then tears down in several awaits, behind a shield.

    Args:
        teardown: called at the end of the teardown.
    """

    async def script(task: Task, link: Link) -> None:
        link.emit(NoticeEvent("loading", "loading"))
        link.ready()
        link.emit(TextEvent("working", "m1"))
        await _until_stopped(teardown)

    return script


def never_ready(teardown: Callable[[], object] | None = None) -> Script:
    """Never accepts the work; tears down as `lasts` does."""

    async def script(task: Task, link: Link) -> None:
        await _until_stopped(teardown)

    return script


async def _until_stopped(teardown: Callable[[], object] | None) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            for _ in range(3):  # EOF, SIGTERM, SIGKILL: each an await that a raw cancellation would cut
                await anyio.lowlevel.checkpoint()
            if teardown is not None:
                teardown()


def lingers(seconds: float = 1.0, *, until: anyio.Event | None = None) -> Script:
    """Finishes, and its child takes `seconds` to go (or until the event is set), shielded as a real ladder is."""

    async def script(task: Task, link: Link) -> None:
        link.ready()
        link.emit(TextEvent("done", "m1"))
        link.finish(Result.completed("done"))
        with anyio.CancelScope(shield=True):
            await (anyio.sleep(seconds) if until is None else until.wait())

    return script


def bursts(chunks: int = 100, per_chunk: int = CHUNK, *, polite: bool = True) -> Script:
    """Emits `chunks` times `per_chunk` tool events, yielding to the loop once per chunk as a backend must.

    Args:
        chunks: how many reads.
        per_chunk: how many events each holds; 437 is 64 KiB of lines of 150 bytes.
        polite: False never yields: the backend's bug that loses events even for a reader that keeps up.
    """

    async def script(task: Task, link: Link) -> None:
        link.ready()
        for chunk in range(chunks):
            for i in range(per_chunk):
                link.emit(ToolEvent(str(chunk * per_chunk + i), "step"))
            if polite:
                await anyio.lowlevel.checkpoint()
        link.finish(Result.completed("done"))

    return script


def swallows_once(then: Script | None = None) -> Script:
    """Swallows the first cancellation and goes on: finishes as completed, or does as `then` says."""

    async def script(task: Task, link: Link) -> None:
        link.ready()
        with contextlib.suppress(BaseException):  # this is the bug that it plays
            await anyio.sleep_forever()
        with anyio.CancelScope(shield=True):
            await (then or completes())(task, link)

    return script


def swallows_for_ever(release: anyio.Event) -> Script:
    """Accepts, and ignores every cancellation until the event is set."""

    async def script(task: Task, link: Link) -> None:
        link.ready()
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError), anyio.CancelScope(shield=True):
                await release.wait()  # a raw cancellation passes the shield

    return script


def refuses(
    failure: Failure | None = None, *, in_group: bool = False, cleanup: Callable[[], object] | None = None
) -> Script:
    """Raises one `StartError`, after a clean-up that takes a few awaits.

    Args:
        failure: why; by default one of kind `auth`.
        in_group: raise it inside a task group, beside a sibling that is cancelled, as structured code does.
        cleanup: called when the clean-up is done.
    """
    error = failure or Failure("auth", "start", "not signed in: run the sign-in command first")

    async def script(task: Task, link: Link) -> None:
        try:
            if not in_group:
                raise StartError(error)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.sleep_forever)
                raise StartError(error)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            if cleanup is not None:
                cleanup()

    return script


def raises(error: Callable[[], BaseException], *, ready: bool = True, verdict: bool = False) -> Script:
    """Raises: before `ready`, after it, or after the verdict (`verdict`)."""

    async def script(task: Task, link: Link) -> None:
        if ready:
            link.ready()
            await anyio.lowlevel.checkpoint()
        if verdict:
            link.finish(Result.completed("done"))
            await anyio.lowlevel.checkpoint()
        raise error()

    return script


def raises_when_stopped(error: Callable[[], BaseException]) -> Script:
    """Works until it is stopped, and then raises in its `finally`."""

    async def script(task: Task, link: Link) -> None:
        link.ready()
        try:
            await anyio.sleep_forever()
        finally:
            raise error()

    return script


def strays() -> Script:
    """Lets a `CancelledError` slip that nobody asked for, as libraries do."""
    return raises(lambda: asyncio.CancelledError("a library let it slip"))


def ends_silently() -> Script:
    """Accepts, and ends without a verdict."""

    async def script(task: Task, link: Link) -> None:
        link.ready()

    return script


def asks(request: PermissionRequest | None = None) -> Script:
    """Asks for permission once; the answer is the kind of the choice it got."""
    wanted = request or PermissionRequest("rm -rf build", "execute", command="rm -rf build")

    async def script(task: Task, link: Link) -> None:
        link.ready()
        choice = await link.ask(wanted)
        link.emit(TextEvent(choice.kind, "m1"))
        link.finish(Result.completed(choice.kind))

    return script


def tells_context(variable: contextvars.ContextVar[str]) -> Script:
    """Answers with the value of a context variable as `drive` sees it."""

    async def script(task: Task, link: Link) -> None:
        link.ready()
        link.finish(Result.completed(variable.get("unset")))

    return script


def echoes() -> Script:
    """Answers every message of `Run.send` with a text event, until one says `stop`; needs the capability `send`."""

    async def script(task: Task, link: Link) -> None:
        link.ready()
        heard: list[str] = []
        async for text in link.inbox:
            heard.append(text)
            link.emit(TextEvent(text, str(len(heard))))
            if text == "stop":
                break
        link.finish(Result.completed(" ".join(heard)))

    return script


SCRIPTS: Final[Mapping[str, Callable[[], Script]]] = MappingProxyType(
    {
        "completes": completes,
        "lasts": lasts,
        "never-ready": never_ready,
        "lingers": lingers,
        "bursts": bursts,
        "swallows": swallows_once,
        "refuses": refuses,
        "raises": lambda: raises(lambda: OSError("the pipe broke")),
        "raises-late": lambda: raises(lambda: OSError("the folder could not be removed"), verdict=True),
        "strays": strays,
        "silent": ends_silently,
        "asks": asks,
        "echoes": echoes,
    }
)
"""Scripts by name, each as it is without arguments."""
