"""The event loop that hosts a run: tasks that belong to nobody's task group, and calls from other threads.

anyio has no task outside a task group, and a run must outlive the scope that entered it (a fixture, a portal, a
notebook cell).  asyncio and trio are imported where they run already, never for the question which one does.
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from subagents.errors import SubagentError

if TYPE_CHECKING:
    import asyncio

Token: TypeAlias = Any
"""An asyncio loop or a trio token: what a thread needs to reach the loop."""

_alive: set[asyncio.Task[None]] = set()  # asyncio keeps only weak references to its tasks


def running() -> Token | None:
    """The loop that runs here, None when none does.

    Not anyio's answer: inside a callback of asyncio (a call from another thread, a signal handler) sniffio knows of
    no library.
    """
    trio, asyncio = sys.modules.get("trio"), sys.modules.get("asyncio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return trio.lowlevel.current_trio_token()
    with suppress(RuntimeError):
        return asyncio.get_running_loop() if asyncio is not None else None
    return None


def is_asyncio(token: Token) -> bool:
    """Whether the token is a loop of asyncio (uvloop's are)."""
    return hasattr(token, "call_soon_threadsafe")


def current() -> Token:
    """The loop that runs here.

    Raises:
        SubagentError: none does.
    """
    if (token := running()) is None:
        raise SubagentError("no event loop is running here: use it inside asyncio.run, trio.run or anyio.run")
    return token


def now() -> float:
    """The clock of the loop that runs here, in seconds; also inside a callback."""
    token = current()
    return token.time() if is_asyncio(token) else sys.modules["trio"].current_time()


def spawn(body: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    """Run the body in a task of its own, with a copy of the current context variables.  It must not raise."""
    token = current()
    if is_asyncio(token):
        task = token.create_task(body(), name=name)
        _alive.add(task)
        task.add_done_callback(_alive.discard)
    else:
        import trio

        trio.lowlevel.spawn_system_task(body, name=name, context=contextvars.copy_context())


def post(token: Token, call: Callable[..., object], *args: object) -> None:
    """Call in that loop, soon; nothing when the loop is gone.

    From any thread, also from a finalizer or a signal handler.
    """
    enter = token.call_soon_threadsafe if is_asyncio(token) else token.run_sync_soon
    with suppress(RuntimeError):  # asyncio: the loop is closed; trio.RunFinishedError is one as well
        enter(call, *args)


def cancelled_from_outside(exc: BaseException) -> bool:
    """Whether a cancellation that reached this task was really asked for.

    A library can let a stray `CancelledError` slip; asyncio then counts no request, and trio has no cancelled scope
    around us.
    """
    if not isinstance(exc, anyio.get_cancelled_exc_class()):
        return False
    if is_asyncio(current()):
        import asyncio

        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return anyio.current_effective_deadline() == float("-inf")


async def until(event: anyio.Event, bound: float) -> bool:
    """Wait for the event, at most `bound` seconds, whoever cancels; a cancellation is raised afterwards.

    Raw asyncio cancellation ignores anyio's shields; it is held back here and raised again at the end.
    """
    end = anyio.current_time() + bound
    cancelled = anyio.get_cancelled_exc_class()
    held: BaseException | None = None
    while not event.is_set() and (left := end - anyio.current_time()) > 0:
        try:
            with anyio.move_on_after(left, shield=True):
                await event.wait()
        except cancelled as exc:  # of asyncio: trio honours the shield
            held = exc
    if held is not None:
        raise held
    return event.is_set()
