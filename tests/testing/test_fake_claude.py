"""The fake `claude` as a third party uses it: scripts, and what the test hears of them."""

from __future__ import annotations

import json
import signal
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from line_client import BOUND, Json, closing
from stream_json import ARGUMENTS, Client, kind_of, talking

from subagent_testing import FakeClaude


def client_of(fake: FakeClaude, folder: Path, *arguments: str) -> AbstractContextManager[Client]:
    """A fake in this folder, which is its home too."""
    return talking(fake.executable, folder, *arguments, env={"HOME": str(folder)})


def texts(client: Client) -> list[str]:
    """The texts of the model."""
    blocks = [block for m in client.heard if m["type"] == "assistant" for block in m["message"]["content"]]
    return [block["text"] for block in blocks if block["type"] == "text"]


def test_without_a_script_it_answers_with_one_text(tmp_path: Path) -> None:
    with FakeClaude() as fake, client_of(fake, tmp_path) as client:
        client.begin()
        result = client.told("result")
        assert (result["subtype"], result["result"]) == ("success", "Hello from the fake.")
        assert client.close() == 0


def test_the_test_hears_how_it_was_started_and_what_it_was_sent(tmp_path: Path) -> None:
    with FakeClaude() as fake:
        with client_of(fake, tmp_path, "--session-id", "s-1", "--permission-mode=plan") as client:
            client.ask("initialize")
            client.line(b"[]\n")
            client.send({"type": "control_response", "response": {"subtype": "success", "request_id": "x"}})
            client.user("hi")
            init = client.told("system/init")
            client.close()
        (run,) = fake.runs
        assert run.argv == (str(fake.executable), *ARGUMENTS, "--session-id", "s-1", "--permission-mode=plan")
        assert run.env == {"HOME": str(tmp_path)} | {n: v for n, v in run.env.items() if n == "LC_CTYPE"}
        assert (run.cwd, run.descriptors) == (tmp_path, (0, 1, 2))
        assert [heard.what for heard in fake.heard] == [
            *("run", "initialize", "noise", "answer", "verdict", "user", "EOF"),
        ]
        assert fake.wait_for("user").message["message"] == {"role": "user", "content": "hi"}
        assert (init["session_id"], init["permissionMode"], init["model"]) == ("s-1", "plan", "claude-sonnet-4-5")


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ({"turns": []}, "a script has no turns; its members are on, signed_in, turn, version"),
        ({"turn": ["say"]}, "turn: 'say' is no step; steps are answer, ask, begin,"),
        ({"on": {"user": [[{"turn": ["x"]}]]}}, "on.user.turn: 'x' is no step"),
        ({"turn": "text"}, "turn: 'text' is no list of steps"),
        ({"turn": [None]}, "turn: None is no step"),
        ({"on": {"user": "turn"}}, "on.user needs a list of steps for the first time that it happens"),
    ],
)
def test_a_script_that_cannot_be_followed_is_refused_before_anything_starts(script: Json, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        FakeClaude(script)


ANSWERS: list[tuple[str, Json, str]] = [
    ("can_use_tool", {"response": {"behavior": "allow", "updatedInput": {}}}, ""),
    ("can_use_tool", {"response": {"behavior": "allow", "updatedInput": []}}, "wrong type of updatedInput"),
    ("can_use_tool", {"response": {"behavior": "deny"}}, "response lacks message"),
    ("can_use_tool", {"response": {"behavior": "maybe"}}, "behavior is none of allow, deny"),
    ("can_use_tool", {"response": 1}, "response is no object"),
    ("can_use_tool", {"subtype": "error", "error": "no"}, "an error where can_use_tool has an answer for a refusal"),
    ("hook_callback", {"response": {}}, ""),
    ("hook_callback", {"subtype": "error", "error": "no such hook"}, ""),
    ("hook_callback", {"subtype": "error"}, "error is no string"),
    ("mcp_message", {"response": {"mcp_response": {"jsonrpc": "2.0", "id": 1}}}, ""),
    ("mcp_message", {"response": {}}, "response lacks mcp_response"),
    ("brand_new", {"subtype": "error", "error": "unsupported"}, ""),
    ("brand_new", {"response": {}}, "success for an unknown request"),
    ("brand_new", {"subtype": "what"}, "neither success nor error"),
]


def test_each_answer_of_the_client_gets_a_verdict(tmp_path: Path) -> None:
    script = {"turn": [{"ask": subtype} for subtype, _, _ in ANSWERS]}
    with FakeClaude(script) as fake, client_of(fake, tmp_path) as client:
        client.begin()
        for subtype, answer, _ in ANSWERS:
            asked = client.told(f"control_request/{subtype}")
            told = {"subtype": "success", "request_id": asked["request_id"], **answer}
            client.send({"type": "control_response", "response": told})
        client.told("result")
        assert [verdict.method for verdict in fake.verdicts] == [subtype for subtype, _, _ in ANSWERS]
        for verdict, (_, _, wrong) in zip(fake.verdicts, ANSWERS, strict=True):
            assert verdict.wrong.endswith(wrong) if wrong else not verdict.wrong


def test_an_answer_too_many_gets_a_verdict_and_so_does_one_to_nothing(tmp_path: Path) -> None:
    sent = {"type": "control_request", "request_id": "s", "request": {"subtype": "sent_one"}}
    asks: list[Any] = [
        {"ask": {"subtype": "brand_new", "id": "r"}},
        {"send": sent},
        {"message": {**sent, "request_id": "m"}},
        {"ask": {"subtype": "brand_new", "id": "r"}},
        {"gate": "over"},
    ]

    def answer(request_id: Any) -> None:
        told = {"subtype": "error", "request_id": request_id, "error": "no"}
        client.send({"type": "control_response", "response": told})

    with FakeClaude({"turn": asks}) as fake, client_of(fake, tmp_path) as client:
        client.begin()
        answer("nobody")
        answer(5)
        for _ in range(2):  # the same id may be asked with again
            client.told("control_request/brand_new")
            answer("r")
        for request_id in ("s", "m", "s", "m", "r"):
            answer(request_id)
        fake.wait_for("answer", 9)
        fake.wait_for("verdict", 7)
        assert sorted((verdict.method, verdict.wrong) for verdict in fake.verdicts) == [
            ("", "answers no request"),
            ("", "answers no request"),
            ("brand_new", ""),
            ("brand_new", ""),
            ("brand_new", "was answered before"),
            ("sent_one", "was answered before"),
            ("sent_one", "was answered before"),
        ]
        fake.open("over")


def test_what_answers_bytes_of_the_script_or_comes_late_gets_no_verdict(tmp_path: Path) -> None:
    raw = {"type": "control_request", "request_id": "raw", "request": {"subtype": "brand_new"}}
    late = {"subtype": "can_use_tool", "id": "late", "wait": False}
    steps: list[Any] = [{"ask": late}, "withdraw", {"raw": json.dumps(raw) + "\n"}, {"gate": "over"}]
    with FakeClaude({"turn": steps}) as fake, client_of(fake, tmp_path) as client:
        client.begin()
        client.told("control_request/brand_new")
        for request_id in ("late", "raw"):
            told = {"subtype": "error", "request_id": request_id, "error": "no"}
            client.send({"type": "control_response", "response": told})
        fake.wait_for("answer", 2)
        assert client.ask("set_model")["response"] == {"model": "claude-sonnet-4-5"}
        assert fake.verdicts == []
        fake.open("over")


def test_a_request_may_have_any_members_and_be_withdrawn(tmp_path: Path) -> None:
    ask = {"subtype": "can_use_tool", "id": "r-1", "wait": False, "tool_name": "AskUserQuestion"}
    with FakeClaude({"turn": [{"ask": ask}, "withdraw"]}) as fake, client_of(fake, tmp_path) as client:
        client.begin()
        assert client.told("control_request/can_use_tool")["request"]["tool_name"] == "AskUserQuestion"
        assert client.told("control_cancel_request") == {"type": "control_cancel_request", "request_id": "r-1"}
        client.told("result")


def test_a_turn_may_end_in_any_way(tmp_path: Path) -> None:
    failing = {"fail": {"text": "limit", "error": "rate_limit", "type": "rate_limit_error", "status": 429}}
    ends: list[Any] = [
        [{"result": {"subtype": "error_max_turns", "is_error": True, "terminal_reason": "max_turns"}}],
        [{"result": {"structured_output": {"a": 5}, "total_cost_usd": 0.5}}],
        [failing, {"text": "never"}],
    ]
    with (
        FakeClaude({"on": {"user": [[{"turn": steps}] for steps in ends]}}) as fake,
        client_of(fake, tmp_path) as client,
    ):
        results: list[Json] = []
        for _ in ends:
            client.user()
            results.append(client.told("result"))
            client.until(lambda m: m.get("state") == "idle")
        assert [result["terminal_reason"] for result in results] == ["max_turns", "completed", "api_error"]
        assert [result["result_index"] for result in results] == [0, 1, 2]
        assert results[1]["structured_output"] == {"a": 5}
        assert (results[2]["api_error_status"], texts(client)) == (429, ["limit"])
        assert client.close() == 1


def test_what_the_real_one_never_says_is_said(tmp_path: Path) -> None:
    steps = [
        {"system": {"subtype": "brand_new", "of": "$session"}},
        {"message": {"type": "newer_still", "cwd": "$cwd"}},
        {"rate_limit": {"status": "rejected"}},
        {"retry": None},
        {"send": {"type": "bare"}},
        {"raw": "noise\n"},
        {"burst": {"count": 2500, "message": {"type": "system", "subtype": "tick"}}},
        {"text": {"bytes": 2_000_000}},
    ]
    with FakeClaude({"turn": steps}) as fake, client_of(fake, tmp_path, "--session-id=s-1") as client:
        client.begin()
        assert client.told("system/brand_new")["of"] == "s-1"
        assert client.told("newer_still")["cwd"] == str(tmp_path)
        assert client.told("rate_limit_event")["rate_limit_info"]["status"] == "rejected"
        assert client.told("system/api_retry")["error_status"] == 529
        assert client.told("bare") == {"type": "bare"}
        with pytest.raises(json.JSONDecodeError):
            client.next()
        result = client.told("result")
        assert sum(kind_of(m) == "system/tick" for m in client.heard) == 2500
        assert len(result["result"]) == 2_000_000


def test_partial_messages_come_in_so_many_pieces(tmp_path: Path) -> None:
    with (
        FakeClaude({"turn": [{"thinking": "hm"}, {"text": {"text": "abc", "deltas": 3}}]}) as fake,
        client_of(fake, tmp_path, "--include-partial-messages") as client,
    ):
        client.begin()
        client.told("result")
        deltas = [m["event"]["delta"] for m in client.heard if kind_of(m) == "stream_event/content_block_delta"]
        assert [delta.get("text") for delta in deltas] == [None, None, "a", "b", "c"]


def test_a_tool_without_a_question_runs_and_may_fail(tmp_path: Path) -> None:
    tool = {"name": "Bash", "input": {"command": "false"}, "output": "it failed", "is_error": True}
    with FakeClaude({"turn": [{"tool": tool}]}) as fake, client_of(fake, tmp_path) as client:
        client.begin()
        client.told("result")
        (block,) = [b for m in client.heard if m["type"] == "user" for b in m["message"]["content"]]
        assert (block["content"], block["is_error"]) == ("it failed", True)


def test_answers_to_control_requests_may_be_others(tmp_path: Path) -> None:
    on: Json = {
        "initialize": [[{"error": "not today"}], [{"answer": {"pid": 7}}]],
        "mcp_status": [[{"answer": {"mcpServers": []}}]],
        "interrupt": [["mute"]],
    }
    with FakeClaude({"on": on}) as fake, client_of(fake, tmp_path) as client:
        assert client.ask("initialize")["error"] == "not today"
        assert client.ask("initialize")["response"]["pid"] == 7
        assert client.ask("mcp_status")["response"] == {"mcpServers": []}
        assert client.ask("set_model")["response"] == {"model": "claude-sonnet-4-5"}
        client.send({"type": "control_request", "request_id": "x", "request": {"subtype": "interrupt"}})
        fake.wait_for("interrupt")
        client.user()
        fake.wait_for("user")
        assert client.close() == 0
        assert kind_of(client.rest()[-1]) == "control_response"


def test_an_interrupt_without_a_turn_is_only_answered(tmp_path: Path) -> None:
    with FakeClaude() as fake, client_of(fake, tmp_path) as client:
        assert client.ask("interrupt")["response"] == {"still_queued": []}
        client.close()
        assert [kind_of(m) for m in client.rest()] == ["control_response"]


def test_a_signal_ends_it_as_the_real_one(tmp_path: Path) -> None:
    with FakeClaude({"turn": ["work"]}) as fake, client_of(fake, tmp_path) as client:
        client.begin()
        client.told("system/init")
        client.process.terminate()
        assert client.process.wait(BOUND) == 143


def test_it_is_deaf_where_the_script_says(tmp_path: Path) -> None:
    on: Json = {"EOF": [[]], "start": [[{"ignore": ["SIGTERM"]}]]}
    script = {"turn": [{"gate": "go"}, {"mark": "alive"}, "work"], "on": on}
    with FakeClaude(script) as fake, client_of(fake, tmp_path) as client:
        client.begin()
        assert client.process.stdin is not None
        client.process.stdin.close()
        fake.wait_for("EOF")
        client.process.terminate()
        fake.open("go")
        fake.wait_for("alive")
        client.process.kill()
        assert client.process.wait(BOUND) == -signal.SIGKILL


def test_who_does_not_hear_that_the_test_is_over_is_killed(tmp_path: Path) -> None:
    with FakeClaude({"on": {"start": [[{"mark": "here"}, {"signal": "SIGSTOP"}]]}}) as fake:
        client = Client(fake.executable, tmp_path, *ARGUMENTS, env={})
        fake.wait_for("here")
    with closing(client):
        assert client.process.wait(BOUND) == -signal.SIGKILL


def test_it_crashes_where_the_script_says(tmp_path: Path) -> None:
    with FakeClaude({"turn": [{"text": "half"}, {"exit": 7}]}) as fake, client_of(fake, tmp_path) as client:
        client.begin()
        client.rest()
        assert (texts(client), client.process.wait(BOUND)) == (["half"], 7)


def test_a_command_may_do_anything_else(tmp_path: Path) -> None:
    on = {"--version": [[{"raw": "no version\n"}, {"exit": 3}]]}
    with FakeClaude({"on": on, "signed_in": False}) as fake:
        with closing(Client(fake.executable, tmp_path, "--version", env={})) as client:
            assert (client.said(), client.process.wait(BOUND)) == ("no version\n", 3)
        with closing(Client(fake.executable, tmp_path, "auth", "status", "--json", env={})) as client:
            assert json.loads(client.said())["loggedIn"] is False
            assert client.process.wait(BOUND) == 1
        with closing(Client(fake.executable, tmp_path, "--print", env={})) as client:
            assert (client.said(), client.process.wait(BOUND)) == ("", 1)
