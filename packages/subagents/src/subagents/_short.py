"""The short forms: `run`, `start`, `run_sync`, `as_tool`."""

from __future__ import annotations

import contextvars
import inspect
import json
import signal
import threading
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any, Unpack

import anyio

from subagents import _host
from subagents._permission import Permission
from subagents._provider import Provider
from subagents._registry import create
from subagents._result import Result
from subagents._run import Run
from subagents._task import Task, TaskFields
from subagents.errors import StartError


def start(
    provider: Provider | str, task: Task | str, /, *, permission: Permission | None = None, **fields: Unpack[TaskFields]
) -> Run:
    """A run of the task, to be entered: `async with subagents.start("local", "…") as run:`.

    Args:
        provider: an instance, or the name of an installed provider.
        task: the work, or its prompt.
        permission: who answers when the child asks; None is `"reject"`.
        fields: fields of the Task, on top of it.

    Raises:
        RegistryError: no such provider.
        TaskError: the task cannot be right, or asks for what the provider does not do.
    """
    found = create(provider) if isinstance(provider, str) else provider
    return found.start(task, permission=permission, **fields)


async def run(
    provider: Provider | str, task: Task | str, /, *, permission: Permission | None = None, **fields: Unpack[TaskFields]
) -> Result:
    """Do the task and return its result when nothing of the child is left.

    Never raises for anything that the child did: a start that failed is an `error` result.  Cancelling it stops the
    run.

    Raises:
        RegistryError, TaskError: as `start`.
    """
    return await complete(start(provider, task, permission=permission, **fields))


async def complete(handle: Run) -> Result:
    """The result of a run that is not entered yet, when nothing is left; a failed start is folded into it."""
    try:
        await handle.__aenter__()
    except StartError:
        return await handle.closed()
    return await handle.see_through()


def run_sync(
    provider: Provider | str, task: Task | str, /, *, permission: Permission | None = None, **fields: Unpack[TaskFields]
) -> Result:
    """`run` for code that is not asynchronous; also inside a running loop, which it blocks, in a thread of its own.

    The caller's context variables reach the provider and the callbacks.  Ctrl-C stops the run; then
    `KeyboardInterrupt` is raised where no loop was running, and otherwise whatever the loop's own handler does.

    Raises:
        RegistryError, TaskError: as `start`.
    """

    def make() -> Run:
        return start(provider, task, permission=permission, **fields)

    return anyio.run(complete, make()) if _host.running() is None else _in_thread(make)


def _in_thread(make: Callable[[], Run]) -> Result:
    context, box, ctrl_c = contextvars.copy_context(), list[Result | BaseException](), _CtrlC()

    async def body() -> Result:
        handle = make()  # in this loop, not in the caller's: a Run belongs to the loop where it is made
        ctrl_c.cancels(handle)
        return await complete(handle)

    def main() -> None:
        # Not context.run(anyio.run, ...): it would take sniffio's word that a loop is running here.
        for variable, value in context.items():
            if not variable.name.startswith(("sniffio", "current_async_library")):
                variable.set(value)
        try:
            box.append(anyio.run(body))
        except BaseException as exc:  # noqa: BLE001  # it is raised in the caller's thread
            box.append(exc)

    thread = threading.Thread(target=main, name="subagents.run_sync")
    with ctrl_c:
        thread.start()
        thread.join()
    if isinstance(box[0], BaseException):
        raise box[0]
    return box[0]


class _CtrlC:
    """While it is entered, Ctrl-C cancels the run; when the run is over, the handler that was there gets its turn.

    A running loop's own handler only marks a task, and the loop is blocked: nobody would look at the mark.
    """

    def __init__(self) -> None:
        self._handle: Run | None = None
        self._caught = False
        self._before: Any = None
        self._here = threading.current_thread() is threading.main_thread()

    def cancels(self, handle: Run) -> None:
        self._handle = handle
        if self._caught:
            handle.cancel("interrupted")

    def __enter__(self) -> None:
        if self._here:
            self._before = signal.signal(signal.SIGINT, self._catch)

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self._caught = True
        if self._handle is not None:
            self._handle.cancel("interrupted")

    def __exit__(self, *_: object) -> None:
        if not self._here:
            return
        signal.signal(signal.SIGINT, self._before)
        if not self._caught:
            return
        if callable(self._before):
            # Called and not raised again: a loop with a handler of its own has seen the signal on its wake-up pipe
            # already, and would take a second one for a second Ctrl-C.
            self._before(signal.SIGINT, inspect.currentframe())
        elif self._before == signal.SIG_DFL:
            signal.raise_signal(signal.SIGINT)


def as_tool(
    provider: Provider | str,
    *,
    name: str | None = None,
    description: str | None = None,
    permission: Permission | None = None,
    **fields: Unpack[TaskFields],
) -> Callable[[str], Awaitable[str]]:
    """A typed async function `(task: str) -> str` that agent frameworks take as a tool.

    It returns the answer (with an `output_schema`, the value as JSON) and raises `RunFailed` when there is none.

    Args:
        provider: an instance, or the name of an installed provider.
        name: of the function; by default `delegate_to_<provider>`.
        description: its docstring, which a model will read.
        permission: who answers when the child asks.
        fields: fields of the Task for every call.
    """
    found = create(provider) if isinstance(provider, str) else provider

    async def tool(task: str) -> str:
        result = (await run(found, task, permission=permission, **fields)).raise_for_failure()
        return result.output if result.structured is None else json.dumps(result.structured)

    tool.__name__ = tool.__qualname__ = name or f"delegate_to_{found.name.replace('-', '_')}"
    tool.__doc__ = description or (
        f"Hand a self-contained task to another agent ({found.name}) and return its answer.\n\n"
        "Args:\n    task: everything that it needs to know, in words."
    )
    # Frameworks read the types at run time, where the future import has made them text.
    tool.__annotations__ = {"task": str, "return": str}
    return tool
