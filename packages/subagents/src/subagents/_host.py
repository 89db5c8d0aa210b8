"""The event loop that hosts a run: tasks that belong to nobody's task group, and calls from other threads.

anyio has no task outside a task group, and a run must outlive the scope that entered it (a fixture, a portal, a
notebook cell).  asyncio and trio are imported where they run already, never for the question which one does.
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import anyio

from subagents._gate import Gate
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


def spawn(body: Callable[[], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[None] | None:
    """Run the body in a task of its own, with a copy of the current context variables.  It must not raise.

    Returns:
        the task, to be given to `forget` when its loop was closed over it; None on trio, which ends its tasks.
    """
    token = current()
    if is_asyncio(token):
        task: asyncio.Task[None] = token.create_task(body(), name=name)
        _alive.add(task)
        task.add_done_callback(_alive.discard)
        return task
    import trio

    trio.lowlevel.spawn_system_task(body, name=name, context=contextvars.copy_context())
    return None


def forget(task: asyncio.Task[None] | None) -> None:
    """End a task whose loop is gone, so that what it owns is finalized.

    By hand: anyio keeps the state of a task for as long as the task lives, and the state holds the task.
    """
    if task is not None:
        _alive.discard(task)
        with suppress(Exception):  # its clean-up wanted a loop, or failed by itself: there is nobody to tell
            cast("Coroutine[Any, Any, None]", task.get_coro()).close()


def post(token: Token, call: Callable[..., object], *args: object) -> bool:
    """Call in that loop, soon; False when the loop is gone.

    From any thread, also from a finalizer or a signal handler.
    """
    enter = token.call_soon_threadsafe if is_asyncio(token) else token.run_sync_soon
    try:
        enter(call, *args)
    except (RuntimeError, OSError):  # asyncio: the loop is closed, or its pipe; trio.RunFinishedError is the first
        return False
    return True


def gone(token: Token) -> bool:
    """Whether that loop has ended for good."""
    return bool(token.is_closed()) if is_asyncio(token) else not post(token, bool)


def being_cancelled() -> bool:
    """Whether the task that runs here was cancelled from outside.

    Not by what was raised: a library can let a stray `CancelledError` slip, and a backend can answer a real one with
    an error of its own.  asyncio counts the requests; on trio every scope around us says when it ends.
    """
    token = running()
    if token is None:  # the loop was closed over it
        return True
    if is_asyncio(token):
        import asyncio

        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return anyio.current_effective_deadline() == float("-inf")


async def until(gate: Gate, bound: float) -> bool:
    """Wait for the gate, at most `bound` seconds, whoever cancels; a cancellation is raised afterwards.

    Raw asyncio cancellation ignores anyio's shields; it is held back here and raised again at the end.
    """
    end = anyio.current_time() + bound
    cancelled = anyio.get_cancelled_exc_class()
    held: BaseException | None = None
    while not gate.open and (left := end - anyio.current_time()) > 0:
        try:
            with anyio.move_on_after(left, shield=True):
                await gate.wait()
        except cancelled as exc:  # of asyncio: trio honours the shield
            held = exc
    if held is not None:
        raise held
    return gate.open
