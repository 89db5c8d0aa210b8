"""Where one promise is put to the test: a thread and an event loop of its own, a bound, and a look at what is left.

A thread, because a broken provider can keep an event loop from ending, and the check must say so instead of hanging;
and because the caller may be inside a running loop.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from contextlib import suppress
from typing import Any, Final, cast

import anyio

import subagents
from subagent_testing._promise import Backend, Promise, Subject
from subagent_testing.errors import BrokenPromise, NotApplicable
from subagent_testing.leaks import Snapshot, loop_tasks, private_temp, tasks_left
from subagents import Provider

NOTHING_IS_LEFT: Final = "nothing-is-left"
_END: Final = 10.0
"""Seconds that a loop may take to end, beyond the patience with the promise."""

_warmed: set[type[Provider]] = set()


def put_to_test(promise: Promise, backend: Backend, subject: Subject) -> None:
    """Return when the promise is kept and nothing is left.

    Raises:
        BrokenPromise: it is not; the cause is what the promise raised.
        NotApplicable: it cannot be shown.
    """
    _warm_up(subject)
    with private_temp() as folder:
        before = Snapshot.take(folder)
        _on_a_loop(promise, backend, subject)
        left = before.left(folder)
    if left:
        raise BrokenPromise(NOTHING_IS_LEFT, backend, f"after {promise.name}: {'; '.join(left)}")


def _warm_up(subject: Subject) -> None:
    """One run before anything is counted: the first one starts the shared supervisor and fills caches, for good."""
    kind = type(subject.make())
    if kind in _warmed:
        return
    _warmed.add(kind)

    async def once() -> None:
        with suppress(Exception), anyio.move_on_after(subject.patience):  # what is wrong with it, a promise will say
            await subagents.run(subject.make(), subject.task)

    thread = threading.Thread(target=anyio.run, args=[once], name="subagent-testing warm-up", daemon=True)
    thread.start()
    thread.join(subject.patience + _END)


def _on_a_loop(promise: Promise, backend: Backend, subject: Subject) -> None:
    raised: list[BaseException] = []
    said: list[str] = []

    async def body() -> None:
        if backend == "asyncio":
            asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(_heard(context)))
        before = loop_tasks()
        with anyio.fail_after(subject.patience):
            await promise.keep(subject)
        if not promise.leaves_open and (left := await tasks_left(before)):
            raise BrokenPromise(NOTHING_IS_LEFT, backend, f"after {promise.name}: {'; '.join(left)}")

    def main() -> None:
        try:
            anyio.run(body, backend=backend)
        except BaseException as exc:  # noqa: BLE001  # handed to the caller's thread
            raised.append(exc)

    thread = threading.Thread(target=main, name=f"subagent-testing {promise.name}", daemon=True)
    thread.start()
    thread.join(subject.patience + _END)
    if thread.is_alive():
        # The documented way to the stack of another thread, whatever its name.
        frame = sys._current_frames().get(thread.ident or 0)  # pyright: ignore[reportPrivateUsage]
        where = "".join(traceback.format_stack(frame)[-3:]) if frame else ""
        raise BrokenPromise(promise.name, backend, f"the event loop did not end: it is at\n{where}")
    for exc in raised:
        if isinstance(exc, BrokenPromise | NotApplicable):
            raise exc
        raise BrokenPromise(promise.name, backend, _said(exc)) from exc
    if said:
        raise BrokenPromise(promise.name, backend, f"the event loop was told of an error: {'; '.join(said)}")


def _heard(context: dict[str, Any]) -> str:
    exc = context.get("exception")
    return _said(exc) if isinstance(exc, BaseException) else str(context.get("message"))


def _said(exc: BaseException) -> str:
    if isinstance(exc, BaseExceptionGroup):
        return "; ".join(map(_said, cast("BaseExceptionGroup[BaseException]", exc).exceptions))
    if isinstance(exc, TimeoutError) and not str(exc):
        return "it took too long"
    return str(exc) if type(exc) is AssertionError else f"{type(exc).__name__}: {exc}"
