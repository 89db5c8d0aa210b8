"""How a conversation ends, and what becomes of what is open then."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from peer_kit import BOUND, Told, peered, refuse, start

from subagent_process import JsonObject, LineTooLong, Peer, PeerClosed, ProcessLost, StderrTail
from subagent_process import _answering as answering  # pyright: ignore[reportPrivateUsage]
from subagent_process import _outgoing as outgoing  # pyright: ignore[reportPrivateUsage]

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("last", "code", "text"),
    [
        ("sys.exit(3)", 3, "has ended with exit status 3; thread/start stays without an answer"),
        ("os._exit(0)", 0, "has ended with exit status 0"),
        ("os.kill(os.getpid(), signal.SIGKILL)", -9, "was ended by signal 9"),
        ("os.close(1); signal.pause()", None, "has closed its output, and it is not known that it has ended"),
        ("os.close(1); os.close(0); signal.pause()", None, "has closed its output"),
    ],
)
async def test_an_open_request_learns_how_the_child_ended(last: str, code: int | None, text: str) -> None:
    async with peered(f"hear(); {last}") as peer:
        with pytest.raises(PeerClosed, match=text) as got:
            await peer.request("thread/start")
        assert got.value.exit == code
        assert got.value.program in str(got.value)
        with pytest.raises(PeerClosed, match="next stays"):  # and those that come later
            await peer.request("next")
        with pytest.raises(PeerClosed, match="told stays"):
            await peer.notify("told")


async def test_all_that_wait_learn_of_the_end() -> None:
    ended: list[int | None] = []
    async with peered("[hear() for _ in range(50)]; sys.exit(4)") as peer, anyio.create_task_group() as tasks:

        async def ask() -> None:
            with pytest.raises(PeerClosed) as got:
                await peer.request("x", timeout=None)
            ended.append(got.value.exit)

        for _ in range(50):
            tasks.start_soon(ask)
    assert ended == [4] * 50


async def test_a_child_that_only_stops_listening_is_closed_for_requests_and_still_heard() -> None:
    script = """
os.close(0)
tell("deaf")
signal.sigwait({signal.SIGTERM})
tell("end")
"""
    script = "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n" + script
    seen: list[object] = []
    told = Told()

    def notified(method: str, params: JsonObject) -> None:
        seen.append(params["what"])
        told(method, params)

    async with peered(script, notified=notified) as peer:
        await told.wait()
        with pytest.raises(PeerClosed, match="does not read its input any more") as got:
            await peer.request("x")
        assert got.value.exit is None
        with pytest.raises(PeerClosed, match="does not read its input any more"):
            await peer.notify("y")
    assert seen == ["deaf", "end"]  # on SIGTERM of the closing


async def test_a_child_that_asks_and_does_not_listen_is_still_heard() -> None:
    script = 'put({"id": 1, "method": "ask"})\nos.close(0)\ntell("deaf")\nsignal.pause()'
    told, left = Told(), anyio.Event()

    async def answer(method: str, params: JsonObject) -> object:
        await told.wait()
        left.set()
        return 1

    async with peered(script, answer=answer, notified=told, answer_limit=1) as peer:
        await left.wait()
        with pytest.raises(PeerClosed):
            await peer.request("x")
    assert told.all == [("told", {"what": "deaf"})]


async def test_a_broken_pipe_waits_for_the_exit_that_explains_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "_STATUS", BOUND)
    script = """
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.close(0)
tell(os.getpid())
signal.sigwait({signal.SIGUSR1})
os._exit(6)
"""
    told = Told()
    async with peered(script, notified=told) as peer, anyio.create_task_group() as tasks:

        async def ask() -> None:
            with pytest.raises(PeerClosed, match="has ended with exit status 6"):
                await peer.request("x")

        pid = (await told.wait())["what"]
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert isinstance(pid, int)
        os.kill(pid, signal.SIGUSR1)


async def test_refusals_for_a_child_that_does_not_listen_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "_UNREAD", 1000)
    script = """
os.close(0)
put(*({"id": n, "method": 5} for n in range(5000)))
tell("the end")
signal.pause()
"""
    told = Told()
    async with peered(script, notified=told) as peer:
        await told.wait()
        assert peer.counts.refused == 5000


async def test_a_child_that_exits_while_it_is_written_to_says_how_it_ended() -> None:
    async with peered("sys.stdin.read(1); sys.exit(6)") as peer:
        with pytest.raises(PeerClosed) as got:
            await peer.request("big", {"x": "y" * 1_000_000})
        assert got.value.exit == 6


def hold(pid: int) -> int:
    """A descriptor on the child's stdout, as a process has it that outlives the child and is not ours."""
    return os.open(f"/proc/{pid}/fd/1", os.O_WRONLY)


async def test_the_exit_ends_it_though_the_pipe_is_held_open() -> None:
    process = await start("hear(); put({'id': 0, 'result': 1}); hear(); tell('last'); put(b'{\"method\":\"cut\"}')")
    told = Told()
    peer = Peer(process, answer=refuse, notified=told)
    holder = hold(process.pid)
    try:
        with anyio.fail_after(BOUND):
            async with process, anyio.create_task_group() as tasks:
                tasks.start_soon(peer.run)
                assert await peer.request("x") == 1
                with pytest.raises(PeerClosed) as got:
                    await peer.request("y")
                assert got.value.exit == 0
    finally:
        os.close(holder)
    assert told.all == [("told", {"what": "last"}), ("cut", {})]


ENLARGED = "import fcntl; fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)\n"


async def test_what_the_child_left_in_the_pipe_is_handed_over_but_nobody_answers_the_dead() -> None:
    script = ENLARGED + 'hear()\nfor n in range(4000): put({"method": "n", "params": {"n": n, "x": "y" * 150}})\n'
    process = await start(script + 'put({"id": 1, "method": "ask"}, {"method": "last"})')
    told, asked = Told(), list[str]()

    async def answer(method: str, params: JsonObject) -> object:
        asked.append(method)
        return None

    peer = Peer(process, answer=answer, notified=told)
    holder = hold(process.pid)
    try:
        with anyio.fail_after(BOUND):
            async with process:
                await process.send_line({})
                assert await process.wait() == 0
                await peer.run()
                assert [params.get("n") for _, params in told.all] == [*range(4000), None]
                assert asked == []
    finally:
        os.close(holder)


async def test_another_process_that_writes_to_the_pipe_for_ever_does_not_hold_it_up() -> None:
    process = await start(ENLARGED + "hear()")  # there is always something to read
    peer = Peer(process, answer=refuse, notified=lambda _method, _params: None)
    holder = hold(process.pid)
    with subprocess.Popen(["yes", '{"method":"yes"}'], stdout=holder) as stranger:  # noqa: ASYNC220 - not ours to own
        os.close(holder)
        try:
            with anyio.fail_after(BOUND):
                async with process, anyio.create_task_group() as tasks:
                    tasks.start_soon(peer.run)
                    await peer.notify("end")
        finally:
            stranger.kill()


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def test_lost_supervisors_end_it_too(fault: Callable[[str], None]) -> None:
    process = await start("hear(); signal.pause()")
    peer = Peer(process, answer=refuse, notified=lambda _method, _params: None)
    keeper = parent(process.pid)
    with anyio.fail_after(BOUND):
        async with process, anyio.create_task_group() as tasks:
            tasks.start_soon(peer.run)

            async def ask() -> None:
                with pytest.raises(PeerClosed) as got:
                    await peer.request("x")
                assert got.value.exit is None

            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            os.kill(keeper, 9)
        with pytest.raises(ProcessLost):
            await process.wait()


class Refusal(Exception):
    pass


async def test_what_the_callback_raises_ends_the_reading() -> None:
    process = await start('put({"method": "a"}, {"method": "b"}); hear(); put({"method": "c"}); rest()')
    seen: list[str] = []

    def notified(method: str, params: JsonObject) -> None:
        seen.append(method)
        if method == "c":
            raise Refusal("zebra")

    peer = Peer(process, answer=refuse, notified=notified)
    with anyio.fail_after(BOUND):
        async with process, anyio.create_task_group() as tasks:

            async def ask() -> None:
                with pytest.raises(PeerClosed, match=r"is not heard any more \(Refusal: zebra\); x stays"):
                    await peer.request("x")

            tasks.start_soon(ask)
            with pytest.raises(Refusal):
                await peer.run()
    assert seen == ["a", "b", "c"]


async def test_a_line_beyond_the_limit_is_told_with_its_size_and_ends_it() -> None:
    process = await start('hear(); put({"method": "before"}, {"x": "y" * 2000}, {"method": "behind"}); rest()')
    told = Told()
    peer = Peer(process, answer=refuse, notified=told, line_limit=1000)
    with anyio.fail_after(BOUND):
        async with process, anyio.create_task_group() as tasks:

            async def ask() -> None:
                with pytest.raises(PeerClosed, match=r"LineTooLong: A line of 2,009 bytes"):
                    await peer.request("x")

            tasks.start_soon(ask)
            with pytest.raises(LineTooLong) as got:
                await peer.run()
            assert (got.value.size, got.value.limit) == (2009, 1000)
    assert told.all == [("before", {})]


async def test_whoever_writes_to_a_child_that_does_not_read_is_let_go_at_the_end() -> None:
    process = await start("""
hear()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
tell("up")
signal.sigwait({signal.SIGUSR1})
os.close(1)
signal.pause()
""")
    told = Told()
    peer = Peer(process, answer=refuse, notified=told)

    async def write() -> None:
        with pytest.raises(PeerClosed, match="closed its output"):
            await peer.request("much", {"x": "y" * 200_000}, timeout=None)

    with anyio.fail_after(BOUND):
        async with process, anyio.create_task_group() as tasks:
            tasks.start_soon(peer.run)
            await peer.notify("begin")
            await told.wait()
            tasks.start_soon(write)
            tasks.start_soon(write)
            await anyio.wait_all_tasks_blocked()
            os.kill(process.pid, signal.SIGUSR1)


async def test_a_peer_is_run_once() -> None:
    process = await start("")
    peer = Peer(process, answer=refuse, notified=print)
    with anyio.fail_after(BOUND):
        async with process:
            await peer.run()
            with pytest.raises(RuntimeError, match="make a new one"):
                await peer.run()


@pytest.mark.parametrize("stubborn", [False, True])
@pytest.mark.parametrize("ending", ["cancelled", "output closed"])
async def test_when_it_has_ended_open_requests_fail_and_nothing_is_sent_any_more(ending: str, stubborn: bool) -> None:
    close = "os.close(1)\n" if ending == "output closed" else ""
    script = 'put({"id": 1, "method": "ask"})\nhear()\n' + close + "sys.stderr.write(sys.stdin.read())"
    process = await start(script)
    asked, go, left = anyio.Event(), anyio.Event(), anyio.Event()

    async def answer(method: str, params: JsonObject) -> object:
        asked.set()
        try:
            with anyio.CancelScope(shield=stubborn):
                await go.wait()
        finally:
            left.set()
        return "too late"

    async def ask() -> None:
        with pytest.raises(PeerClosed, match="cancelled; open stays" if ending == "cancelled" else "closed its output"):
            await peer.request("open", timeout=None)
        go.set()  # only now is a stubborn answer there

    peer = Peer(process, answer=answer, notified=print)
    tail = StderrTail(process.stderr)
    with anyio.fail_after(BOUND):
        async with process:
            async with anyio.create_task_group() as outer:
                async with anyio.create_task_group() as reading:
                    reading.start_soon(peer.run)
                    await asked.wait()
                    outer.start_soon(ask)
                    if ending == "cancelled":
                        await anyio.wait_all_tasks_blocked()
                        reading.cancel_scope.cancel()
                assert left.is_set()
            with pytest.raises(PeerClosed):
                await peer.request("later")
            with pytest.raises(PeerClosed):
                await peer.notify("later")
            await process.stdin.aclose()
            await tail.run()  # what the child heard
    assert tail.text == ""


async def test_a_peer_that_is_lost_takes_its_child_along_at_once() -> None:
    gc.collect()
    gc.disable()
    try:
        process = await start("tell('up'); rest()")
        peer = Peer(process, answer=refuse, notified=print)
        await process.stdout.receive()
        exited = os.pidfd_open(process.pid)  # readable when it is dead
        del process, peer
        with anyio.fail_after(BOUND):
            await anyio.wait_readable(exited)
    finally:
        gc.enable()
    os.close(exited)
