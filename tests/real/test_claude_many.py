"""Several runs of the real Claude Code at once: each has its own answer, and the end of one is nobody else's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.lowlevel
import pytest
from claude_kit import KEY, against, bash
from endings_claude import engines
from endings_kit import Kin, names
from server_kit import served

from subagent_claude_code import ClaudeCode
from subagent_process import child_env, run_command
from subagent_testing import Gate, ScriptedMessages, Snapshot, messages, private_temp
from subagents import PermissionRequest, Result, Run, Runtime

pytestmark = [pytest.mark.anyio, pytest.mark.long]

RUNS = range(4)
CANCELLED = 2
OTHERS = set(RUNS) - {CANCELLED}


def asked(body: dict[str, Any]) -> tuple[int, int]:
    """Which run this is, and how many commands it has run."""
    (number,) = set(re.findall(r"task number (\d)", str(body["messages"])))
    return int(number), str(body["messages"]).count("'tool_result'")


class Model:
    """Of all runs: two commands each, with a gate between them; the one that is cancelled grows its kin instead."""

    def __init__(self, kin: Kin) -> None:
        self.gate, self._kin = Gate(), kin

    def __call__(self, body: dict[str, Any], _: int) -> messages.Turn:
        number, commands = asked(body)
        write = bash(f"echo {number} >> {number}.txt")
        if commands == 0:
            return [bash(self._kin.command) if number == CANCELLED else write]
        return [self.gate, write] if commands == 1 else f"answer {number}"


async def test_the_cancel_of_one_leaves_the_others_untouched(tmp_path: Path, work: Path) -> None:
    results: dict[int, Result] = {}
    runs: dict[int, Run] = {}

    async def one(provider: ClaudeCode, number: int) -> None:
        async with provider.start(f"task number {number}", cwd=work, permission="allow") as run:
            runs[number] = run
            results[number] = await run.closed()

    with Kin(tmp_path / "kin") as kin, ScriptedMessages(model := Model(kin)) as api, anyio.fail_after(100):
        provider = against(api, eof_grace=10)
        async with anyio.create_task_group() as tasks:
            for number in RUNS:
                tasks.start_soon(one, provider, number)
            await kin.grow()
            await api.request(2 * len(RUNS) - 1, within=60)  # each other one has run its first command, and thinks
            assert len(engines(work)) == len(RUNS)
            runs[CANCELLED].cancel()
            await runs[CANCELLED].closed()
            assert await kin.survivors() == []
            assert len(engines(work)) == len(RUNS) - 1
            model.gate.release()
    assert engines(work) == []
    assert {n: results[n].output for n in OTHERS} == {n: f"answer {n}" for n in OTHERS}
    assert {n: r.stop_reason for n, r in results.items()} == {
        **dict.fromkeys(OTHERS, "completed"),
        CANCELLED: "aborted",
    }
    assert {name: (work / name).read_text() for name in names(work)} == {f"{n}.txt": f"{n}\n{n}\n" for n in OTHERS}


SERVER = """
import sys
from subagent_testing import ScriptedMessages

with ScriptedMessages("done") as api:
    print(api.base_url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def temp() -> Iterator[Path]:
    """All that is temporary, of this program and of its children, so that what is left can be told."""
    with private_temp() as folder:
        yield folder


async def test_twelve_through_a_runtime_leak_nothing(temp: Path, work: Path) -> None:
    outputs: list[str] = []
    with served(SERVER) as address:
        await run_command(["true"], env=child_env(), timeout=20)  # who starts children is started once, and stays
        before = Snapshot.take(temp)
        with anyio.fail_after(100):
            async with Runtime([ClaudeCode(base_url=address, api_key=KEY)], limit=4) as runtime:

                async def one() -> None:
                    outputs.append((await runtime.run("claude-code", "x", cwd=work)).output)

                async with anyio.create_task_group() as tasks:
                    for _ in range(12):
                        tasks.start_soon(one)
        left = [item for item in before.left(temp, within=0) if not item.startswith("thread AnyIO")]
    assert outputs == ["done"] * 12
    assert left == []
    assert engines(work) == []


async def test_a_text_of_twelve_megabytes_arrives_whole(work: Path) -> None:
    text = "0123456789ab" * 1_000_000
    with ScriptedMessages([[messages.text(text)]]) as api, anyio.fail_after(100):
        async with against(api).start("x", cwd=work) as run:
            told = "".join([event.text async for event in run.events() if event.type == "text"])
        result = await run.closed()
    assert result.output == told == text
    assert result.evidence.process is not None
    assert result.evidence.process.clean


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_200_000_pieces_of_text_stall_nobody_and_a_permission_is_asked_while_nobody_reads(work: Path) -> None:
    text, asked_for = "word " * 200_000, anyio.Event()

    def decide(request: PermissionRequest) -> Literal["allow"]:
        asked_for.set()
        return "allow"

    with ScriptedMessages([[messages.text(text, chunks=200_000), bash("touch done")], "done"]) as api:
        with anyio.fail_after(110):
            async with against(api).start("x", cwd=work, permission=decide) as run:
                await asked_for.wait()  # nobody has read an event yet
                told = ""
                async for event in run.events():
                    if event.type == "text":
                        told += event.text
                        await anyio.lowlevel.checkpoint()
                result = await run.closed()
    assert result.output == "done"
    assert (work / "done").exists()
    assert told == f"{text}done"
    assert result.evidence.events_lost == 0
