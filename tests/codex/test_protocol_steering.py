"""Words into a running turn: they arrive, or the run says that they did not and goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from protocol_kit import BOUND, Json, both_loops, codex, follow, turn

from subagent_testing import FakeCodex

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@both_loops
async def test_what_is_sent_steers_the_turn_that_runs(tmp_path: Path) -> None:
    steps = [{"message": "first"}, {"wait": "turn/steer"}, {"message": "as you say"}]
    with FakeCodex(turn(*steps)) as fake, anyio.fail_after(BOUND):
        async with codex(fake).start("go", cwd=tmp_path) as run:
            await run.send("only the tests")
            found = await follow(run)
        steer = fake.wait_for("turn/steer").message["params"]
    assert steer["input"] == [{"type": "text", "text": "only the tests"}]
    assert found.result.output == "as you say"
    assert found.notices("send") == []


REFUSALS: dict[str, list[Any]] = {
    "another turn": [{"error": {"code": -32600, "message": "expected active turn id `a` but found `b`"}}],
    "idle": [{"error": {"code": -32600, "message": "no active turn to steer"}}],
    "no answer in its form": [{"send": {"id": "$request"}}],
}


@pytest.mark.parametrize("reply", REFUSALS.values(), ids=REFUSALS)
async def test_a_word_that_does_not_arrive_is_a_notice_and_the_turn_goes_on(tmp_path: Path, reply: list[Any]) -> None:
    on: Json = {"turn/steer": [[*reply, {"mark": "refused"}]]}
    with FakeCodex(turn({"wait": "turn/steer"}, {"gate": "on"}, {"message": "done"}, on=on)) as fake:
        with anyio.fail_after(BOUND):
            async with codex(fake).start("go", cwd=tmp_path) as run:
                await run.send("hello?")
                async for event in run.events():
                    if event.type == "notice" and event.code == "send":
                        break
                fake.open("on")
                found = await follow(run)
    assert found.result.output == "done"
    (notice,) = found.notices("send")
    assert "did not reach the turn" in notice


async def test_words_that_nobody_answers_hold_up_neither_the_turn_nor_its_end(tmp_path: Path) -> None:
    """Within interrupt_grace; and the result says that they may not have arrived."""
    on: Json = {"turn/steer": [[{"wait": "never"}]]}
    with FakeCodex(turn({"wait": "turn/steer"}, {"message": "done"}, on=on)) as fake, anyio.fail_after(BOUND):
        async with codex(fake, interrupt_grace=0.3).start("go", cwd=tmp_path) as run:
            await run.send("one")
            await run.send("two")
            found = await follow(run)
    assert found.result.output == "done"
    assert "may not have reached the turn" in str(found.result.evidence.notes)


async def test_words_that_are_refused_after_the_end_are_in_the_result(tmp_path: Path) -> None:
    """An event would be late: a note says it."""
    on: Json = {"turn/steer": [[{"gate": "late"}, {"error": {"code": -32600, "message": "no active turn to steer"}}]]}
    with FakeCodex(turn({"wait": "turn/steer"}, {"message": "done"}, on=on)) as fake, anyio.fail_after(BOUND):
        async with codex(fake).start("go", cwd=tmp_path) as run:
            await run.send("too late")
            await run.result()
            fake.open("late")
            found = await follow(run)
    assert found.result.ok
    assert "did not reach the turn" in str(found.result.evidence.notes)
    assert "no active turn to steer" in str(found.result.evidence.notes)


async def test_what_is_sent_in_order_arrives_in_order(tmp_path: Path) -> None:
    waits = [{"gate": "all"}]
    with FakeCodex(turn(*waits, {"message": "done"})) as fake, anyio.fail_after(BOUND):
        async with codex(fake).start("go", cwd=tmp_path) as run:
            for number in range(20):
                await run.send(f"word {number}")
            await fake.happened("turn/steer", 20)
            fake.open("all")
            await follow(run)
        sent = [m["params"]["input"][0]["text"] for m in fake.received if m.get("method") == "turn/steer"]
    assert sent == [f"word {number}" for number in range(20)]
