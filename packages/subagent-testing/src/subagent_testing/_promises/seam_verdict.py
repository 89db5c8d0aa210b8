"""The seam: from what a backend does to one honest verdict."""

from __future__ import annotations

import asyncio

import anyio

import subagents
from subagent_testing import scripted
from subagent_testing._promise import expect, expect_equal
from subagent_testing.errors import NotApplicable
from subagent_testing.scripted import Script, Scripted
from subagents import Link, Result, RunEnded, Task, ToolEvent


async def a_verdict_is_there_while_teardown_is_held() -> None:
    """`result` returns on `finish`, while the teardown after it still goes on; `closed` waits for that."""
    release = anyio.Event()
    provider = Scripted(scripted.lingers(until=release))
    async with provider.start("x") as run:
        try:
            expect((await run.result()).ok, "it did not complete")
            expect_equal(provider.ended, 0, "how often drive has ended")
        finally:
            release.set()
        expect((await run.closed()).ok, "it did not complete")
        expect_equal(provider.ended, 1, "how often drive has ended when the run is closed")


async def the_first_verdict_counts() -> None:
    """A second `finish`, an exception and a cancellation after the verdict change nothing about it."""

    async def twice(task: Task, link: Link) -> None:
        link.ready()
        link.finish(Result.completed("first"))
        link.finish(Result("refusal"))
        raise OSError("the folder could not be removed")

    async with Scripted(twice).start("x") as run:
        await run.closed()
        run.cancel()
        expect_equal((await run.result()).output, "first", "the answer")
    notes = (await run.closed()).evidence.notes
    expect(
        any("could not be removed" in n for n in notes), f"what failed after the verdict is not in the notes: {notes}"
    )


async def no_verdict_is_an_error_of_kind_exit() -> None:
    """`drive` ending without `finish` is an `error` of kind `exit`."""
    await _ends_as(scripted.ends_silently(), "exit", "without a result")


async def an_exception_is_an_error() -> None:
    """What `drive` raises after `ready` is an `error` with its message, out of whatever groups it was in."""

    async def grouped(task: Task, link: Link) -> None:
        link.ready()
        async with anyio.create_task_group() as outer, anyio.create_task_group() as inner:
            outer.start_soon(anyio.sleep_forever)
            inner.start_soon(scripted.raises(lambda: ConnectionError("the server hung up"), ready=False), task, link)

    await _ends_as(scripted.raises(lambda: ValueError("unexpected answer")), "unknown", "unexpected answer")
    await _ends_as(grouped, "network", "the server hung up")


async def a_stray_cancelled_error_is_an_error() -> None:
    """A `CancelledError` that nobody asked for is an `error`, never `aborted`, and cancels nobody."""
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        raise NotApplicable("trio has no cancellation that anybody can raise")
    await _ends_as(scripted.strays(), "unknown", "CancelledError")
    failure = (await subagents.run(Scripted(scripted.raises(asyncio.CancelledError, ready=False)), "x")).failure
    expect(failure is not None and failure.stage == "start", f"before ready it is {failure}")


async def _ends_as(script: Script, kind: str, message: str) -> None:
    async with Scripted(script).start("x") as run:
        result = await run.result()
    failure = result.failure
    if result.stop_reason != "error" or failure is None:
        raise AssertionError(f"it ended as {result.stop_reason}, and an error was promised")
    expect_equal((failure.kind, failure.stage), (kind, "run"), "kind and stage")
    expect(message in failure.message, f"the message does not say {message!r}: {failure.message}")


async def completed_needs_something_to_show() -> None:
    """`completed` without an answer, a value or an edit is an `error` of kind `output`; one successful edit will do."""
    await _ends_as(scripted.completes(""), "output", "without an answer")

    async def edits(task: Task, link: Link) -> None:
        link.ready()
        link.emit(ToolEvent("1", "write a.txt", "edit", "completed"))
        link.finish(Result.completed())

    expect((await subagents.run(Scripted(edits), "x")).ok, "an edit was not enough")


async def a_structured_answer_is_validated() -> None:
    """With an `output_schema` the seam validates the value itself, whatever the engine says."""
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    for output, ok in (('{"n": 3}', True), ('{"n": "three"}', False), ("three", False)):
        provider = Scripted(scripted.completes(output), capabilities={"output_schema"})
        result = await subagents.run(provider, "x", output_schema=schema)
        expect_equal(result.ok, ok, f"completed, for the answer {output}")
        expect_equal(result.structured, {"n": 3} if ok else None, "the value")


async def messages_arrive_in_order_until_the_verdict() -> None:
    """`send` reaches the backend in order; after the verdict it raises `RunEnded`."""
    async with Scripted(scripted.echoes(), capabilities={"send"}).start("x") as run:
        for text in ("one", "two", "stop"):
            await run.send(text)
        expect_equal((await run.result()).output, "one two stop", "what the backend heard")
        try:
            await run.send("four")
        except RunEnded:
            return
    expect(False, "a message was accepted after the verdict")
