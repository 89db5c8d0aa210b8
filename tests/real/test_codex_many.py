"""Ten runs of the real Codex at once in one program: each has its own answer, and the end of one is nobody else's.

Under `workspace-write` in ONE folder the engines (0.163.0) race for the empty `.git`, `.agents`, `.codex` and `.aws`
that they make for each command where these are missing: they agree on them in the temporary folder of the commands,
which is each run's own here.  One may take away what another's sandbox is about to stand on, and a command then fails
with `bwrap: Can't mount tmpfs on …/.aws: No such file or directory` (seen, 1 to 6 of 19 commands).  Where they exist
nothing is made, and nobody races.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from codex_kit import against, names, shell, shell_outputs
from endings_codex import PLACEHOLDERS
from endings_kit import Kin
from isolation_codex import engines

from subagent_codex import Codex
from subagent_process import child_env, run_command
from subagent_testing import Gate, ScriptedResponses, Snapshot, private_temp, responses
from subagents import Result, Run

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("codex_binary"), pytest.mark.long]

RUNS = range(10)
CANCELLED = 3
NINE = set(RUNS) - {CANCELLED}


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
        if commands == 0:
            return [shell(self._kin.command, yield_time_ms=250) if number == CANCELLED else shell(write)]
        return [self.gate, shell(write)] if commands == 1 else f"answer {number}"


async def ten(folder: Path, works: list[Path], sandbox: str) -> tuple[dict[int, Result], list[str]]:
    """Ten runs, one of them cancelled while all have run a command: their results, and what the commands said."""
    results: dict[int, Result] = {}
    runs: dict[int, Run] = {}

    async def one(provider: Codex, number: int) -> None:
        async with provider.start(f"task {number}", cwd=works[number]) as run:
            runs[number] = run
            results[number] = await run.closed()

    def alive() -> int:
        return len({pid for work in set(works) for pid in engines(work)})

    with Kin(folder / "kin") as kin, ScriptedResponses(model := Model(kin)) as api, anyio.fail_after(100):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, against(api, sandbox=sandbox), CANCELLED)
            await kin.grow()
            for number in NINE:
                tasks.start_soon(one, against(api, sandbox=sandbox), number)
            await api.request(2 * len(RUNS), within=60)  # each has run its first command, and thinks
            assert alive() == len(RUNS)
            runs[CANCELLED].cancel()
            await runs[CANCELLED].closed()
            assert await kin.survivors() == []
            assert alive() == len(RUNS) - 1
            model.gate.release()
        assert alive() == 0
    return results, shell_outputs(api)


def judge(results: dict[int, Result]) -> None:
    """Each has its own answer, or was cancelled, and nothing of it is left."""
    assert {n: r.stop_reason for n, r in results.items()} == {**dict.fromkeys(NINE, "completed"), CANCELLED: "aborted"}
    assert {n: results[n].output for n in NINE} == {n: f"answer {n}" for n in NINE}
    for result in results.values():
        report = result.evidence.process
        assert report is not None
        assert (report.steps, report.clean, report.home_removed) == (("eof",), True, True)


@pytest.mark.parametrize("folders", ["one", "ten"])
@pytest.mark.parametrize("sandbox", ["workspace-write", "danger-full-access"])
async def test_ten_at_once_and_the_cancel_of_one_leaves_nine_untouched(
    sandbox: str, folders: str, temp: Path, tmp_path: Path, work: Path
) -> None:
    works = [work if folders == "one" else work / str(number) for number in RUNS]
    for folder in works:
        folder.mkdir(exist_ok=True)
    racing = (sandbox, folders) == ("workspace-write", "one")
    for name in PLACEHOLDERS if racing else ():
        (work / name).mkdir()
    await run_command(["true"], env=child_env(), timeout=20)  # who starts children is started once, and stays
    before = Snapshot.take(temp)
    results, _ = await ten(tmp_path, works, sandbox)
    judge(results)
    assert {n: (works[n] / f"{n}.txt").read_text() for n in NINE} == {n: f"{n}\n{n}\n" for n in NINE}
    assert [results[n].evidence.notes for n in NINE] == [()] * len(NINE)
    made = {name for folder in works for name in names(folder)} & set(PLACEHOLDERS)
    assert made == (set(PLACEHOLDERS) if racing else set())  # what was there before stays
    assert [item for item in before.left(temp) if not item.startswith("thread AnyIO")] == []


async def test_ten_in_one_folder_leave_nothing_in_it_and_a_command_that_loses_the_race_is_seen(
    tmp_path: Path, work: Path
) -> None:
    results, said = await ten(tmp_path, [work] * len(RUNS), "workspace-write")
    judge(results)
    lost = [text for text in said if "bwrap: Can't" in text]
    written = [(work / f"{n}.txt").read_text().count("\n") if (work / f"{n}.txt").exists() else 0 for n in NINE]
    assert sum(written) >= 2 * len(NINE) - len(lost)
    assert set(names(work)) & set(PLACEHOLDERS) == set()
