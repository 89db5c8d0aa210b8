"""The fake `claude` and the real one, side by side: one exchange with both, compared message by message.

The real one is bundled with `claude-agent-sdk`; it talks to the scripted Messages server.  When its next version says
something else, a test here turns red, and the fake has to follow.
"""

from __future__ import annotations

import difflib
import json
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from line_client import BOUND, Json
from stream_json import ARGUMENTS, Client, binary, environment, kind_of, talking

from subagent_testing import FakeClaude, Gate, ScriptedMessages, messages
from subagent_testing._fake_claude.session import VERSION

BY_THE_WAY = {"system/thinking_tokens", "system/status"}
"""Kinds that come when they come."""

INSIDE = ("message", "request", "response", "event", "usage")
"""Members whose members are compared too."""

UNSTEADY = {"ttft_ms", "thinking_display", "thinking_duration_ms", "request_id", "blocked_path", "tool_use_result"}
"""Members that the real one leaves out at times, or that depend on the tool."""


class Side:
    """One of the two: how to start it, for a script of its own kind."""

    def __init__(self, name: str, folder: Path, stack: ExitStack) -> None:
        self.name, self.folder, self.stack = name, folder, stack
        self.env: dict[str, str] = environment(folder)
        self.executable = Path()
        self.gate = Gate()
        self.api: ScriptedMessages | None = None
        self.fake: FakeClaude | None = None

    def script(self, real: Sequence[Any], fake: Mapping[str, Any], **env: str) -> None:
        """What the model of the real one answers, and what the fake does."""
        if self.name == "fake":
            self.fake = self.stack.enter_context(FakeClaude(fake))
            self.executable = self.fake.executable
        else:
            self.api = self.stack.enter_context(ScriptedMessages(real))
            self.executable, self.env = binary(), environment(self.folder, self.api.base_url, **env)

    def at_the_gate(self) -> None:
        """Block until it waits: the real one for its model, the fake at the gate `go`."""
        if self.api:
            self.api.wait_for_request(1)
        if self.fake:
            self.fake.wait_for("go")

    def go(self) -> None:
        """Let it go on."""
        self.gate.release()
        if self.fake:
            self.fake.open("go")

    def client(self, *arguments: str) -> AbstractContextManager[Client]:
        asks = ("--permission-prompt-tool", "stdio")
        return talking(self.executable, self.folder / "work", *asks, *arguments, env=self.env)


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    binary()
    with ExitStack() as stack:
        yield Side("real", tmp_path / "real", stack), Side("fake", tmp_path / "fake", stack)


def names(message: Json) -> Json:
    """The names of the members that clients rely on, two levels down."""
    found: Json = {"": sorted(message.keys() - UNSTEADY)}
    for inside in INSIDE:
        if isinstance(message.get(inside), dict):
            found[inside] = sorted(message[inside].keys() - UNSTEADY)
    return {"kind": kind_of(message), **found}


def told(heard: Sequence[Json]) -> list[Json]:
    """The kinds and names of all messages, in order, without what comes by the way."""
    return [names(message) for message in heard if kind_of(message) not in BY_THE_WAY]


def both(sides: tuple[Side, Side], talk: Callable[[Side], list[Any]]) -> None:
    """Talk to both; what comes of it is equal."""
    real, fake = ([json.dumps(each, sort_keys=True) for each in talk(side)] for side in sides)
    assert fake == real, "\n".join(difflib.unified_diff(real, fake, "real", "fake", lineterm="", n=1))


def end_of_turn(client: Client) -> Json:
    """The result, when the session is idle again."""
    result = client.told("result")
    client.until(lambda m: m.get("state") == "idle")
    return result


WORDS = ("subtype", "is_error", "terminal_reason", "stop_reason", "result", "api_error_status", "errors", "num_turns")
WRITE: Json = {"file_path": "a.txt", "content": "hi"}
TURN: Json = {"turn": [{"tool": {"name": "Write", "input": WRITE, "ask": True}}, {"text": "done"}]}


def words(result: Json) -> Json:
    """What a result says."""
    return {name: result.get(name) for name in WORDS}


def script_of(side: Side) -> list[Any]:
    return [messages.tool_use("Write", {**WRITE, "file_path": str(side.folder / "work" / "a.txt")}), "done"]


def test_a_turn_with_one_text_is_told_alike(sides: tuple[Side, Side]) -> None:
    def talk(side: Side) -> list[Any]:
        side.script(["hello"], {"turn": [{"text": "hello"}]})
        with side.client() as client:
            client.begin()
            result = end_of_turn(client)
            assert client.close() == 0
            return [*told(client.heard), words(result)]

    both(sides, talk)


def test_partial_messages_are_told_alike(sides: tuple[Side, Side]) -> None:
    def talk(side: Side) -> list[Any]:
        side.script(["hello"], {"turn": [{"text": "hello"}]})
        with side.client("--include-partial-messages") as client:
            client.begin()
            end_of_turn(client)
            return told(client.heard)

    both(sides, talk)


def test_thinking_comes_as_a_message_of_its_own_alike(sides: tuple[Side, Side]) -> None:
    def talk(side: Side) -> list[Any]:
        side.script([[messages.thinking("hm"), messages.text("so")]], {"turn": [{"thinking": "hm"}, {"text": "so"}]})
        with side.client() as client:
            client.begin()
            end_of_turn(client)
            said = [m["message"]["content"] for m in client.heard if m["type"] == "assistant"]
            return [*told(client.heard), [[sorted(block) for block in content] for content in said]]

    both(sides, talk)


ANSWERS: dict[str, Json] = {
    "allow": {"behavior": "allow", "updatedInput": {}},
    "deny": {"behavior": "deny", "message": "not here"},
    "stop": {"behavior": "deny", "message": "not here", "interrupt": True},
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_tool_is_asked_for_and_the_answer_is_taken_alike(sides: tuple[Side, Side], answer: str) -> None:
    def talk(side: Side) -> list[Any]:
        side.script(script_of(side), TURN)
        with side.client() as client:
            client.begin()
            asked = client.told("control_request/can_use_tool")
            given = asked["request"]["input"]
            client.answer(asked, {**ANSWERS[answer], **({"updatedInput": given} if answer == "allow" else {})})
            result = end_of_turn(client)
            meta = [sorted(m["tool_result_meta"][0]) for m in client.heard if "tool_result_meta" in m]
            denials = [each["tool_name"] for each in result["permission_denials"]]
            done = (side.folder / "work" / "a.txt").exists()
            code = client.close()
            return [*told(client.heard), words(result), meta, denials, done, given["content"], code]

    both(sides, talk)


def test_an_error_for_an_answer_is_a_denial_alike(sides: tuple[Side, Side]) -> None:
    def talk(side: Side) -> list[Any]:
        side.script(script_of(side), TURN)
        with side.client() as client:
            client.begin()
            asked = client.told("control_request/can_use_tool")
            error = {"subtype": "error", "request_id": asked["request_id"], "error": "boom"}
            client.send({"type": "control_response", "response": error})
            result = end_of_turn(client)
            said = [m["message"]["content"][0]["content"] for m in client.heard if m["type"] == "user"]
            return [*told(client.heard), words(result), said]

    both(sides, talk)


def test_an_interrupt_withdraws_what_was_asked_alike(sides: tuple[Side, Side]) -> None:
    def talk(side: Side) -> list[Any]:
        side.script(script_of(side), TURN)
        with side.client() as client:
            client.begin()
            asked = client.told("control_request/can_use_tool")
            answer = client.ask("interrupt")
            withdrawn = [m["request_id"] for m in client.heard if m["type"] == "control_cancel_request"]
            assert withdrawn == [asked["request_id"]]
            result = end_of_turn(client)
            return [*told(client.heard), words(result), answer["response"], client.close()]

    both(sides, talk)


def test_an_interrupt_while_the_model_is_silent_is_told_alike_and_the_next_turn_completes(
    sides: tuple[Side, Side],
) -> None:
    def talk(side: Side) -> list[Any]:
        turns = [[{"turn": [{"gate": "go"}]}], [{"turn": [{"text": "fine"}]}]]
        side.script([messages.silence(), "fine"], {"on": {"user": turns}})
        with side.client() as client:
            client.begin()
            client.told("system/init")
            side.at_the_gate()
            client.ask("interrupt")
            result = end_of_turn(client)
            client.user()
            after = end_of_turn(client)
            return [*told(client.heard), {**words(result), "num_turns": 0}, words(after), client.close()]

    both(sides, talk)


def test_a_message_during_a_turn_is_queued_alike(sides: tuple[Side, Side]) -> None:
    def talk(side: Side) -> list[Any]:
        turns = [[{"turn": [{"gate": "go"}, {"text": "one"}]}], [{"turn": [{"text": "two"}]}]]
        side.script([[side.gate, messages.text("one")], "two"], {"on": {"user": turns}})
        with side.client() as client:
            client.begin()
            client.told("system/init")
            side.at_the_gate()
            client.user("more")
            assert client.ask("set_model", model="claude-sonnet-4-5")["subtype"] == "success", "it has read the message"
            side.go()
            first = client.told("result")
            second = end_of_turn(client)
            return [*told(client.heard), words(first), words(second), client.close()]

    both(sides, talk)


def test_a_failing_api_is_told_alike(sides: tuple[Side, Side]) -> None:
    how = {"text": "API Error: 403 no", "error": "authentication_failed", "type": "permission_error", "status": 403}

    def talk(side: Side) -> list[Any]:
        side.script([messages.status(403, message="no")], {"turn": [{"fail": how}]})
        with side.client() as client:
            client.begin()
            result = end_of_turn(client)
            said = next(m for m in client.heard if m["type"] == "assistant")
            facts = {n: said[n] for n in ("error", "api_error_status", "api_error_type", "is_api_error_message")}
            text = said["message"]["content"][0]["text"]
            assert result["result"] == text
            return [
                *told(client.heard),
                {**words(result), "result": ""},
                facts,
                said["message"]["model"],
                client.close(),
            ]

    both(sides, talk)


def test_a_retry_is_told_alike(sides: tuple[Side, Side]) -> None:
    def talk(side: Side) -> list[Any]:
        overloaded = messages.status(529, message="Overloaded")
        fake = {"turn": [{"retry": {"max_retries": 1}}, {"text": "fine"}]}
        side.script([overloaded, "fine"], fake, CLAUDE_CODE_MAX_RETRIES="1")
        with side.client() as client:
            client.begin()
            result = end_of_turn(client)
            retry = next(m for m in client.heard if m.get("subtype") == "api_retry")
            facts = {n: retry[n] for n in ("attempt", "max_retries", "error_status", "error")}
            return [*told(client.heard), words(result), facts]

    both(sides, talk)


def test_control_requests_are_answered_alike(sides: tuple[Side, Side]) -> None:
    def talk(side: Side) -> list[Any]:
        side.script(["x"], {})
        with side.client() as client:
            answers = [
                client.ask("brand_new"),
                client.ask("set_permission_mode", mode="acceptEdits"),
                client.ask("set_model", model="claude-haiku-4-5"),
                client.ask("interrupt"),
                client.ask("end_session"),
            ]
            client.rest()
            return [*answers, [kind_of(m) for m in client.heard], client.close()]

    both(sides, talk)


def test_what_is_no_message_is_taken_alike(sides: tuple[Side, Side]) -> None:
    def talk(side: Side) -> list[Any]:
        side.script(["x"], {})
        with side.client() as client:
            client.line(b'{"type":"brand_new"}\n\n[]\n{"type":"control_response","response":{"request_id":"x"}}\n')
            answer = client.ask("set_permission_mode", mode="plan")
            client.line(b"garbage\n")
            client.rest()
            return [answer, client.close()]

    both(sides, talk)


@pytest.mark.parametrize("end", ["EOF", "SIGTERM"])
def test_the_end_of_the_process_is_alike(sides: tuple[Side, Side], end: str) -> None:
    def talk(side: Side) -> list[Any]:
        side.script([[side.gate, messages.text("late")]], {"turn": [{"gate": "go"}, {"text": "late"}]})
        with side.client() as client:
            client.begin()
            client.told("system/init")
            side.at_the_gate()
            if end == "SIGTERM":
                client.process.send_signal(signal.SIGTERM)
                return [client.process.wait(BOUND)]
            assert client.process.stdin is not None
            client.process.stdin.close()
            side.go()
            client.rest()
            return [client.process.wait(BOUND), kind_of(client.heard[-2])]

    both(sides, talk)


def test_the_command_line_is_alike(sides: tuple[Side, Side]) -> None:
    def talk(side: Side) -> list[Any]:
        side.script(["x"], {})

        def run(*arguments: str, without: str = "") -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [side.executable, *arguments],
                env={name: value for name, value in side.env.items() if name != without},
                cwd=side.folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=BOUND,
            )

        version = run("--version")
        inside, outside = (run("auth", "status", "--json", without=each) for each in ("", "ANTHROPIC_API_KEY"))
        told = [json.loads(each.stdout.replace(str(side.folder), "")) for each in (inside, outside)]
        return [version.stdout, VERSION in version.stdout, *told, inside.returncode, outside.returncode, len(ARGUMENTS)]

    both(sides, talk)
