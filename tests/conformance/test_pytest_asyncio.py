"""pytest-asyncio in strict mode: fixtures hold a run or a Runtime open, entered in one task and left in another."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from subagent_testing import Scripted, scripted
from subagents import Run, Runtime

PROVIDER = Scripted(scripted.by_prompt(scripted.SCRIPTS))


@pytest_asyncio.fixture
async def open_run() -> AsyncIterator[Run]:
    provider = Scripted(scripted.lasts())
    async with provider.start("x") as run:
        yield run
    assert provider.ended == 1


@pytest.mark.asyncio
async def test_a_fixture_holds_a_run_open(open_run: Run) -> None:
    open_run.cancel("seen enough")
    assert (await open_run.closed()).stop_reason == "aborted"


@pytest.mark.asyncio
async def test_a_fixture_leaves_a_run_that_the_test_left_alone(open_run: Run) -> None:
    assert "running" in repr(open_run)


def test_a_plain_test_may_cancel_the_run_of_its_fixture(open_run: Run) -> None:
    open_run.cancel("between two turns of the loop")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime([PROVIDER], limit=2) as runtime:
        yield runtime
    assert PROVIDER.started == PROVIDER.ended == 3
    assert dict(runtime.runs) == {}


@pytest.mark.asyncio(loop_scope="module")
async def test_a_module_holds_a_runtime_open(runtime: Runtime) -> None:
    assert (await runtime.run("scripted", "completes")).ok


@pytest.mark.asyncio(loop_scope="module")
async def test_a_run_of_one_test_is_still_there_in_the_next(runtime: Runtime) -> None:
    await runtime.start("scripted", "lasts")


@pytest.mark.asyncio(loop_scope="module")
async def test_and_ends_with_the_runtime_or_when_it_is_cancelled(runtime: Runtime) -> None:
    (run,) = runtime.runs.values()
    assert "running" in repr(run)
    run.cancel()
    await run.closed()
    await runtime.start("scripted", "lasts")  # left open: the fixture's end ends it
