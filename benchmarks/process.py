"""What owning a child costs, beside bare Popen and anyio.

Goals: the first child at most 3 times `python -I -S -c pass`; each later one at most 2.5 ms to the first byte, and 4 ms
from spawn to result; 300 at once in about half a second, under 1 MB of PSS each, no thread per run.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream

from benchmarks._measure import side_by_side
from subagent_process import OwnedProcess, child_env, open_process

# /bin/sh starts in about a millisecond: what is measured is the owning, not the child.
ECHO = ["/bin/sh", "-c", "echo x; read line"]
ENV = child_env()
COLD = """
import time
began = time.perf_counter()
import anyio
from subagent_process import child_env, open_process
async def main():
    began = time.perf_counter()
    async with await open_process(["/bin/sh", "-c", "echo x"], env=child_env()) as child:
        await child.stdout.receive()
        print((time.perf_counter() - began) * 1e3)
anyio.run(main)
"""


def popen() -> float:
    began = time.perf_counter()
    with subprocess.Popen(
        ECHO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV, start_new_session=True
    ) as child:
        assert child.stdout is not None
        child.stdout.read(1)
        return (time.perf_counter() - began) * 1e3


def interpreter() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
    return (time.perf_counter() - began) * 1e3


def cold() -> float:
    done = subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, check=True)
    return float(done.stdout)


async def _first_byte(stream: ByteReceiveStream | None) -> None:
    assert stream is not None
    await stream.receive()


async def anyio_once() -> tuple[float, float]:
    began = time.perf_counter()
    async with await anyio.open_process(ECHO, env=ENV, start_new_session=True) as child:
        await _first_byte(child.stdout)
        first = (time.perf_counter() - began) * 1e3
        assert child.stdin is not None
        await child.stdin.aclose()
        await child.wait()
    return first, (time.perf_counter() - began) * 1e3


async def owned_once() -> tuple[float, float]:
    began = time.perf_counter()
    async with await open_process(ECHO, env=ENV) as child:
        await _first_byte(child.stdout)
        first = (time.perf_counter() - began) * 1e3
        await child.stdin.aclose()
        await child.wait()
    return first, (time.perf_counter() - began) * 1e3


async def held_once() -> tuple[float, float]:
    """The leader has ended and a relative holds its pipes: from its last word to the exit, and to the proof."""
    async with await open_process(["/bin/sh", "-c", "sleep 60 & echo x"], env=ENV) as child:
        await _first_byte(child.stdout)
        began = time.perf_counter()
        await child.wait()
        ended = (time.perf_counter() - began) * 1e3
    return ended, (time.perf_counter() - began) * 1e3


def medians() -> None:
    """Warm children, all in one loop, in turn."""
    rows: dict[str, list[float]] = {}

    async def main() -> None:
        await owned_once()
        for _ in range(101):
            rows.setdefault("Popen, first byte", []).append(popen())
            for name, once in (("anyio", anyio_once), ("owned", owned_once)):
                first, whole = await once()
                rows.setdefault(f"{name}, first byte", []).append(first)
                rows.setdefault(f"{name}, to the end", []).append(whole)
            ended, proved = await held_once()
            rows.setdefault("owned, pipes held: exit", []).append(ended)
            rows.setdefault("owned, pipes held: proof", []).append(proved)

    anyio.run(main)
    side_by_side("one warm child", "ms", {name: iter(values).__next__ for name, values in rows.items()}, rounds=101)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def pss_of_supervisors(children: list[OwnedProcess]) -> float:
    """MB of PSS of their keepers, warden and guard, over the number of children."""
    keepers = {parent(child.pid) for child in children}
    wardens = {parent(keeper) for keeper in keepers}
    helpers = keepers | wardens | {parent(warden) for warden in wardens}
    pss = [Path(f"/proc/{pid}/smaps_rollup").read_text().partition("\nPss:")[2].split()[0] for pid in helpers]
    return sum(map(int, pss)) / 1024 / len(children)


def many(n: int = 300) -> None:
    async def main() -> None:
        children: list[OwnedProcess] = []

        async def one() -> None:
            child = await open_process(ECHO, env=ENV)
            await child.stdout.receive()
            children.append(child)

        await owned_once()
        began = time.perf_counter()
        async with anyio.create_task_group() as group:
            for _ in range(n):
                group.start_soon(one)
        up = time.perf_counter() - began
        pss, threads = pss_of_supervisors(children), threading.active_count()
        began = time.perf_counter()
        async with anyio.create_task_group() as group:
            for child in children:
                group.start_soon(child.aclose)
        down = time.perf_counter() - began
        assert all(child.report and child.report.clean for child in children)
        print(f"\n{n} at once: up {up * 1e3:.0f} ms, down {down * 1e3:.0f} ms")
        print(f"  {pss:.2f} MB of PSS each, {threads} thread(s)")

    anyio.run(main)


def main() -> None:
    first = {"python -I -S -c pass": interpreter, "owned, cold": cold}
    side_by_side("the first child of a harness", "ms", first, rounds=15)
    medians()
    many()


if __name__ == "__main__":
    main()
