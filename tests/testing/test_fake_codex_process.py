"""The fake app-server as a process: its end, its standard error, its other commands, what it leaves."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from app_server import INFO, TEXT, begin, client_of, talking, texts
from line_client import BOUND, Json

from subagent_testing import FakeCodex, Family, Snapshot

pytestmark = pytest.mark.anyio


def test_mute_says_nothing_any_more_whatever_is_asked(tmp_path: Path) -> None:
    with FakeCodex({"turn": ["mute", {"message": "unheard"}]}) as fake, client_of(fake, tmp_path) as client:
        begin(client)
        client.send({"id": 77, "method": "account/read", "params": {}})
        fake.wait_for("account/read")
        assert client.close() == 0
        assert [m["method"] for m in client.rest() if "method" in m][-1] == "item/completed", "what the user said"
        assert 77 not in [m.get("id") for m in client.heard]


@pytest.mark.parametrize(("step", "code"), [({"signal": "SIGKILL"}, -9), ({"exit": 3}, 3)])
def test_a_signal_or_an_exit_ends_it_in_the_middle(tmp_path: Path, step: Json, code: int) -> None:
    steps: list[Any] = [{"message": "last"}, step, {"message": "never"}]
    with FakeCodex({"turn": steps}) as fake, client_of(fake, tmp_path) as client:
        begin(client)
        assert client.process.wait(BOUND) == code
        client.rest()
        assert texts(client) == ["last"]


def test_it_can_be_deaf_to_the_end_of_its_input_and_to_signals(tmp_path: Path) -> None:
    script: Json = {"on": {"start": [[{"ignore": ["SIGTERM"]}]], "EOF": [[{"notify": {"method": "still/here"}}]]}}
    with FakeCodex(script) as fake, talking(fake.executable, tmp_path, env={"CODEX_HOME": str(tmp_path)}) as client:
        client.ask("initialize", INFO)
        client.process.terminate()
        assert client.process.stdin is not None
        client.process.stdin.close()
        client.told("still/here")
        client.process.kill()
        assert client.process.wait(BOUND) == -9


def test_standard_error_is_written_once_many_times_or_for_ever(tmp_path: Path) -> None:
    script: Json = {"turn": [{"stderr": "once\n"}, {"stderr": {"text": "many\n", "times": 30_000}}]}
    for_ever: Json = {"on": {"start": [[{"stderr": {"text": "x", "times": None}}]]}}
    with FakeCodex(script) as fake, client_of(fake, tmp_path) as client:
        begin(client)
        client.told("turn/completed")
    with FakeCodex(for_ever) as fake:
        process = subprocess.Popen(
            [fake.executable, "app-server"],
            env={"CODEX_HOME": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        with process:
            assert process.stderr is not None
            assert len(process.stderr.read(1_000_000)) == 1_000_000
            process.stderr.close()
            assert process.wait(BOUND) == 0, "nobody reads it any more"


def test_files_are_written_in_the_folder_of_the_thread(tmp_path: Path) -> None:
    steps: list[Any] = [{"write": {"path": "out.txt", "text": "out"}}, {"file_change": {"path": "new.txt"}}]
    with FakeCodex({"turn": steps}) as fake, client_of(fake, tmp_path) as client:
        client.ask("initialize", INFO)
        (tmp_path / "there").mkdir()
        thread = client.ask("thread/start", {"cwd": str(tmp_path / "there")})["result"]["thread"]["id"]
        client.ask("turn/start", {"threadId": thread, "input": TEXT})
        client.told("turn/completed")
    assert {path.name: path.read_text() for path in (tmp_path / "there").iterdir()} == {
        "out.txt": "out",
        "new.txt": "hello\n",
    }


def test_it_touches_files_for_ever(tmp_path: Path) -> None:
    with (
        FakeCodex({"turn": ["work"], "on": {"initialized": [[{"tick": 0.001}]]}}) as fake,
        client_of(fake, tmp_path) as client,
    ):
        client.ask("initialize", INFO)
        client.send({"method": "initialized"})
        while not (tmp_path / "tick-5").exists():
            assert "result" in client.ask("account/read", {})


async def test_what_it_spawns_outlives_it(tmp_path: Path) -> None:
    async with Family() as family:
        on = {"thread/start": [["answer", {"spawn": list(family.argv)}]]}
        with FakeCodex({"on": on}) as fake:
            argv, env = [str(fake.executable), "app-server"], {"CODEX_HOME": str(tmp_path)}
            process = await anyio.open_process(argv, env=env, stdout=subprocess.DEVNULL, stderr=None)
            assert process.stdin is not None
            for number, (method, params) in enumerate([("initialize", INFO), ("thread/start", {})]):
                await process.stdin.send(
                    json.dumps({"id": number, "method": method, "params": params}).encode() + b"\n"
                )
            await family.grow()
            await process.stdin.aclose()
            with anyio.fail_after(BOUND):
                assert await process.wait() == 0
            await process.aclose()
        assert "leader" in await family.survivors(within=0.1)


@pytest.mark.parametrize("arguments", [["--version"], ["login", "status"], ["exec"]])
def test_the_other_commands_follow_a_script_too(arguments: list[str]) -> None:
    steps: list[Any] = [{"raw": "strange\n"}, {"stderr": "odd\n"}, {"exit": 5}]
    with FakeCodex({"on": {" ".join(arguments): [steps]}}) as fake:
        done = subprocess.run(
            [fake.executable, *arguments], env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=BOUND
        )
    assert (done.returncode, done.stdout, done.stderr) == (5, b"strange\n", b"odd\n")


def test_a_command_can_hang_until_the_test_is_over() -> None:
    with FakeCodex({"on": {"login status": [["work"]]}}) as fake:
        process = subprocess.Popen([fake.executable, "login", "status"], env={}, stdin=subprocess.DEVNULL)
        fake.wait_for("run")
        assert process.poll() is None
    assert process.wait(BOUND) == 0


@pytest.mark.parametrize(("inside", "code", "says"), [(True, 0, b"Logged in using"), (False, 1, b"Not logged in")])
def test_the_script_decides_who_is_signed_in(tmp_path: Path, inside: bool, code: int, says: bytes) -> None:
    with FakeCodex({"signed_in": inside, "requires_openai_auth": True, "version": "0.1.2"}) as fake:
        done = subprocess.run([fake.executable, "login", "status"], env={}, capture_output=True, timeout=BOUND)
        assert (done.returncode, done.stderr.startswith(says)) == (code, True)
        done = subprocess.run([fake.executable, "--version"], env={}, capture_output=True, timeout=BOUND)
        assert done.stdout == b"codex-cli 0.1.2\n"
        with client_of(fake, tmp_path) as client:
            client.ask("initialize", INFO)
            account = client.ask("account/read", {})["result"]
            assert account["requiresOpenaiAuth"] is True
            assert (account["account"] is not None) is inside
            client.ask("account/login/start", {"type": "apiKey", "apiKey": "sk-none"})
            assert client.ask("account/read", {})["result"]["account"] == {"type": "apiKey"}
            client.ask("account/logout")
            assert client.ask("account/read", {})["result"]["account"] is None


def test_a_thread_is_known_as_long_as_its_process_and_a_kept_one_longer(tmp_path: Path) -> None:
    with FakeCodex() as fake, client_of(fake, tmp_path) as client:
        gone, _ = begin(client)
        client.told("turn/completed")
        assert client.ask("thread/resume", {"threadId": gone})["result"]["thread"]["id"] == gone
        with client_of(fake, tmp_path) as client:
            client.ask("initialize", INFO)
            assert "no rollout found" in client.ask("thread/resume", {"threadId": gone})["error"]["message"]


def test_waiting_for_what_does_not_happen_says_what_did(tmp_path: Path) -> None:
    with FakeCodex() as fake, client_of(fake, tmp_path) as client:
        client.ask("initialize", INFO)
        with pytest.raises(
            TimeoutError, match="number 2 of 'initialize' did not happen within 0 s; what did, last: run,"
        ):
            fake.wait_for("initialize", 2, within=0)
    with pytest.raises(TimeoutError, match="before the fake was closed"):
        fake.wait_for("turn/start")


async def test_a_coroutine_that_waits_can_be_cancelled() -> None:
    with FakeCodex() as fake, anyio.move_on_after(0.05) as scope:
        await fake.happened("turn/start", within=60)
    assert scope.cancelled_caught


BUSY: dict[str, list[Any]] = {
    "stopped": [{"mark": "here"}, {"signal": "SIGSTOP"}],
    "writing to who does not read": [{"mark": "here"}, {"burst": {"count": 100_000, "method": "x", "params": {}}}],
    "asleep between two writes": [{"wire": {"chunk": 1, "gap": 60}}, {"mark": "here"}, {"raw": "xx"}],
}


@pytest.mark.parametrize("how", BUSY)
def test_who_does_not_hear_that_the_test_is_over_is_killed(tmp_path: Path, how: str) -> None:
    with FakeCodex({"on": {"start": [BUSY[how]]}}) as fake:
        process = subprocess.Popen(
            [fake.executable, "app-server"],
            env={"CODEX_HOME": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        fake.wait_for("here")
    with process:
        assert process.wait(BOUND) == -9


def test_thirty_at_once_and_nothing_is_left_when_the_fake_is_closed(tmp_path: Path) -> None:
    before = Snapshot.take(tmp_path)
    with FakeCodex() as fake:
        argv = [fake.executable, "app-server"]
        env = {"CODEX_HOME": str(tmp_path)}
        many = [subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) for _ in range(30)]
        fake.wait_for("run", 30, within=BOUND)
        assert {run.pid for run in fake.runs} == {process.pid for process in many}
        folder = fake.executable.parent
    assert [process.wait(BOUND) for process in many] == [0] * 30, "whoever lives after the test ends with it"
    for process in many:
        assert process.stdin is not None
        process.stdin.close()
    assert not folder.exists()
    fake.close()
    assert threading.active_count() >= 1
    assert before.left(tmp_path) == []
