"""Ctrl-C, SIGTERM, SIGHUP, and readers that go away: the run ends, nothing of it is left, and the command says so."""

from __future__ import annotations

import array
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import IO, Any, cast

import pytest
from cli_kit import BOUND, COMMAND, Done, environment, lifeline, started

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def end(process: subprocess.Popen[bytes]) -> Done:
    out, err = process.communicate(timeout=BOUND)
    return Done(process.returncode, out.decode(), err.decode())


def wait_for(stream: IO[bytes] | None, word: str) -> list[dict[str, Any]]:
    """The JSON lines up to the one that holds the word."""
    lines: list[dict[str, Any]] = []
    assert stream is not None
    for line in stream:
        lines.append(cast("dict[str, Any]", json.loads(line)))
        if word.encode() in line:
            return lines
    raise AssertionError(f"{word!r} did not come: {lines}")


def full(pipe: int) -> None:
    """Wait until a pipe holds as much as it can, without reading it."""
    end = time.monotonic() + BOUND
    held, before = array.array("i", [0]), -1
    while held[0] == 0 or held[0] != before:
        assert time.monotonic() < end, "it does not fill"
        before = held[0]
        time.sleep(0.2)  # there is no event for a pipe that nobody writes any more
        fcntl.ioctl(pipe, termios.FIONREAD, held)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_stops_the_run_and_its_child_and_the_result_is_still_told(number: int) -> None:
    with lifeline() as line, started("run", "echo", f"child {line.port}", "--json") as process:
        line.born()
        wait_for(process.stdout, "working")
        process.send_signal(number)
        done = end(process)
        assert line.died()
        result = json.loads(done.out.splitlines()[-1])
        assert (done.code, result["type"], result["stop_reason"]) == (130, "result", "aborted")
        assert result["evidence"]["notes"] == [f"interrupted by {signal.Signals(number).name}"]
        assert done.err == ""


@pytest.mark.parametrize("task", ["child", "deaf"])
def test_further_signals_do_not_make_it_worse(task: str) -> None:
    """`deaf` swallows its cancellation: what is left of it ends with the command."""
    with lifeline() as line, started("run", "echo", f"{task} {line.port}") as process:
        line.born()
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
        done = end(process)
        assert line.died()
        assert (done.code, done.out) == (130, "")
        assert "aborted · " in done.err
        assert "interrupted by SIGINT" in done.err
        assert "Traceback" not in done.err


def test_a_provider_that_lingers_for_ever_after_its_verdict_cannot_hold_up_the_end() -> None:
    with lifeline() as line, started("run", "echo", f"linger {line.port}") as process:
        line.born()
        done = end(process)
        assert line.died()
        assert (done.code, done.out) == (0, "the answer\n")
        assert "Traceback" not in done.err


def test_a_run_that_never_gets_ready_is_interrupted() -> None:
    with started("run", "echo", "never", "--json") as process:
        wait_for(process.stdout, "starting for ever")
        process.send_signal(signal.SIGINT)
        done = end(process)
        assert done.code == 130
        assert json.loads(done.out.splitlines()[-1])["stop_reason"] == "aborted"


def test_a_thread_that_outlives_its_cancellation_does_not_hold_up_the_end() -> None:
    with started("run", "echo", "stuck", "--json") as process:
        wait_for(process.stdout, "hanging")
        process.send_signal(signal.SIGINT)
        assert end(process).code == 130


def test_a_hangup_that_nohup_ignores_stays_ignored() -> None:
    nohup = ("sh", "-c", 'trap "" HUP; exec "$@"', "sh", *COMMAND)
    with started("run", "echo", "hang", "--json", before=nohup) as process:
        wait_for(process.stdout, "hanging")
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        result = json.loads(end(process).out.splitlines()[-1])
        assert result["evidence"]["notes"] == ["interrupted by SIGTERM"]


def test_an_interrupt_while_the_task_is_read_ends_quietly() -> None:
    with started("run", "reading", stdin=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"made\n"
        process.send_signal(signal.SIGINT)
        done = end(process)
        assert (done.code, done.out, done.err) == (130, "", "")


def test_an_interrupted_pull_ends_quietly() -> None:
    with started("models", "pull", "never", "--provider", "echo") as process:
        assert process.stderr is not None
        assert b"downloading never" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        done = end(process)
        assert (done.code, done.out, done.err) == (130, "", "")


def test_an_interrupt_before_anything_else_ends_quietly() -> None:
    """It arrives while typer is imported."""
    code = (
        "import signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer.core': signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from subagents._cli import main\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=BOUND, check=False, env=environment()
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


# -- readers that go away --------------------------------------------------------------------------------------------


def test_a_reader_that_leaves_stops_a_run_that_writes() -> None:
    with started("run", "echo", "flood", "--json") as process:
        wait_for(process.stdout, "more")
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(BOUND) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.parametrize("unbuffered", [None, "1"])
def test_a_reader_that_leaves_in_the_middle_of_the_answer_is_noticed(tmp_path: Path, unbuffered: str | None) -> None:
    (tmp_path / "task").write_text("x" * 1_000_000)
    env = environment(PYTHONUNBUFFERED=unbuffered)
    with started("run", "echo", "-f", str(tmp_path / "task"), env=env) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(5) == b"xxxxx"
        process.stdout.close()
        assert process.wait(BOUND) == 141
        assert process.stderr.read() == b""


def test_a_pipe_that_does_not_block_gets_all_of_the_answer(tmp_path: Path) -> None:
    (tmp_path / "task").write_text("x" * 1_000_000)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with started("run", "echo", "-f", str(tmp_path / "task"), stdout=writing) as process, open(reading, "rb") as pipe:
        os.close(writing)
        assert pipe.read() == b"x" * 1_000_000 + b"\n"
        assert process.wait(BOUND) == 0


@pytest.mark.parametrize("extra", [(), ("--json",)])
def test_a_reader_that_leaves_stops_a_run_that_writes_nothing(extra: tuple[str, ...]) -> None:
    with lifeline() as line, started("run", "echo", f"child {line.port}", *extra) as process:
        line.born()
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(BOUND) == 141
        assert line.died()
        assert process.stderr.read() == b""


@pytest.mark.long
@pytest.mark.parametrize("task", ["flood", "-"])
def test_a_reader_that_does_not_read_cannot_hold_up_an_interrupted_end(task: str) -> None:
    """The pipe is full: with events while the run goes on, or with the answer when it is over."""
    how: dict[str, Any] = {"stdin": subprocess.PIPE} if task == "-" else {}
    with started("run", "echo", task, *(["--json"] if task == "flood" else []), **how) as process:
        if process.stdin is not None:
            process.stdin.write(b"x" * 1_000_000)
            process.stdin.close()
        assert process.stdout is not None
        full(process.stdout.fileno())
        process.send_signal(signal.SIGTERM)
        assert process.wait(BOUND) == 130


def test_a_reader_of_standard_error_that_leaves_does_no_harm() -> None:
    with started("run", "echo", "show slowly") as process:
        assert process.stderr is not None
        process.stderr.readline()
        process.stderr.close()
        assert process.stdout is not None
        assert process.stdout.read() == b"# Done\n\nIt is *done*.\n"
        assert process.wait(BOUND) == 0
