"""How a `claude` can end, not end, or flood: the verdict is the turn's, and nothing is left."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any

import anyio
import anyio.from_thread
import pytest
from claude_fake_kit import BOUND, NEVER, SHORT, Json, both_loops, claude, clean, follow, refused, told, turn

from subagent_process import ThrowawayHome
from subagent_testing import FakeClaude
from subagents import Choice, PermissionRequest

pytestmark = pytest.mark.anyio
_drive: Any = import_module("subagent_claude_code._drive")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def files(folder: Path) -> int:
    """How many there are."""
    return len(list(folder.iterdir()))


async def gone(pid: int) -> bool:
    """A process has ended, or ends in a moment: nothing else tells it when our own helpers were let go."""
    with anyio.move_on_after(10):
        while await anyio.Path(f"/proc/{pid}").exists():  # noqa: ASYNC110
            await anyio.sleep(0.01)
    return not await anyio.Path(f"/proc/{pid}").exists()


# -- without a result --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "code"), [({"exit": 0}, 0), ({"exit": 3}, 3), ({"signal": "SIGKILL"}, -9)], ids=["0", "3", "SIGKILL"]
)
@pytest.mark.parametrize("steps", [[], [{"text": "half of"}], [{"tool": {"name": "Write"}}]], ids=["", "text", "edit"])
async def test_an_exit_in_the_turn_is_an_error_whatever_its_code(
    tmp_path: Path, steps: list[Any], last: Json, code: int
) -> None:
    for step in steps:
        if "tool" in step:
            step["tool"]["input"] = {"file_path": "a.txt", "content": "x"}
    with FakeClaude(turn(*steps, {"stderr": "a last word\n"}, last)) as fake:
        found = await told(fake, tmp_path)
    assert (found.failure.kind, found.failure.stage, found.failure.exit_code) == ("exit", "run", code)
    assert "a last word" in found.failure.message
    clean(found.result.evidence.process)


@pytest.mark.parametrize("last", [{"exit": 1}, {"signal": "SIGKILL"}, {"signal": "SIGTERM"}], ids=["1", "-9", "-15"])
async def test_an_odd_exit_after_the_result_changes_nothing(tmp_path: Path, last: Json) -> None:
    steps = [{"turn": [{"text": "done"}]}, {"stderr": "wss handshake failed\n"}, last]
    with FakeClaude({"on": {"user": [steps]}}) as fake:
        found = await told(fake, tmp_path)
    assert (found.result.stop_reason, found.result.output, found.result.failure) == ("completed", "done", None)
    clean(found.result.evidence.process)


async def test_output_that_was_closed_while_the_process_lives_is_said_and_ends_it(tmp_path: Path) -> None:
    """Its own program goes on for ever; the ladder ends it."""
    program = "import os, time; os.close(1); os.write(2, b'I am still here\\n'); time.sleep(600)"
    fake_program = tmp_path / "claude"
    with FakeClaude() as fake:
        text = fake.executable.read_text().replace(
            "from subagent_testing._fake_claude.program import main\n", f"{program}\n"
        )
        fake_program.write_text(text)
        fake_program.chmod(0o700)
        failure = await refused(fake, tmp_path, executable=fake_program, **SHORT)
    assert (failure.kind, failure.exit_code) == ("launch", None)
    assert "closed its output" in failure.message
    assert "I am still here" in failure.message


@both_loops
async def test_one_that_stays_after_its_result_keeps_the_verdict_and_is_ended(tmp_path: Path) -> None:
    """It ignores the end of its input and SIGTERM; the answer is there before it is gone."""
    script = turn({"ignore": ["SIGTERM"]}, {"text": "done"}, EOF=NEVER)
    with FakeClaude(script) as fake, anyio.fail_after(BOUND):
        async with claude(fake, **SHORT).start("go", cwd=tmp_path) as run:
            early = await run.result()
            assert (early.stop_reason, early.output) == ("completed", "done")
            found = await follow(run)
        assert "interrupt" not in [heard.what for heard in fake.heard]
    assert found.result.stop_reason == "completed"
    assert clean(found.result.evidence.process).steps == ("eof", "term", "kill")


@both_loops
@pytest.mark.parametrize(("last", "stop"), [("result", "completed"), ({"exit": 1}, "error")], ids=["end", "exit 1"])
async def test_a_grandchild_that_keeps_the_pipes_holds_up_neither_the_verdict_nor_the_end(
    tmp_path: Path, last: Any, stop: str
) -> None:
    steps = ["begin", {"spawn": ["/bin/sleep", "300"]}, {"text": "done"}, last, {"exit": 0}]
    with FakeClaude({"on": {"user": [steps]}}) as fake:
        found = await told(fake, tmp_path, **SHORT)
    assert found.result.stop_reason == stop
    assert clean(found.result.evidence.process).killed >= 1
    if stop == "error":
        assert found.failure.exit_code == 1


# -- a start that fails ------------------------------------------------------------------------------------------------


async def test_one_that_refuses_its_arguments_says_so_long_before_any_limit(tmp_path: Path) -> None:
    """The SDK alone would wait for a minute."""
    steps = [{"stderr": "error: unknown option '--frobnicate'\n"}, {"exit": 1}]
    with FakeClaude({"on": {"start": [steps]}}) as fake:
        failure = await refused(fake, tmp_path, ready_timeout=BOUND * 2)
    assert (failure.kind, failure.stage, failure.exit_code) == ("launch", "start", 1)
    assert "unknown option '--frobnicate'" in failure.message


@both_loops
async def test_one_that_ends_while_its_tools_are_looked_for_is_told_by_its_exit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its home goes with it, piece by piece; that a file there is missing is no fault of ours then."""
    homes: list[Path] = []

    async def late(cwd: str, home: ThrowawayHome, *, real: bool) -> object:
        end = time.monotonic() + BOUND
        while home.root.exists() and time.monotonic() < end:
            time.sleep(0.01)  # noqa: ASYNC251 - as a loop that is busy, and has not heard of the end
        homes.append(home.root)
        home.root.mkdir()  # as one looks that is half removed
        raise FileNotFoundError(home.root)

    monkeypatch.setattr(_drive, "tool_env", late)
    with FakeClaude({"on": {"start": [[{"exit": 4}]]}}) as fake:
        failure = await refused(fake, tmp_path)
    homes[0].rmdir()
    assert (failure.kind, failure.exit_code) == ("launch", 4)


async def test_a_file_of_its_home_that_is_missing_while_it_lives_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, real: bool) -> object:
        raise FileNotFoundError("its own folder")

    monkeypatch.setattr(_drive, "tool_env", broken)
    with FakeClaude() as fake:
        failure = await refused(fake, tmp_path)
    assert (failure.kind, failure.stage) == ("unknown", "start")
    assert "its own folder" in failure.message


async def test_a_probe_does_not_wait_for_one_that_reads_its_input_to_the_end(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    with FakeClaude({"version": "9.9.9"}) as fake:
        first, rest = fake.executable.read_text().split("\n", 1)
        program.write_text(f"{first}\nimport sys\nsys.stdin.read()\n{rest}")
        program.chmod(0o700)
        with anyio.fail_after(10):
            probe = await claude(fake, executable=program).probe()
    assert probe.version == "9.9.9"


# -- a cancel, at any moment -------------------------------------------------------------------------------------------

MOMENTS: dict[str, Json] = {
    "handshake": {"on": {"initialize": [[{"mark": "here"}, *NEVER[0]]], "EOF": NEVER}},
    "before init": {"on": {"user": [[{"mark": "here"}, *NEVER[0]]], "EOF": NEVER}},
    "turn": turn({"text": "hm"}, {"mark": "here"}, "work"),
    "silent after a tool": turn({"tool": {}}, {"mark": "here"}, *NEVER[0], interrupt=NEVER, EOF=NEVER),
    "stopped": turn({"ignore": ["SIGTERM"]}, {"mark": "here"}, {"signal": "SIGSTOP"}),
}


@both_loops
@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_cancel_is_aborted_at_once_and_leaves_nothing(tmp_path: Path, moment: str) -> None:
    with FakeClaude(MOMENTS[moment]) as fake, anyio.fail_after(BOUND):
        run = claude(fake, **SHORT).start("go", cwd=tmp_path)

        async def cancel() -> None:
            await fake.happened("here")
            run.cancel("enough")
            run.cancel("again")
            assert (await run.result()).stop_reason == "aborted"

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel)
            async with run:
                await run.closed()
        run.cancel("late")
        result = await run.closed()
    assert (result.stop_reason, result.evidence.notes) == ("aborted", ("enough",))
    clean(result.evidence.process)


@both_loops
async def test_a_cancel_while_the_sdk_is_loaded_does_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading, loaded = anyio.Event(), Event()

    def load(_: str) -> None:
        anyio.from_thread.run_sync(loading.set)
        loaded.wait(BOUND)

    monkeypatch.setattr(_drive, "import_module", load)
    with FakeClaude() as fake, anyio.fail_after(BOUND / 2):
        run = claude(fake, **SHORT).start("go", cwd=tmp_path)

        async def cancel() -> None:
            await loading.wait()
            run.cancel()

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel)
                async with run:
                    await run.closed()
        finally:
            loaded.set()
        result = await run.closed()
    assert result.stop_reason == "aborted"
    clean(result.evidence.process)


@pytest.mark.parametrize("times", [2, 5])
async def test_a_task_of_the_run_that_is_cancelled_again_and_again_leaves_nothing(tmp_path: Path, times: int) -> None:
    """As a program does that ends all tasks of its loop; the second one cuts the polite end short."""
    script = turn({"mark": "here"}, "work", interrupt=NEVER)
    with FakeClaude(script) as fake, anyio.fail_after(BOUND):
        run = await claude(fake).start("go", cwd=tmp_path).__aenter__()
        await fake.happened("here")
        (owner,) = [task for task in asyncio.all_tasks() if task.get_name() == f"subagents claude-code {run.id}"]
        for _ in range(times):
            owner.cancel()
            await asyncio.sleep(0.05)
        result = await run.closed()
    assert result.stop_reason == "aborted"
    assert result.evidence.process is not None
    assert result.evidence.process.survivors == ()
    assert await gone(fake.runs[0].pid)


class Undecided:
    """A callback that never answers; what it was asked, and how often its waiting was ended."""

    def __init__(self) -> None:
        self.asked, self.ended = 0, 0
        self.waiting = anyio.Event()

    async def __call__(self, request: PermissionRequest) -> Choice:
        self.asked += 1
        self.waiting.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.ended += 1
        raise AssertionError


ASK: Json = {"ask": "can_use_tool"}


@both_loops
@pytest.mark.parametrize("interrupt", [["withdraw", "answer", "interrupted"], [{"wait": "never"}]], ids=["", "deaf"])
async def test_a_cancel_while_a_permission_is_pending_leaves_nobody_waiting(
    tmp_path: Path, interrupt: list[Any]
) -> None:
    """The engine asks again on every answer, and would for ever."""
    decide = Undecided()
    script = turn(ASK, ASK, ASK, "work", interrupt=[interrupt])
    with FakeClaude(script) as fake, anyio.fail_after(BOUND):
        async with claude(fake, **SHORT).start("go", cwd=tmp_path, permission=decide) as run:
            await decide.waiting.wait()
            run.cancel()
            assert (await run.result()).stop_reason == "aborted"
            result = await run.closed()
        assert [verdict.answer for verdict in fake.verdicts if verdict.answer.get("behavior") == "allow"] == []
    assert result.stop_reason == "aborted"
    assert decide.asked == decide.ended == 1
    clean(result.evidence.process)


@both_loops
async def test_a_cancel_ends_one_that_goes_on_writing_files(tmp_path: Path) -> None:
    """No tick after the end."""
    later = [{"turn": [{"ignore": ["SIGTERM"]}, {"tick": 0.02}]}]
    beside: list[Any] = ["answer", {"wait": "user"}, {"pause": 0.06}, {"mark": "ticked"}]
    script: Json = {"on": {"user": [later], "initialize": [beside], "EOF": NEVER, "interrupt": NEVER}}
    with FakeClaude(script) as fake, anyio.fail_after(BOUND):
        async with claude(fake, **SHORT).start("go", cwd=tmp_path) as run:
            await fake.happened("ticked")
            run.cancel()
            result = await run.closed()
            ticks = files(tmp_path)
            assert ticks
        assert clean(result.evidence.process).steps == ("eof", "term", "kill")
        assert fake.wait_for("interrupt")
        await anyio.sleep(0.1)  # five ticks of one that lived
        assert files(tmp_path) == ticks


# -- standard error ----------------------------------------------------------------------------------------------------

FLOOD: list[Any] = [
    {"stderr": {"text": "x" * 1000, "times": 200}},
    {"stderr": {"text": "y" * 99 + "\n", "times": 48_000}},
]
"""5 MB, the first 200 KB of it without a line end."""


async def test_a_flood_on_standard_error_holds_up_nothing(tmp_path: Path) -> None:
    with FakeClaude(turn(*FLOOD, {"text": "done"})) as fake:
        assert (await told(fake, tmp_path)).result.output == "done"


async def test_the_end_of_a_flood_is_in_the_failure_bounded_and_without_secrets(tmp_path: Path) -> None:
    secret = "sk-" + "ant-api03-" + "a1B2c3D4" * 5
    last = {"stderr": f"Authorization: Bearer {secret}\n한글 ≤ 🧪 the very last line\n"}
    with FakeClaude(turn(*FLOOD, last, {"exit": 3})) as fake:
        failure = (await told(fake, tmp_path)).failure
    assert (failure.kind, failure.exit_code) == ("exit", 3)
    assert "한글 ≤ 🧪 the very last line" in failure.message
    assert secret not in failure.message
    assert len(failure.message.encode()) <= 4096


@both_loops
async def test_endless_standard_error_is_bounded_in_memory_and_ends_with_the_run(tmp_path: Path) -> None:
    line = f"ERROR {'x' * 3000} retrying\n"
    flood, more = ({"stderr": {"text": line, "times": times}} for times in (4_000, None))
    script = turn({"gate": "go"}, flood, {"mark": "12 MB"}, more)
    with FakeClaude(script) as fake, anyio.fail_after(BOUND):
        async with claude(fake, **SHORT).start("go", cwd=tmp_path) as run:
            tracemalloc.start()
            try:
                fake.open("go")
                await fake.happened("12 MB")
                kept, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            run.cancel()
            result = await run.closed()
    assert result.stop_reason == "aborted"
    assert kept < 2_000_000
    clean(result.evidence.process)
