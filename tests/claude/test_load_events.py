"""More events than anybody reads: nobody stalls, what is lost is counted, memory is bounded."""

from __future__ import annotations

import gc
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from claude_fake_kit import Json, claude, turn

from subagent_testing import FakeClaude
from subagents import Choice, NoticeEvent, PermissionRequest, Run, TextEvent

pytestmark = pytest.mark.anyio

NOTICE: Json = {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed_warning", "rateLimitType": "week"}}
DELTA: Json = {
    "type": "stream_event",
    "event": {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}},
    "parent_tool_use_id": None,
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Slow:
    """A reader that takes one event, and no further one before the verdict is there.

    Attributes:
        held: how many notices there were in all of the memory at the verdict.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.first = anyio.Event()
        self.notices = self.lost = self.held = 0
        self.text = ""

    async def read(self) -> None:
        async for event in self._run.events():
            if not self.first.is_set():
                self.first.set()
                await self._run.result()
                self.held = sum(isinstance(each, NoticeEvent) for each in gc.get_objects())
            if isinstance(event, TextEvent):
                self.text += event.text
            elif isinstance(event, NoticeEvent) and event.code == "lost":
                assert event.data is not None
                self.lost += event.data["count"]
            elif isinstance(event, NoticeEvent):
                self.notices += 1


async def read_slowly(count: int, message: Json, folder: Path) -> Slow:
    """A run of so many messages, and who read it slowly."""
    script = turn({"gate": "go"}, {"burst": {"count": count, "message": message}}, {"text": "done"})
    with FakeClaude(script) as fake, anyio.fail_after(100):
        async with claude(fake).start("go", cwd=folder) as run:
            slow = Slow(run)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(slow.read)
                await slow.first.wait()
                fake.open("go")
            result = await run.closed()
    assert (result.stop_reason, result.output) == ("completed", "done")
    assert result.evidence.events_lost == slow.lost
    return slow


@pytest.mark.parametrize("count", [40_000, pytest.param(200_000, marks=pytest.mark.long)])
async def test_a_slow_reader_stalls_nobody_and_what_it_lost_is_counted(tmp_path: Path, count: int) -> None:
    slow = await read_slowly(count, NOTICE, tmp_path)
    assert slow.lost > 0
    assert slow.lost + slow.notices == count
    assert slow.text == "done"
    assert slow.held < 20_000  # the log's 16,384, and a chunk on its way


async def test_a_slow_reader_loses_no_text_that_can_be_kept(tmp_path: Path) -> None:
    slow = await read_slowly(200_000, DELTA, tmp_path)
    assert (slow.lost, slow.text) == (0, "x" * 200_000 + "done")


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_permission_is_asked_and_answered_while_nobody_reads(tmp_path: Path) -> None:
    """The events that nobody reads are far more than the log, and the SDK's own queue of 100, hold."""
    asked: list[str] = []

    async def decide(request: PermissionRequest) -> Choice:
        asked.append(request.kind)
        await anyio.lowlevel.checkpoint()
        return Choice("reject_once") if len(asked) == 1 else Choice("allow_once")

    burst = {"burst": {"count": 20_000, "message": NOTICE}}
    steps = [burst, {"tool": {"ask": True}}, burst, {"tool": {"ask": True}}, {"text": "done"}]
    with FakeClaude(turn(*steps)) as fake, anyio.fail_after(60):
        async with claude(fake).start("go", cwd=tmp_path, permission=decide) as run:
            result = await run.closed()
        answers = [verdict.answer["response"]["behavior"] for verdict in fake.verdicts]
    assert result.output == "done"
    assert asked == ["execute", "execute"]
    assert answers == ["deny", "allow"]
