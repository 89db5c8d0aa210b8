"""What the seam itself costs, per run and per event.  A prototype had 80 µs and 1.2 µs: those are the goals."""

from __future__ import annotations

import time

import anyio
import anyio.lowlevel

import subagents
from benchmarks._measure import side_by_side
from subagents import Link, Result, Task, ToolEvent

RUNS, CHUNKS, PER_CHUNK = 500, 200, 437  # 437 lines of 150 bytes fill one 64 KiB read


class Instant(subagents.Provider):
    """Completes at once."""

    name = "instant"

    async def drive(self, task: Task, link: Link) -> None:
        link.ready()
        link.finish(Result.completed("x"))


class Burst(subagents.Provider):
    """Emits as an engine does that is read in chunks of 64 KiB."""

    name = "burst"

    async def drive(self, task: Task, link: Link) -> None:
        link.ready()
        for chunk in range(CHUNKS):
            for i in range(PER_CHUNK):
                link.emit(ToolEvent("t", f"step {chunk} {i}"))
            await anyio.lowlevel.checkpoint()
        link.finish(Result.completed("x"))


def per_run(backend: str) -> float:
    async def main() -> float:
        provider = Instant()
        began = time.perf_counter()
        for _ in range(RUNS):
            async with provider.start("x", cwd="/") as run:
                await run.result()
        return (time.perf_counter() - began) / RUNS * 1e6

    return anyio.run(main, backend=backend)


def bare_task(backend: str) -> float:
    async def main() -> float:
        began = time.perf_counter()
        for _ in range(RUNS):
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.lowlevel.checkpoint)
        return (time.perf_counter() - began) / RUNS * 1e6

    return anyio.run(main, backend=backend)


def per_event(backend: str) -> float:
    async def main() -> float:
        seen = 0
        began = time.perf_counter()
        async with Burst().start("x") as run:
            async for event in run.events():
                seen += event.type == "tool"
        taken = time.perf_counter() - began
        assert seen == CHUNKS * PER_CHUNK, f"{CHUNKS * PER_CHUNK - seen} events were lost"
        return taken / seen * 1e6

    return anyio.run(main, backend=backend)


def bare_events() -> float:
    began = time.perf_counter()
    kept = [ToolEvent("t", f"step {c} {i}") for c in range(CHUNKS) for i in range(PER_CHUNK)]
    return (time.perf_counter() - began) / len(kept) * 1e6


def main() -> None:
    side_by_side(
        "one run of the seam",
        "µs",
        {
            "a task group with one task": lambda: bare_task("asyncio"),
            "run, asyncio": lambda: per_run("asyncio"),
            "run, trio": lambda: per_run("trio"),
        },
    )
    side_by_side(
        "one event, emitted and read",
        "µs",
        {
            "only making the event": bare_events,
            "event, asyncio": lambda: per_event("asyncio"),
            "event, trio": lambda: per_event("trio"),
        },
    )


if __name__ == "__main__":
    main()
