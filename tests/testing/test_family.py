"""The process family: started by the plainest means, each member is seen alive and seen dead."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from subagent_process import Ladder, child_env, open_process
from subagent_testing import Family
from subagent_testing.family import EXTRAS, RELATIVES

pytestmark = pytest.mark.anyio

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
async def grown() -> AsyncIterator[tuple[Family, subprocess.Popen[bytes]]]:
    async with Family() as family:
        with _started(family) as leader:
            with anyio.fail_after(30):
                await family.grow()
            yield family, leader


@contextmanager
def _started(family: Family) -> Generator[subprocess.Popen[bytes]]:
    """As a careless harness does: a session of its own, and nothing else."""
    pipe = subprocess.PIPE
    with subprocess.Popen(family.argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True) as leader:
        try:
            yield leader
        finally:
            family.close()  # or leaving would wait for the leader for ever


async def test_every_relative_comes_and_answers(grown: tuple[Family, subprocess.Popen[bytes]]) -> None:
    family, _ = grown
    with anyio.fail_after(30):
        assert await family.survivors(within=0.1) == tuple(RELATIVES)
    assert set(family.pids) == set(RELATIVES)
    assert len(set(family.pids.values())) == len(RELATIVES)


async def test_killing_the_group_of_the_leader_misses_exactly_those_that_left_it(
    grown: tuple[Family, subprocess.Popen[bytes]],
) -> None:
    family, leader = grown
    os.killpg(leader.pid, signal.SIGKILL)
    with anyio.fail_after(30):
        assert set(await family.survivors(within=0.5)) == {"own-group", "own-session", "daemon", "bare-daemon"}


async def test_a_polite_end_of_the_group_misses_the_deaf_one_too(grown: tuple[Family, subprocess.Popen[bytes]]) -> None:
    family, leader = grown
    os.killpg(leader.pid, signal.SIGTERM)
    with anyio.fail_after(30):
        alive = set(await family.survivors(within=0.5))
    assert alive == {"deaf", "own-group", "own-session", "daemon", "bare-daemon"}


async def test_the_leader_exits_with_the_code_that_it_is_told(grown: tuple[Family, subprocess.Popen[bytes]]) -> None:
    family, leader = grown
    with anyio.fail_after(30):
        await family.exit_leader(7)
        assert await anyio.to_thread.run_sync(leader.wait) == 7
        assert "leader" not in await family.survivors(within=0.1)


@linux
async def test_the_relatives_are_what_their_names_say(grown: tuple[Family, subprocess.Popen[bytes]]) -> None:
    family, leader = grown
    pids = family.pids
    assert pids["leader"] == leader.pid
    assert os.getpgid(pids["same-group"]) == os.getpgid(pids["deaf"]) == leader.pid
    assert os.getpgid(pids["own-group"]) == pids["own-group"]
    assert os.getsid(pids["own-group"]) == leader.pid
    assert os.getsid(pids["own-session"]) == pids["own-session"]
    assert _parent(pids["own-session"]) == leader.pid
    assert _parent(pids["daemon"]) != leader.pid
    assert _environment(pids["bare-daemon"]) == b""
    assert _environment(pids["daemon"]) != b""


@linux
async def test_a_stopped_member_lives_although_it_does_not_answer(
    grown: tuple[Family, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subagent_testing.family._ANSWER", 0.2)
    family, _ = grown
    family.tell("daemon", "stop")
    with anyio.fail_after(30):
        while await family.answers("daemon"):
            pass
        assert await family.answers("daemon") is False
        assert "daemon" in await family.survivors(within=0.1)
        os.kill(family.pids["daemon"], signal.SIGCONT)
        while not await family.answers("daemon"):  # and not what it was asked while it was stopped
            pass


@linux
async def test_a_member_that_is_killed_with_a_question_unread_has_ended(
    grown: tuple[Family, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subagent_testing.family._ANSWER", 0.2)
    family, _ = grown
    family.tell("daemon", "stop")
    with anyio.fail_after(30):
        while await family.answers("daemon"):
            pass
        os.kill(family.pids["daemon"], signal.SIGKILL)
        assert "daemon" not in await family.survivors(within=0.1)
        assert await family.answers("daemon") is None


async def test_a_last_word_is_not_taken_for_life(grown: tuple[Family, subprocess.Popen[bytes]]) -> None:
    family, _ = grown
    for name in ("daemon", "deaf"):
        family.tell(name, "ping 0\nexit 0")  # it answers, and is gone
    with anyio.fail_after(30):
        assert "deaf" not in await family.survivors(within=0.5)
        assert await family.answers("daemon") is None
        assert "daemon" not in await family.survivors(within=0)


async def test_closing_the_family_ends_everybody() -> None:
    async with Family(*EXTRAS, deaf_leader=True) as family:
        with _started(family) as leader, anyio.fail_after(30):
            await family.grow()
            assert set(family.pids) == {*RELATIVES, *EXTRAS}
            leader.send_signal(signal.SIGTERM)
            assert set(await family.survivors(within=0.1)) == {*RELATIVES, *EXTRAS}
            family.close()
            assert await anyio.to_thread.run_sync(leader.wait) == -signal.SIGKILL
            # Everybody who held these pipes has ended: the deaf ones, the pipe holder and the hopper too.
            assert await anyio.to_thread.run_sync(leader.communicate) == (b"", b"")


@linux
async def test_the_hopper_is_alive_and_never_where_it_was() -> None:
    async with Family("hopper") as family:
        with _started(family), anyio.fail_after(30):
            await family.grow()
            hello = os.pidfd_open(family.pids["hopper"])
            await anyio.wait_readable(hello)  # the process that said hello is gone
            os.close(hello)
            assert await family.answers("hopper")


@linux
async def test_an_owned_process_ends_every_kind_of_them_stopped_or_deaf() -> None:
    async with Family(*EXTRAS, deaf_leader=True) as family:
        with anyio.fail_after(60):
            async with await open_process(family.argv, env=child_env(), ladder=Ladder(eof=0.1, term=0.1)) as process:
                await family.grow()
                for name in ("leader", "own-session"):
                    family.tell(name, "stop")
            assert await family.survivors() == ()
    assert process.report is not None
    assert process.report.clean


async def test_a_family_that_does_not_come_is_named() -> None:
    async with Family() as family:
        with pytest.raises(TimeoutError, match="leader, same-group, deaf"):
            await family.grow(within=0.05)


async def test_a_long_temporary_folder_does_not_make_the_socket_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 90)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    async with Family() as family:
        assert len(family.argv[4]) <= 103
    assert not _exists(family.argv[4])


def _exists(path: str) -> bool:
    return os.path.exists(os.path.dirname(path))


def _environment(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_members_end_with_the_program_that_holds_their_sockets() -> None:
    """A test run that is killed leaves nobody: here it is one in a process of its own."""
    code = (
        "import asyncio, subprocess\n"
        "from subagent_testing import Family\n"
        "async def main():\n"
        "    family = Family('hopper', 'pipe-holder')\n"
        "    subprocess.Popen(family.argv, start_new_session=True)\n"
        "    await family.grow()\n"
        "    print(family.argv[4], flush=True)\n"
        "    input()\n"
        "asyncio.run(main())\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as run:
        assert run.stdout is not None
        socket = Path(run.stdout.readline().decode().strip())
        run.kill()
        assert run.stdout.read() == b""  # the pipe ends when the last member has
    shutil.rmtree(socket.parent)  # what nobody was left to remove


@linux
@pytest.mark.anyio
async def test_closing_ends_those_that_are_stopped_and_minds_nobody_who_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("subagent_testing.family._ANSWER", 0.2)
    async with Family() as family:
        with _started(family) as leader, anyio.fail_after(30):
            await family.grow()
            family.tell("deaf", "exit 0")
            assert await family.answers("deaf") is None
            os.kill(family.pids["daemon"], signal.SIGSTOP)
            while await family.answers("daemon"):
                pass
            os.kill(family.pids["daemon"], signal.SIGKILL)  # with a question unread
            os.kill(family.pids["leader"], signal.SIGSTOP)
            family.close()
            family.close()
            assert await anyio.to_thread.run_sync(leader.wait) == -signal.SIGKILL


async def test_the_hopper_cannot_be_stopped() -> None:
    async with Family("hopper") as family:
        with pytest.raises(ValueError, match="hopper cannot be stopped"):
            family.tell("hopper", "stop")
