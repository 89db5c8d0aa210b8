"""Ten runs of the real Codex at once in one program: each has its own answer, and the end of one is nobody else's."""

from __future__ import annotations

import gc
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from codex_kit import against, names, shell, told
from endings_kit import PLACEHOLDERS, Kin
from isolation_kit import engines

from subagent_codex import Codex
from subagent_testing import Gate, ScriptedResponses, Snapshot, private_temp, responses
from subagents import Result, Run

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("codex_binary"), pytest.mark.long]

RUNS = range(10)
CANCELLED = 3


@pytest.fixture
def temp() -> Iterator[Path]:
    """All that is temporary, of this program and of its children, so that what is left can be told."""
    with private_temp() as folder:
        yield folder


def asked(body: dict[str, Any]) -> tuple[int, int]:
    """Which run this is, and how many commands it has run."""
    said = body["input"]
    texts = [part["text"] for item in said if item.get("role") == "user" for part in item["content"]]
    (number,) = {found[1] for text in texts if (found := re.fullmatch(r"task (\d)", text))}
    return int(number), sum(item["type"] == "function_call_output" for item in said)


class Model:
    """Of all runs: two commands each, with a gate between them; the one that is cancelled grows its kin instead."""

    def __init__(self, kin: Kin) -> None:
        self.gate, self._kin = Gate(), kin

    def __call__(self, body: dict[str, Any], _: int) -> responses.Turn:
        number, commands = asked(body)
        write = f"echo {number} >> {number}.txt"
        match number, commands:
            case (CANCELLED, 0):
                return [shell(self._kin.command, yield_time_ms=250)]
            case (_, 0):
                return [shell(write)]
            case (_, 1):
                return [self.gate, shell(write)]
            case _:
                return f"answer {number}"


@pytest.mark.parametrize("folders", ["one folder", "ten folders"])
@pytest.mark.parametrize("sandbox", ["workspace-write", "danger-full-access"])
async def test_ten_at_once_and_the_cancel_of_one_leaves_nine_untouched(
    sandbox: str, folders: str, temp: Path, tmp_path: Path, work: Path
) -> None:
    works = [work if folders == "one folder" else work / str(number) for number in RUNS]
    results: dict[int, Result] = {}
    runs: dict[int, Run] = {}

    async def one(provider: Codex, number: int, api: ScriptedResponses) -> None:
        async with provider.start(f"task {number}", cwd=works[number]) as run:
            runs[number] = run
            results[number] = await run.closed()

    for folder in works:
        folder.mkdir(exist_ok=True)
    with Kin(tmp_path / "kin") as kin, ScriptedResponses(model := Model(kin)) as api, anyio.fail_after(100):
        provider = against(api, sandbox=sandbox)
        await told(against(api), "task 9", tmp_path) if False else None
        before = Snapshot.take(temp)
        async with anyio.create_task_group() as tasks:
            for number in RUNS:
                tasks.start_soon(one, provider, number, api)
            await api.request(2 * len(RUNS), within=60)  # each has run its first command, and thinks
            await kin.grow()
            assert len({pid for folder in works for pid in engines(folder)}) == len(RUNS)
            runs[CANCELLED].cancel()
            await runs[CANCELLED].closed()
            assert await kin.survivors() == []
            assert len({pid for folder in works for pid in engines(folder)}) == len(RUNS) - 1
            model.gate.release()
        runs.clear()
    nine = {number for number in RUNS if number != CANCELLED}
    assert {n: r.stop_reason for n, r in results.items()} == {
        **dict.fromkeys(nine, "completed"), CANCELLED: "aborted"
    }
    for number in nine:
        assert results[number].output == f"answer {number}"
        assert (works[number] / f"{number}.txt").read_text() == f"{number}\n{number}\n"
        assert results[number].evidence.notes == ()
    for result in results.values():
        report = result.evidence.process
        assert report is not None
        assert (report.steps, report.clean, report.home_removed) == (("eof",), True, True)
    assert [path for path in work.rglob("*") if path.name in PLACEHOLDERS] == []
    assert before.left(temp) == []
