"""The Runtime under attack: its limits, its end, and what is registered with it."""

from __future__ import annotations

import asyncio
import contextvars
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from subagent_testing import Scripted, scripted
from subagents import (
    Busy,
    DuplicateProvider,
    Link,
    Result,
    Run,
    Runtime,
    StartError,
    SubagentError,
    Task,
    TaskError,
    UnknownProvider,
    Unsupported,
)

pytestmark = pytest.mark.anyio


class Gauge(Scripted):
    """How many of its runs are alive at once; each works until `go`, and then takes a while to be gone."""

    def __init__(self) -> None:
        super().__init__(self._work)
        self.alive = self.peak = 0
        self.go = anyio.Event()

    async def _work(self, task: Task, link: Link) -> None:
        self.alive += 1
        self.peak = max(self.peak, self.alive)
        link.ready()
        try:
            await self.go.wait()
            link.finish(Result.completed("done"))
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
            self.alive -= 1


async def _turns(n: int = 20) -> None:
    for _ in range(n):
        await anyio.lowlevel.checkpoint()


async def test_no_more_than_the_limit_are_alive_and_a_slot_is_free_only_when_its_run_is_closed() -> None:
    gauge = Gauge()
    gauge.go.set()
    results: list[Result] = []
    async with Runtime([gauge], limit=2) as runtime:

        async def one() -> None:
            results.append(await runtime.run("scripted", "x"))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(one)
    assert (gauge.peak, gauge.alive, len(results)) == (2, 0, 20)
    assert all(r.ok for r in results)


async def test_a_verdict_does_not_free_the_slot_while_teardown_is_held() -> None:
    release = anyio.Event()
    async with Runtime([Scripted(scripted.lingers(until=release))], limit=1) as runtime:
        run = await runtime.start("scripted", "x")
        assert (await run.result()).ok
        with pytest.raises(Busy, match="the runtime has its 1 runs"):
            await runtime.start("scripted", "y", wait=False)
        release.set()
        with anyio.fail_after(5):
            await run.closed()
            await (await runtime.start("scripted", "y", wait=False)).closed()
        assert dict(runtime.runs) == {}


async def test_a_full_runtime_lets_the_next_one_in_by_order_of_arrival() -> None:
    provider = Scripted(scripted.lasts())
    entered: list[str] = []
    async with Runtime([provider], limit=1) as runtime:
        run = await runtime.start("scripted", "first")

        async def one(prompt: str) -> None:
            mine = await runtime.start("scripted", prompt)
            entered.append(prompt)
            mine.cancel()

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                for prompt in ("second", "third"):
                    tasks.start_soon(one, prompt)
                    await _turns()
                assert entered == []
                run.cancel()
    assert entered == ["second", "third"]


async def test_cancelling_who_waits_for_a_slot_starts_nothing_and_takes_none() -> None:
    provider = Scripted(scripted.lasts())
    async with Runtime([provider], limit=1) as runtime:
        run = await runtime.start("scripted", "first")
        with anyio.move_on_after(0.05) as scope:
            await runtime.start("scripted", "second")
        assert scope.cancelled_caught
        run.cancel()
        with anyio.fail_after(5):
            await run.closed()
            await runtime.start("scripted", "third", wait=False)
    assert [t.prompt for t in provider.tasks] == ["first", "third"]


async def test_a_start_that_fails_gives_its_slot_back() -> None:
    provider = Scripted(scripted.by_prompt(scripted.SCRIPTS))
    async with Runtime([provider], limit=1, per_folder=1) as runtime:
        for _ in range(3):
            with pytest.raises(StartError, match="not signed in"):
                await runtime.start("scripted", "refuses", wait=False)
            failure = (await runtime.run("scripted", "refuses", wait=False)).failure
            assert failure is not None
            assert failure.kind == "auth"
        assert (await runtime.run("scripted", "completes", wait=False)).ok


async def test_a_start_that_the_seam_refuses_gives_its_slot_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Runtime([Scripted(scripted.completes())], limit=1) as runtime:
        monkeypatch.setenv("SUBAGENT_DEPTH", "1")
        with pytest.raises(StartError, match="policy"):
            await runtime.start("scripted", "x", wait=False)
        monkeypatch.delenv("SUBAGENT_DEPTH")
        assert dict(runtime.runs) == {}
        assert (await runtime.run("scripted", "x", wait=False)).ok


async def test_a_caller_cancelled_while_its_run_starts_gives_the_slot_back() -> None:
    provider = Scripted(scripted.never_ready())
    async with Runtime([provider], limit=1) as runtime:
        with anyio.move_on_after(0.05):
            await runtime.start("scripted", "x")
        assert (provider.started, provider.ended, dict(runtime.runs)) == (1, 1, {})


async def test_a_folder_has_a_limit_of_its_own_and_whoever_waits_for_it_holds_up_nobody_else(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    alias = tmp_path / "alias"
    alias.symlink_to(here)
    async with Runtime([Scripted(scripted.lasts())], limit=2, per_folder=1) as runtime:
        run = await runtime.start("scripted", "x", cwd=here)
        with pytest.raises(Busy, match="here has its 1 runs"):
            await runtime.start("scripted", "x", cwd=alias, wait=False)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: runtime.start("scripted", "waits for the folder", cwd=here))
            await _turns()
            with anyio.fail_after(5):
                await runtime.start("scripted", "x", cwd=there, wait=False)
                run.cancel()


async def test_a_run_outlives_the_task_and_the_scope_that_started_it() -> None:
    provider = Scripted(scripted.lasts())
    box: list[Run] = []
    async with Runtime([provider]) as runtime:

        async def begin() -> None:
            with anyio.CancelScope() as scope:
                box.append(await runtime.start("scripted", "x"))
                scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(begin)
        await _turns()
        assert provider.ended == 0
        assert list(runtime.runs.values()) == box
    assert provider.ended == 1
    assert (await box[0].result()).stop_reason == "aborted"


async def test_context_variables_of_who_starts_it_reach_drive() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    async with Runtime([Scripted(scripted.tells_context(variable))]) as runtime:
        variable.set("request 7")
        assert (await runtime.run("scripted", "x")).output == "request 7"


async def test_run_is_stopped_with_its_caller() -> None:
    provider = Scripted(scripted.lasts())
    async with Runtime([provider], limit=1) as runtime:
        with anyio.move_on_after(0.05):
            await runtime.run("scripted", "x")
        assert (provider.ended, dict(runtime.runs)) == (1, {})


async def test_when_it_closes_nothing_is_left_and_nothing_starts_any_more() -> None:
    provider = Scripted(scripted.lasts())
    failed: list[SubagentError] = []
    runs: list[Run] = []
    runtime = Runtime([provider], limit=2)
    with pytest.raises(SubagentError, match="not open"):
        await runtime.start("scripted", "x")
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:

            async def late() -> None:
                try:
                    await runtime.start("scripted", "waits for a slot")
                except SubagentError as exc:
                    failed.append(exc)

            async with runtime:
                runs.extend([await runtime.start("scripted", "x") for _ in range(2)])
                tasks.start_soon(late)
                await _turns()
    assert [(await r.closed()).stop_reason for r in runs] == ["aborted", "aborted"]
    assert (provider.started, provider.ended, dict(runtime.runs)) == (2, 2, {})
    assert [str(e) for e in failed] == ["the runtime is closed"]
    with pytest.raises(SubagentError, match="not open"):
        await runtime.start("scripted", "x")
    with pytest.raises(SubagentError, match="entered once"):
        await runtime.__aenter__()


async def test_a_run_that_never_ends_holds_up_neither_the_end_nor_who_waits_for_its_slot() -> None:
    release = anyio.Event()
    failed: list[SubagentError] = []
    runs: list[Run] = []
    runtime = Runtime([Scripted(scripted.swallows_for_ever(release), leave_timeout=0.1)], limit=1)
    try:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:

                async def late() -> None:
                    try:
                        await runtime.start("scripted", "waits for a slot")
                    except SubagentError as exc:
                        failed.append(exc)

                async with runtime:
                    runs.append(await runtime.start("scripted", "x"))
                    tasks.start_soon(late)
                    await _turns()
        assert (await runs[0].closed()).evidence.left_behind
        assert [str(e) for e in failed] == ["the runtime is closed"]
    finally:
        release.set()


async def test_closing_waits_once_for_all_that_do_not_end() -> None:
    release = anyio.Event()
    try:
        with anyio.fail_after(5):
            async with Runtime([Scripted(scripted.swallows_for_ever(release), leave_timeout=1)], limit=20) as runtime:
                for _ in range(20):
                    await runtime.start("scripted", "x")
    finally:
        release.set()


async def test_run_comes_back_although_teardown_after_the_verdict_never_ends() -> None:
    release = anyio.Event()

    async def script(task: Task, link: Link) -> None:
        link.ready()
        link.finish(Result.completed("done"))
        await scripted.swallows_for_ever(release)(task, link)

    try:
        async with Runtime([Scripted(script, leave_timeout=0.1)]) as runtime:
            with anyio.fail_after(5):
                result = await runtime.run("scripted", "x")
        assert (result.output, result.evidence.left_behind) == ("done", True)
    finally:
        release.set()


async def test_closing_while_it_is_cancelled_still_leaves_nothing() -> None:
    provider = Scripted(scripted.lasts())
    with anyio.CancelScope() as scope:
        async with Runtime([provider]) as runtime:
            for _ in range(3):
                await runtime.start("scripted", "x")
            scope.cancel()
    assert (provider.started, provider.ended) == (3, 3)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("times", [1, 2, 5])
async def test_closing_while_it_is_cancelled_raw_still_leaves_nothing(times: int) -> None:
    provider, entered, leaving = Scripted(scripted.lasts()), asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with Runtime([provider]) as runtime:
            for _ in range(3):
                await runtime.start("scripted", "x")
            entered.set()
            await leaving.wait()

    task = asyncio.create_task(hold())
    await entered.wait()
    leaving.set()
    for _ in range(times):
        await asyncio.sleep(0)
        task.cancel()
    with anyio.fail_after(10):
        await asyncio.wait([task])
    assert task.cancelled()
    assert (provider.started, provider.ended) == (3, 3)


async def test_unregistering_stops_new_starts_and_leaves_runs_alone() -> None:
    provider = Scripted(scripted.lasts(), name="coder")
    async with Runtime([provider]) as runtime:
        run = await runtime.start("coder", "x")
        runtime.unregister("coder")
        with pytest.raises(UnknownProvider, match=r"no provider 'coder' is registered.*none"):
            await runtime.start("coder", "y")
        with pytest.raises(UnknownProvider):
            runtime.unregister("coder")
        await _turns()
        assert provider.ended == 0
        runtime.register(Scripted(scripted.completes(), name="coder"))
        assert (await runtime.run("coder", "z")).ok
        assert list(runtime.runs) == [run.id]


async def test_names_are_given_once_and_bad_ones_not_at_all() -> None:
    runtime = Runtime([Scripted(scripted.completes(), name="coder")])
    with pytest.raises(DuplicateProvider, match="coder"):
        runtime.register(Scripted(scripted.completes(), name="coder"))
    with pytest.raises(TaskError, match="kebab-case"):
        runtime.register(Scripted(scripted.completes(), name="My Coder"))
    assert list(runtime) == list(runtime.providers) == ["coder"]
    for limit in (0, -1):
        with pytest.raises(ValueError, match="at least 1"):
            Runtime(limit=limit)


async def test_what_a_provider_cannot_do_is_refused_before_a_slot_is_taken() -> None:
    async with Runtime([Scripted(scripted.completes())], limit=1) as runtime:
        with pytest.raises(Unsupported, match="model"):
            await runtime.start("scripted", "x", model="large")
        assert (await runtime.run("scripted", "x", wait=False)).ok
