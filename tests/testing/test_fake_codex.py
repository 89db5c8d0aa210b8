"""The fake app-server as a third party uses it: scripts, and what the test hears of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from app_server import INFO, TEXT, begin, client_of, texts
from line_client import BOUND, Json

from subagent_testing import FakeCodex

pytestmark = pytest.mark.anyio


def test_without_a_script_it_answers_with_one_message(tmp_path: Path) -> None:
    with FakeCodex() as fake, client_of(fake, tmp_path) as client:
        begin(client)
        turn = client.told("turn/completed")["turn"]
        assert (turn["status"], turn["items"][0]["text"]) == ("completed", "Hello from the fake.")
        assert client.close() == 0


def test_the_test_hears_how_it_was_started_and_what_it_was_sent(tmp_path: Path) -> None:
    with FakeCodex() as fake:
        mask = os.umask(0o027)
        try:
            with client_of(fake, tmp_path) as client:
                client.ask("initialize", INFO)
                client.line(b"no message\n")
                client.send({"id": 7, "result": {}})
                client.close()
        finally:
            os.umask(mask)
        fake.wait_for("EOF")
        (run,) = fake.runs
        assert run.argv == (str(fake.executable), "app-server")
        assert run.env == {"CODEX_HOME": str(tmp_path)} | {n: v for n, v in run.env.items() if n == "LC_CTYPE"}
        assert (run.cwd, run.umask, run.descriptors) == (tmp_path, 0o027, (0, 1, 2))
        assert str(tmp_path) not in repr(run).replace(f"cwd={tmp_path!r}", "")
        assert [heard.what for heard in fake.heard] == ["run", "initialize", "noise", "answer", "verdict", "EOF"]
        assert fake.heard[2].members["text"] == "no message"
        assert fake.received == [{"id": 1, "method": "initialize", "params": INFO}, {"id": 7, "result": {}}]
        assert fake.wait_for("initialize").message["params"] == INFO
        assert fake.heard[0].pid == client.process.pid


def test_what_a_client_sees_the_test_knows_already(tmp_path: Path) -> None:
    with FakeCodex() as fake, client_of(fake, tmp_path) as client:
        client.ask("initialize", INFO)
        for number in range(2, 300):
            client.ask("account/read", {})
            assert fake.heard[-1].message["id"] == number


IMPOSSIBLE: list[tuple[Json, str]] = [
    ({"turns": []}, "a script has no turns; its members are on, requires_openai_auth, signed_in, turn, version"),
    ({"turn": ["say"]}, "turn: 'say' is no step; steps are answer, ask, begin,"),
    ({"on": {"EOF": [[{"exit": 0, "pause": 1}]]}}, "on.EOF: {'exit': 0, 'pause': 1} is no step"),
    ({"on": {"EOF": []}}, "on.EOF needs a list of steps for the first time that it happens"),
    ({"turn": [{"turn": [{"turn": ["x"]}]}]}, "turn.turn.turn: 'x' is no step"),
    ({"turn": [{}]}, "turn: {} is no step"),
    ({"turn": [None]}, "turn: None is no step"),
    ({"turn": {"message": "x"}}, "turn: {'message': 'x'} is no list of steps"),
    ({"turn": "message"}, "turn: 'message' is no list of steps"),
    ({"turn": [{"turn": "message"}]}, "turn.turn: 'message' is no list of steps"),
    ({"on": {"EOF": ["answer"]}}, "on.EOF: 'answer' is no list of steps"),
    ({"on": {"EOF": "answer"}}, "on.EOF needs a list of steps for the first time that it happens"),
]


@pytest.mark.parametrize(("script", "says"), IMPOSSIBLE)
def test_a_script_that_cannot_be_followed_is_refused_before_anything_starts(script: Json, says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("{", r"\{").replace("}", r"\}")):
        FakeCodex(script)


def test_a_python_that_no_first_line_can_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/my python/bin/python")
    with pytest.raises(ValueError, match="no program can name this Python"):
        FakeCodex()


def test_its_folder_is_short_also_where_the_temporary_folder_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("x" * 100)))
    with FakeCodex() as fake:
        assert fake.executable.parent.parent == Path("/tmp")
    assert not fake.executable.parent.exists()


ASKED = [
    "item/commandExecution/requestApproval",
    "item/fileChange/requestApproval",
    "item/permissions/requestApproval",
    "item/tool/requestUserInput",
    "mcpServer/elicitation/request",
    "item/tool/call",
    "account/chatgptAuthTokens/refresh",
    "attestation/generate",
    "applyPatchApproval",
    "execCommandApproval",
    "brandNew/thing",
]


def test_each_request_of_the_server_is_asked_and_each_answer_gets_a_verdict(tmp_path: Path) -> None:
    with FakeCodex({"turn": [{"ask": method} for method in ASKED]}) as fake, client_of(fake, tmp_path) as client:
        thread, turn = begin(client)
        for number, method in enumerate(ASKED):
            params = client.told(method)
            assert (params.get("threadId", thread), params.get("turnId", turn)) == (thread, turn)
            client.send({"id": number, "result": {"decision": "decline"}})
            assert client.told("serverRequest/resolved") == {"threadId": thread, "requestId": number}
        client.told("turn/completed")
        wrong = {verdict.method: verdict.wrong for verdict in fake.verdicts}
        assert list(wrong) == ASKED
        assert [method for method in ASKED if not wrong[method]] == ASKED[:2]
        assert wrong["item/tool/call"] == "result lacks contentItems, success"
        assert fake.verdicts[0].answer == {"id": 0, "result": {"decision": "decline"}}


def test_an_answer_too_many_gets_a_verdict_and_so_does_one_to_nothing(tmp_path: Path) -> None:
    asks: list[Any] = [
        {"ask": "brand/new"},
        {"send": {"id": "x", "method": "sent/one"}},
        {"ask": {"method": "brand/new", "id": 0}},
        {"gate": "over"},
    ]
    no = {"error": {"code": -32601, "message": "no"}}
    with FakeCodex({"turn": asks}) as fake, client_of(fake, tmp_path) as client:
        begin(client)
        client.send({"id": 77, "result": {}})
        for _ in range(2):  # the same number may be asked with again
            client.told("brand/new")
            client.send({"id": 0, **no})
        client.send({"id": "x", **no})
        client.send({"id": "x", **no})
        client.send({"id": 0, **no})
        fake.wait_for("answer", 6)
        fake.wait_for("verdict", 5)
        assert sorted((verdict.method, verdict.wrong) for verdict in fake.verdicts) == [
            ("", "answers no request"),
            ("brand/new", ""),
            ("brand/new", ""),
            ("brand/new", "was answered before"),
            ("sent/one", "was answered before"),
        ]


def test_what_answers_bytes_of_the_script_gets_no_verdict(tmp_path: Path) -> None:
    steps: list[Any] = [{"raw": '{"id":5,"method":"brand/new"}\n'}, {"gate": "over"}]
    with FakeCodex({"turn": steps}) as fake, client_of(fake, tmp_path) as client:
        begin(client)
        client.until(lambda message: message.get("id") == 5)
        client.send({"id": 5, "result": {}})
        fake.wait_for("answer")
        assert "result" in client.ask("account/read", {})
        assert fake.verdicts == []


def test_a_request_may_have_any_id_and_parameters_and_need_not_be_waited_for(tmp_path: Path) -> None:
    hostile: list[Any] = [None, "0", 1.5, True, [], 2**80]
    steps = [
        {"ask": {"method": "brandNew/thing", "id": i, "params": {"more": "$turn"}, "wait": False}} for i in hostile
    ]
    with FakeCodex({"turn": steps}) as fake, client_of(fake, tmp_path) as client:
        _, turn = begin(client)
        client.told("turn/completed")
        asked = [m for m in client.heard if m.get("method") == "brandNew/thing"]
        assert [m["id"] for m in asked] == hostile
        assert asked[0]["params"]["more"] == turn


@pytest.mark.parametrize("method", ["thread/start", "turn/start"])
def test_overload_is_answered_as_often_as_the_script_says(tmp_path: Path, method: str) -> None:
    on = {method: [["overloaded"], ["overloaded"], ["answer", *(["turn"] if method == "turn/start" else [])]]}
    with FakeCodex({"on": on}) as fake, client_of(fake, tmp_path) as client:
        client.ask("initialize", INFO)
        answers = [client.ask("thread/start", {}) for _ in range(3 if method == "thread/start" else 1)]
        thread = answers[-1]["result"]["thread"]["id"]
        answers += [client.ask("turn/start", {"threadId": thread, "input": TEXT}) for _ in range(4 - len(answers))]
        client.told("turn/completed")
        errors = [a["error"] for a in answers if "error" in a]
        assert errors == [{"code": -32001, "message": "Server overloaded; retry later."}] * 2


def test_the_end_of_a_turn_may_come_before_its_answer(tmp_path: Path) -> None:
    early = [
        "begin",
        {"ask": {"method": "attestation/generate", "wait": False}},
        {"message": "early"},
        "complete",
        "answer",
    ]
    with FakeCodex({"on": {"turn/start": [early]}}) as fake, client_of(fake, tmp_path) as client:
        _, turn = begin(client)
        told = [m["method"] for m in client.heard if "method" in m]
        assert told[-1] == "turn/completed"
        assert client.told("turn/completed")["turn"]["id"] == turn


def test_answers_errors_and_foreign_messages_are_sent_as_the_script_has_them(tmp_path: Path) -> None:
    on: Json = {
        "initialize": [[{"answer": {"codexHome": "/elsewhere"}}]],
        "account/read": [[{"result": {"account": None}}, {"send": {"id": "$request", "result": "again"}}]],
        "thread/fork": [[{"error": {"code": -32603, "message": "broken", "data": {"why": 1}}}]],
        "initialized": [
            [{"send": {"id": 999, "result": {}}}, {"notify": {"method": "x/y", "params": {"a": ["$cwd"]}}}]
        ],
    }
    with FakeCodex({"on": on}) as fake, client_of(fake, tmp_path) as client:
        assert client.ask("initialize", INFO)["result"]["codexHome"] == "/elsewhere"
        assert client.ask("account/read", {})["result"] == {"account": None}
        assert client.next() == {"id": 2, "result": "again"}
        broken = client.ask("thread/fork", {})["error"]
        assert broken == {"code": -32603, "message": "broken", "data": {"why": 1}}
        client.send({"method": "initialized"})
        assert client.next() == {"id": 999, "result": {}}
        assert client.told("x/y") == {"a": [""]}


def test_bytes_are_written_as_the_script_has_them(tmp_path: Path) -> None:
    start: list[Any] = [
        {"raw": {"hex": "efbbbf"}},
        {"wire": {"end": "\r\n"}},
        {"notify": {"method": "bom"}},
        {"raw": "Now using node v22\n"},
        {"raw": {"text": "ab", "times": 3, "cuts": [1, 4]}},
        {"wire": {"end": ""}},
        {"notify": {"method": "glued"}},
        {"notify": {"method": "glued"}},
        {"wire": {"chunk": 7, "gap": 0.0001}},
        {"notify": {"method": "한글 ≤ 🧪"}},
        {"wire": {}},
        {"burst": {"count": 2500, "method": "b", "params": {}}},
        {"exit": 0},
    ]
    with FakeCodex({"on": {"start": [start]}}) as fake:
        argv = [fake.executable, "app-server"]
        done = subprocess.run(
            argv, env={"CODEX_HOME": str(tmp_path)}, stdin=subprocess.DEVNULL, capture_output=True, timeout=BOUND
        )
    first, second, third, *burst, last = done.stdout.split(b"\n")
    assert first.startswith(b'\xef\xbb\xbf{"method":"bom",')
    assert first.endswith(b"}\r")
    assert second == b"Now using node v22"
    assert third.startswith(b'ababab{"method":"glued"')
    assert third.count(b'}{"method":"glued"') == 1
    assert "한글 ≤ 🧪".encode() in third
    assert burst == [b'{"method":"b","params":{}}'] * 2500
    assert last == b""


def test_a_long_line_is_made_on_the_fly(tmp_path: Path) -> None:
    with FakeCodex({"turn": [{"message": {"bytes": 1_200_000}}]}) as fake, client_of(fake, tmp_path) as client:
        begin(client)
        assert client.told("turn/completed")["turn"]["items"][0]["text"] == "x" * 1_200_000
        assert not [m for m in client.heard if m.get("method") == "item/agentMessage/delta"]


def test_things_that_are_no_end_come_before_the_end(tmp_path: Path) -> None:
    steps: list[Any] = [
        {"retry": "Reconnecting... 1/5"},
        {"message": "one"},
        {"notify": {"method": "thread/status/changed", "params": {"threadId": "$thread", "status": {"type": "idle"}}}},
        {"pause": 0.05},
        {"message": {"text": "two", "deltas": 3}},
        {"usage": {"outputTokens": 7}},
    ]
    with FakeCodex({"turn": steps}) as fake, client_of(fake, tmp_path) as client:
        begin(client)
        client.told("turn/completed")
        assert client.told("error")["willRetry"] is True
        assert texts(client) == ["one", "two"]
        usage = [m["params"]["tokenUsage"] for m in client.heard if m.get("method") == "thread/tokenUsage/updated"]
        assert [u["last"]["outputTokens"] for u in usage] == [7, 20]
        assert usage[-1]["total"]["outputTokens"] == 27


def test_a_turn_ends_as_the_script_says(tmp_path: Path) -> None:
    odd: Json = {"status": "failed", "error": {"message": "m", "codexErrorInfo": 7}}
    with (
        FakeCodex({"on": {"turn/start": [["answer", "begin", {"complete": odd}]]}}) as fake,
        client_of(fake, tmp_path) as client,
    ):
        begin(client)
        turn = client.told("turn/completed")["turn"]
        assert (turn["status"], turn["error"], turn["items"]) == ("failed", odd["error"], [])


def test_only_commentary_is_no_answer_and_the_final_answer_counts(tmp_path: Path) -> None:
    final = {"text": "final", "phase": "final_answer"}
    turns = [[{"message": {"text": "so", "phase": "commentary"}}], [{"message": final}, {"message": "after"}]]
    on = {"turn/start": [["answer", {"turn": turn}] for turn in turns]}
    with FakeCodex({"on": on}) as fake, client_of(fake, tmp_path) as client:
        thread, _ = begin(client)
        assert client.told("turn/completed")["turn"]["items"] == []
        client.ask("turn/start", {"threadId": thread, "input": TEXT})
        assert client.told("turn/completed")["turn"]["items"][0]["text"] == "final"


def test_a_turn_works_until_it_is_interrupted_and_says_nothing_more(tmp_path: Path) -> None:
    first: list[Any] = [{"command": {"ask": True}}, {"message": "never"}]
    on = {"turn/start": [["answer", {"turn": first}], ["answer", "turn"]]}
    with FakeCodex({"on": on}) as fake, client_of(fake, tmp_path) as client:
        thread, turn = begin(client)
        client.told("item/commandExecution/requestApproval")
        client.ask("turn/interrupt", {"threadId": thread, "turnId": turn})
        assert client.told("turn/completed")["turn"]["status"] == "interrupted"
        client.send({"id": 0, "result": {"decision": "accept"}})
        again = {"id": 99, "method": "turn/interrupt", "params": {"threadId": thread, "turnId": turn}}
        client.send(again)
        assert "result" in client.ask("account/read", {})
        assert 99 not in [m.get("id") for m in client.heard], "as the real one, not before the next turn ends"
        client.ask("turn/start", {"threadId": thread, "input": TEXT})
        client.told("turn/completed")
        assert {"id": 99, "result": {}} in client.heard
        assert texts(client) == ["Hello from the fake."]


async def test_a_gate_holds_the_script_until_the_test_opens_it(tmp_path: Path) -> None:
    steps: list[Any] = [{"gate": "first"}, {"message": "a"}, {"mark": "between"}, {"gate": "second"}, {"message": "b"}]
    with FakeCodex({"turn": steps}) as fake, client_of(fake, tmp_path) as client:
        begin(client)
        with anyio.fail_after(BOUND):
            await fake.happened("first")
            fake.open("second")
            assert "between" not in [heard.what for heard in fake.heard]
            fake.open("first")
            await fake.happened("between")
        await anyio.to_thread.run_sync(client.told, "turn/completed")
        assert texts(client) == ["a", "b"]
        with client_of(fake, tmp_path) as other:
            begin(other)
            await anyio.to_thread.run_sync(other.told, "turn/completed")


def test_the_script_waits_for_a_message_of_the_client(tmp_path: Path) -> None:
    with (
        FakeCodex({"turn": [{"wait": "turn/steer"}, {"message": "steered"}]}) as fake,
        client_of(fake, tmp_path) as client,
    ):
        thread, turn = begin(client)
        client.ask("turn/steer", {"threadId": thread, "input": TEXT, "expectedTurnId": turn})
        client.told("turn/completed")
        assert texts(client) == ["steered"]
