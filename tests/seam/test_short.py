"""The short forms."""

from __future__ import annotations

import contextvars
import inspect
import os
import signal
import subprocess
import sys
import textwrap
import threading
from typing import get_type_hints

import anyio
import anyio.lowlevel
import pytest

import subagents
from subagents import Failure, Link, Result, RunFailed, StartError, Task, TaskError

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


class Echo(subagents.Provider):
    """Answers with its prompt, or fails as it is told."""

    name = "echo"
    capabilities = frozenset({"output_schema"})

    async def drive(self, task: Task, link: Link) -> None:
        match task.prompt:
            case "start":
                raise StartError(Failure("auth", "start", "sign in"))
            case "who":
                link.finish(Result.completed(WHO.get()))
            case "teardown":
                link.ready()
                link.finish(Result.completed("early"))
                await anyio.lowlevel.checkpoint()
                raise RuntimeError("late")
            case text:
                link.ready()
                link.finish(Result.completed(text))


@pytest.mark.anyio
async def test_run_returns_the_result_when_nothing_is_left() -> None:
    with anyio.fail_after(5):
        result = await subagents.run(Echo(), "hello", label="x")
        late = await subagents.run(Echo(), "teardown")
    assert (result.stop_reason, result.output) == ("completed", "hello")
    assert late.ok
    assert "RuntimeError: late" in late.evidence.notes[0]


@pytest.mark.anyio
async def test_run_folds_a_failed_start_and_raises_for_a_wrong_task() -> None:
    with anyio.fail_after(5):
        result = await subagents.run(Echo(), "start")
    assert result.failure == Failure("auth", "start", "sign in")
    with pytest.raises(TaskError):
        await subagents.run(Echo(), "")


def test_run_sync_without_a_loop() -> None:
    assert subagents.run_sync(Echo(), "hello").output == "hello"
    failure = subagents.run_sync(Echo(), "start").failure
    assert failure is not None
    assert failure.kind == "auth"


@pytest.mark.anyio
async def test_run_sync_inside_a_running_loop_keeps_the_context_variables() -> None:
    WHO.set("the caller")
    assert subagents.run_sync(Echo(), "who").output == "the caller"


@pytest.mark.anyio
async def test_run_sync_restores_the_signal_handler() -> None:
    before = signal.getsignal(signal.SIGINT)
    subagents.run_sync(Echo(), "x")
    assert signal.getsignal(signal.SIGINT) is before


INTERRUPTED = """
    import asyncio, os, signal, sys, threading
    import anyio, subagents

    class Forever(subagents.Provider):
        name = "forever"
        async def drive(self, task, link):
            link.ready()
            print("ready", flush=True)
            try:
                await anyio.sleep_forever()
            finally:
                print("torn down", flush=True)

    def call():
        return subagents.run_sync(Forever(), "x")

    async def inside():
        result = call()
        print("result", result.stop_reason, flush=True)
        await anyio.sleep_forever()

    async def in_a_task():
        async with asyncio.TaskGroup() as group:
            group.create_task(inside())

    {start}
"""


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ("call()", ["ready", "torn down"]),
        ("asyncio.run(inside())", ["ready", "torn down", "result aborted"]),
        ("asyncio.run(in_a_task())", ["ready", "torn down", "result aborted"]),
        ("anyio.run(inside, backend='trio')", ["ready", "torn down"]),  # trio's handler raises where it is called
    ],
)
def test_the_first_ctrl_c_stops_run_sync(start: str, says: list[str]) -> None:
    code = textwrap.dedent(INTERRUPTED).replace("{start}", start)
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            os.kill(child.pid, signal.SIGINT)
            out, err = child.communicate(timeout=20)
        finally:
            child.kill()
    assert ["ready", *out.split("\n")[:-1]] == says
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert child.returncode == -signal.SIGINT


def test_a_tool_is_a_typed_async_function() -> None:
    tool = subagents.as_tool(Echo())
    assert inspect.iscoroutinefunction(tool)
    assert tool.__name__ == "delegate_to_echo"
    assert get_type_hints(tool) == {"task": str, "return": str}
    assert "echo" in (tool.__doc__ or "")
    named = subagents.as_tool(Echo(), name="ask", description="Ask.")
    assert (named.__name__, named.__doc__) == ("ask", "Ask.")


@pytest.mark.anyio
async def test_a_tool_returns_the_answer_and_raises_when_there_is_none() -> None:
    with anyio.fail_after(5):
        assert await subagents.as_tool(Echo())("hi") == "hi"
        assert await subagents.as_tool(Echo(), output_schema={"type": "array"})("[1, 2]") == "[1, 2]"
        with pytest.raises(RunFailed, match="sign in"):
            await subagents.as_tool(Echo())("start")


def test_a_name_is_looked_up_among_the_installed_providers() -> None:
    assert subagents.start("local", "x").provider == "local"
    assert subagents.as_tool("local").__name__ == "delegate_to_local"
    with pytest.raises(subagents.UnknownProvider):
        subagents.run_sync("nope", "x")


def test_a_second_thread_may_use_run_sync() -> None:
    box: list[Result] = []
    thread = threading.Thread(target=lambda: box.append(subagents.run_sync(Echo(), "x")))
    thread.start()
    thread.join(10)
    assert box[0].output == "x"
