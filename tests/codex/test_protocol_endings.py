"""How an app-server can end, not end, or flood: the verdict is the turn's, and nothing is left."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from protocol_kit import BOUND, Json, both_loops, codex, follow, refused, said, told, turn

from subagent_testing import FakeCodex
from subagents import PermissionRequest, ShutdownReport, ToolEvent

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


SHORT: Json = {"interrupt_grace": 0.3, "eof_grace": 0.2, "term_grace": 0.2}


def clean(report: ShutdownReport | None) -> ShutdownReport:
    """A report that says that nothing is left."""
    assert report is not None
    assert (report.clean, report.survivors, report.home_removed) == (True, (), True)
    return report


def files(folder: Path) -> int:
    """How many there are."""
    return len(list(folder.iterdir()))


# -- without an end of the turn ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "code"), [({"exit": 0}, 0), ({"exit": 3}, 3), ({"signal": "SIGKILL"}, -9)], ids=["0", "3", "SIGKILL"]
)
async def test_an_exit_in_the_turn_is_an_error_whatever_its_code(tmp_path: Path, last: Json, code: int) -> None:
    with FakeCodex(turn({"message": "half of"}, {"stderr": "a last word\n"}, last)) as fake:
        found = await told(fake, tmp_path)
    assert (found.failure.kind, found.failure.stage, found.failure.exit_code) == ("exit", "run", code)
    assert "a last word" in found.failure.message
    assert found.result.output == "half of"  # a detail, and no success
    clean(found.result.evidence.process)


@pytest.mark.parametrize("steps", [[], [{"command": {}}], [{"file_change": {}}]], ids=["none", "run", "edit"])
async def test_an_exit_0_after_work_is_no_success_either(tmp_path: Path, steps: list[Any]) -> None:
    with FakeCodex(turn(*steps, {"exit": 0})) as fake:
        found = await told(fake, tmp_path, sandbox="danger-full-access")
    assert (found.result.stop_reason, found.failure.kind) == ("error", "exit")
    assert [event.status for event in found.of(ToolEvent)][-1:] in ([], ["completed"])


async def test_a_turn_that_failed_and_an_exit_0_is_the_failure_of_the_turn(tmp_path: Path) -> None:
    failed = {"fail": {"message": "no credit", "codexErrorInfo": "usageLimitExceeded"}}
    with FakeCodex({"on": {"turn/start": [["answer", "begin", failed]], "EOF": [[{"exit": 0}]]}}) as fake:
        found = await told(fake, tmp_path)
    assert (found.result.stop_reason, found.failure.kind, found.failure.exit_code) == ("error", "limit", None)


@pytest.mark.parametrize("last", [{"exit": 1}, {"signal": "SIGKILL"}], ids=["1", "SIGKILL"])
async def test_an_odd_exit_after_the_end_of_the_turn_changes_nothing(tmp_path: Path, last: Json) -> None:
    steps = ["answer", {"turn": [{"message": "done"}]}, {"stderr": "wss handshake failed\n"}, last]
    with FakeCodex({"on": {"turn/start": [steps]}}) as fake:
        found = await told(fake, tmp_path)
    assert (found.result.stop_reason, found.result.output, found.result.failure) == ("completed", "done", None)
    clean(found.result.evidence.process)


async def test_output_that_was_closed_while_the_process_lives_is_said_and_ends_it(tmp_path: Path) -> None:
    """Its own program goes on for ever; the ladder ends it."""
    program = "import os, time; os.close(1); os.write(2, b'I am still here\\n'); time.sleep(600)"
    fake_program = tmp_path / "codex"
    with FakeCodex() as fake:
        text = fake.executable.read_text().replace(
            "from subagent_testing._fake_codex.program import main\n", f"{program}\n"
        )
        fake_program.write_text(text)
        fake_program.chmod(0o700)
        failure = await refused(fake, tmp_path, executable=fake_program, **SHORT)
    assert (failure.kind, failure.exit_code) == ("launch", None)
    assert "closed its output" in failure.message
    assert "I am still here" in failure.message


@both_loops
async def test_one_that_stays_after_its_turn_keeps_the_verdict_and_is_ended(tmp_path: Path) -> None:
    """It ignores the end of its input and SIGTERM; the answer is there before it is gone."""
    on: Json = {"EOF": [[{"wait": "never"}]]}
    with FakeCodex(turn({"ignore": ["SIGTERM"]}, {"message": "done"}, on=on)) as fake, anyio.fail_after(BOUND):
        async with codex(fake, **SHORT).start("go", cwd=tmp_path) as run:
            early = await run.result()
            assert (early.stop_reason, early.output) == ("completed", "done")
            found = await follow(run)
    assert found.result.stop_reason == "completed"
    assert clean(found.result.evidence.process).steps == ("eof", "term", "kill")


@both_loops
@pytest.mark.parametrize(("last", "stop"), [("complete", "completed"), ({"exit": 1}, "error")], ids=["end", "exit 1"])
async def test_a_grandchild_that_keeps_the_pipes_holds_up_neither_the_verdict_nor_the_end(
    tmp_path: Path, last: Any, stop: str
) -> None:
    steps = ["answer", "begin", {"spawn": ["/bin/sleep", "300"]}, {"message": "done"}, last, {"exit": 0}]
    with FakeCodex({"on": {"turn/start": [steps]}}) as fake:
        found = await told(fake, tmp_path, **SHORT)
    assert (found.result.stop_reason, found.result.output) == (stop, "done")
    assert clean(found.result.evidence.process).killed >= 1
    if stop == "error":
        assert found.failure.exit_code == 1


@both_loops
async def test_a_cancel_ends_one_that_goes_on_writing_files(tmp_path: Path) -> None:
    """No tick after the end, cancelling twice is nothing, and the verdict was there at once."""
    never: list[Any] = [[{"wait": "never"}]]
    later = ["answer", {"wait": "turn/start"}, {"pause": 0.06}, {"mark": "ticked"}]
    on: Json = {"EOF": never, "turn/interrupt": never, "thread/start": [later]}
    with FakeCodex(turn({"ignore": ["SIGTERM"]}, {"tick": 0.02}, on=on)) as fake, anyio.fail_after(BOUND):
        async with codex(fake, **SHORT).start("go", cwd=tmp_path) as run:
            await fake.happened("ticked")
            run.cancel("enough")
            run.cancel("again")
            assert (await run.result()).stop_reason == "aborted"
            result = await run.closed()
            ticks = files(tmp_path)
            assert ticks
            run.cancel("late")
        assert clean(result.evidence.process).steps[-1] == "kill"
        assert fake.wait_for("turn/interrupt")
        await anyio.sleep(0.1)  # five ticks of one that lived
        assert files(tmp_path) == ticks


@both_loops
async def test_one_that_stopped_itself_is_ended(tmp_path: Path) -> None:
    with FakeCodex(turn({"ignore": ["SIGTERM"]}, {"mark": "stops"}, {"signal": "SIGSTOP"})) as fake:
        with anyio.fail_after(BOUND):
            async with codex(fake, **SHORT).start("go", cwd=tmp_path) as run:
                await fake.happened("stops")
                run.cancel()
                result = await run.closed()
        clean(result.evidence.process)


# -- silence -----------------------------------------------------------------------------------------------------------

IMPATIENT: Json = {"silence_timeout": 0.9}


async def test_a_turn_in_which_nothing_is_said_is_given_up_at_its_bound(tmp_path: Path) -> None:
    with FakeCodex(turn("work")) as fake:
        found = await told(fake, tmp_path, **IMPATIENT)
        assert (found.failure.kind, found.failure.stage, found.failure.retryable) == ("network", "run", True)
        assert "silence_timeout" in found.failure.message
        assert fake.wait_for("turn/interrupt")


@pytest.mark.long
async def test_silence_while_a_command_runs_or_a_message_is_written_or_somebody_is_asked_is_none(
    tmp_path: Path,
) -> None:
    """Whoever is waited for then is not the model server."""

    async def slow(request: PermissionRequest) -> Literal["reject_once"]:
        await anyio.sleep(1.2)
        return "reject_once"

    place = {"threadId": "$thread", "turnId": "$turn"}
    begun = [
        {"type": "commandExecution", "id": "c", "command": "sleep 1", "status": "inProgress"},
        {"type": "agentMessage", "id": "m", "text": ""},
    ]
    steps: list[Any] = [{"ask": "item/commandExecution/requestApproval"}]
    for item in begun:
        steps += [{"notify": {"method": "item/started", "params": {**place, "item": item}}}, {"pause": 1.2}]
        steps += [
            {"notify": {"method": "item/completed", "params": {**place, "item": {**item, "status": "completed"}}}}
        ]
    with FakeCodex(turn(*steps, {"message": "done"})) as fake:
        found = await told(fake, tmp_path, permission=slow, **IMPATIENT)
    assert found.result.output == "done"


# -- standard error ----------------------------------------------------------------------------------------------------

FLOOD: list[Any] = [
    {"stderr": {"text": "x" * 1000, "times": 200}},
    {"stderr": {"text": "y" * 99 + "\n", "times": 48_000}},
]
"""5 MB, the first 200 KB of it without a line end."""


async def test_a_flood_on_standard_error_holds_up_nothing(tmp_path: Path) -> None:
    with FakeCodex(turn(*FLOOD, {"message": "done"})) as fake:
        found = await told(fake, tmp_path)
    assert found.result.output == "done"
    assert len(found.events) < 100


async def test_the_end_of_a_flood_is_in_the_failure_bounded_and_without_secrets(tmp_path: Path) -> None:
    secret = "sk-" + "proj-" + "a1B2c3D4" * 5
    last = {"stderr": f"Authorization: Bearer {secret}\nthe very last line\n"}
    with FakeCodex(turn(*FLOOD, last, {"exit": 3})) as fake:
        failure = (await told(fake, tmp_path)).failure
    assert (failure.kind, failure.exit_code) == ("exit", 3)
    assert "the very last line" in failure.message
    assert secret not in failure.message
    assert len(failure.message.encode()) <= 4096


@both_loops
async def test_endless_standard_error_is_bounded_in_memory_and_ends_with_the_run(tmp_path: Path) -> None:
    line = f"2026-12-01T04:00:00.000000Z ERROR codex_core: {'x' * 3000} retrying\n"
    flood, more = ({"stderr": {"text": line, "times": times}} for times in (4_000, None))
    with FakeCodex(turn({"message": "first"}, {"gate": "go"}, flood, {"mark": "12 MB"}, more)) as fake:
        with anyio.fail_after(BOUND):
            async with codex(fake, **SHORT).start("go", cwd=tmp_path) as run:
                await said(run, "first")
                tracemalloc.start()
                try:
                    fake.open("go")
                    await fake.happened("12 MB")
                    kept, _ = tracemalloc.get_traced_memory()
                finally:
                    tracemalloc.stop()
                run.cancel()
                found = await follow(run)
    assert found.result.stop_reason == "aborted"
    assert kept < 2_000_000
    assert len(found.notices("stderr")) == 1
    assert len(str(found.result.evidence.notes)) < 9000  # 8 KiB are kept
    clean(found.result.evidence.process)


async def test_standard_error_that_is_no_text_is_shown_as_far_as_it_is_one(tmp_path: Path) -> None:
    """Characters of several bytes that are cut between two writes are whole."""
    odd = "for i in b'\\xff\\xfe \\x80 ' + '한글 ≤ 🧪'.encode() + b' end\\n': os.write(2, bytes([i]))"
    program = tmp_path / "codex"
    with FakeCodex() as fake:
        start = "from subagent_testing._fake_codex.program import main\n"
        program.write_text(fake.executable.read_text().replace(start, f"import os\n{odd}\nos._exit(5)\n"))
        program.chmod(0o700)
        failure = await refused(fake, tmp_path, executable=program, **SHORT)
    assert failure.exit_code == 5
    assert "한글 ≤ 🧪 end" in failure.message
