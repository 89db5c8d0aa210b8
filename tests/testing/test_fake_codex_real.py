"""The fake app-server and the real one, side by side: one exchange with both, compared message by message.

The real one is the binary of `openai-codex-cli-bin`, against the scripted Responses server.  When its next version says
something else, a test here turns red, and the fake has to follow.
"""

from __future__ import annotations

import difflib
import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from app_server import EXPERIMENTAL, Client, binary, talking
from line_client import BOUND, Json

from subagent_testing import FakeCodex, Gate, ScriptedResponses, responses
from subagent_testing._fake_codex.protocol import VERSION

BY_THE_WAY = {"configWarning", "remoteControl/status/changed", "account/rateLimits/updated", "thread/started"}
"""What comes when it comes: at start, or between two others."""

NOBODY = "01a22e7c-4331-7000-8000-000000000000"


class Side:
    """One of the two: how to start it, for a script of its own kind."""

    def __init__(self, name: str, folder: Path, stack: ExitStack) -> None:
        self.name, self.folder, self.stack = name, folder, stack
        for part in ("codex", "work", "tmp"):
            (folder / part).mkdir(parents=True)
        self.env = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "CODEX_HOME": str(folder / "codex"),
            "TMPDIR": str(folder / "tmp"),
            "SUB_API_KEY": "sk-none",
        }
        self.executable = Path()

    def script(self, real: Sequence[Any], fake: Mapping[str, Any]) -> None:
        """What the model of the real one answers, and what the fake does."""
        if self.name == "fake":
            self.executable = self.stack.enter_context(FakeCodex(fake)).executable
            return
        api = self.stack.enter_context(ScriptedResponses(real))
        self.executable = binary()
        config = CONFIG.format(work=self.folder / "work", url=api.base_url)
        (self.folder / "codex" / "config.toml").write_text(config)

    def client(self) -> AbstractContextManager[Client]:
        return talking(self.executable, self.folder / "work", "--strict-config", env=self.env)


CONFIG = """
model = "gpt-5.5"
model_provider = "sub"
cli_auth_credentials_store = "ephemeral"
check_for_update_on_startup = false
web_search = "disabled"
[analytics]
enabled = false
[features]
plugins = false
apps = false
shell_snapshot = false
unbounded_connection_retries = false
[shell_environment_policy]
inherit = "core"
[projects."{work}"]
trust_level = "untrusted"
[model_providers.sub]
name = "sub"
base_url = "{url}"
wire_api = "responses"
env_key = "SUB_API_KEY"
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0
"""


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    binary()
    with ExitStack() as stack:
        yield Side("real", tmp_path / "real", stack), Side("fake", tmp_path / "fake", stack)


def shape(value: Any) -> Any:
    """The names of members, all the way down; of a list, the different shapes in it."""
    if isinstance(value, dict):
        return {name: shape(member) for name, member in cast("Json", value).items()}
    if isinstance(value, list):
        shapes = [json.dumps(shape(element)) for element in cast("list[Any]", value)]
        return [json.loads(each) for each in dict.fromkeys(shapes)]
    return "."


def notifications(heard: Sequence[Json]) -> list[Json]:
    """The shapes of notifications and requests, in order, without what comes by the way."""
    told = [message for message in heard if message.get("method", "configWarning") not in BY_THE_WAY]
    return [{"method": m["method"], "params": shape(m["params"])} for m in told]


def words(heard: Sequence[Json], name: str) -> list[Any]:
    """The values of a member of items, or of turns, wherever it is told."""
    told: list[Json] = [m["params"].get("item") or m["params"].get("turn") or {} for m in heard if "params" in m]
    return [each[name] for each in told if name in each]


def _lines(told: list[Any]) -> list[str]:
    return [json.dumps(each, sort_keys=True) for each in told]


def both(sides: tuple[Side, Side], talk: Callable[[Side], list[Any]]) -> None:
    """Talk to both; what comes of it is equal."""
    real, fake = (_lines(talk(side)) for side in sides)
    assert fake == real, "\n".join(difflib.unified_diff(real, fake, "real", "fake", lineterm="", n=1))


def test_a_turn_with_a_thought_and_an_answer_is_told_alike(sides: tuple[Side, Side]) -> None:
    def talk(side: Side) -> list[Any]:
        side.script(
            [[responses.reasoning("hm"), responses.message("hello", phase="final_answer")]],
            {"turn": [{"reasoning": "hm"}, {"message": {"text": "hello", "phase": "final_answer"}}]},
        )
        with side.client() as client:
            thread = client.start()
            client.turn(thread)
            turn = client.told("turn/completed")["turn"]
            answers = [shape(m) for m in client.heard if "method" not in m]
            assert client.close() == 0
            facts = {"status": turn["status"], "text": turn["items"][0]["text"], "types": words(client.heard, "type")}
            return [*answers, *notifications(client.heard), facts]

    both(sides, talk)


def test_what_is_refused_is_refused_in_the_same_words(sides: tuple[Side, Side]) -> None:
    def talk(side: Side) -> list[Any]:
        side.script(["never"], {})
        text = [{"type": "text", "text": "hi"}]
        with side.client() as client:
            refused = [client.ask("thread/start", {}), client.ask("initialize", {})]
            info = {"clientInfo": {"name": "test", "version": "1"}}
            assert "result" in client.ask("initialize", info)
            thread = client.ask("thread/start", {"ephemeral": True}, jsonrpc="2.0")["result"]["thread"]["id"]
            here = {"threadId": thread}
            asked: list[tuple[str, Json | None]] = [
                ("initialize", info),
                ("brandNew/thing", {}),
                ("account/read", None),
                ("thread/start", {"sandbox": "everything"}),
                ("thread/start", {"sandbox": 5}),
                ("thread/start", {"approvalPolicy": "on-failure"}),
                ("thread/start", {"dynamicTools": []}),
                ("thread/backgroundTerminals/clean", here),
                ("thread/resume", {"threadId": "nobody"}),
                ("thread/resume", {"threadId": NOBODY}),
                ("turn/start", {"threadId": "nobody", "input": text}),
                ("turn/start", {"threadId": NOBODY, "input": text}),
                ("turn/start", here),
                ("turn/start", {**here, "input": [{"type": "smell"}]}),
                ("turn/start", {**here, "input": [{"type": "text", "text": "x" * 1_048_577}]}),
                ("turn/steer", {**here, "input": text, "expectedTurnId": "t"}),
                ("turn/interrupt", {**here, "turnId": "t"}),
                ("account/login/start", {"type": "password"}),
            ]
            for method, params in asked:
                refused.append(client.ask(method, params))
            client.send({"id": None, "method": "account/read", "params": {}})
            client.send({"id": 999, "result": {}})
            client.line(b'garbage\n[]\n\n{"id":5}\n')
            seen = len(client.heard)
            refused.append(client.ask("account/read", {}))
            assert [m for m in client.heard[seen:-1] if m.get("method") not in BY_THE_WAY] == []
        return json.loads(re.sub(r"expected one of `initialize`[^\"]*", "…", json.dumps(refused)))

    both(sides, talk)


ANSWERS: list[Json] = [
    {"result": {"decision": "accept"}},
    {"result": {"decision": "decline"}},
    {"result": {"decision": "cancel"}},
    {"result": {"nonsense": 1}},
    {"error": {"code": -32601, "message": "no"}},
]


@pytest.mark.parametrize("answer", ANSWERS, ids=["accept", "decline", "cancel", "nonsense", "error"])
@pytest.mark.parametrize("asked", ["command", "file_change"])
def test_approvals_are_asked_for_and_taken_alike(sides: tuple[Side, Side], asked: str, answer: Json) -> None:
    patch = "*** Begin Patch\n*** Add File: a.txt\n+hello\n*** End Patch\n"
    call = {
        "command": responses.function_call(
            "exec_command", {"cmd": "echo hi", "sandbox_permissions": "require_escalated", "justification": "it has to"}
        ),
        "file_change": responses.custom_tool_call("apply_patch", patch),
    }[asked]

    def talk(side: Side) -> list[Any]:
        side.script([call, "done"], {"turn": [{asked: {"ask": True}}, {"message": "done"}]})
        with side.client() as client:
            client.turn(client.start())
            while (message := client.next()).get("method") != "turn/completed":
                if "method" in message and "id" in message:
                    client.send({"id": message["id"], **answer})
        heard = [m for m in notifications(client.heard) if m["method"] not in EACH_RESPONSE]
        told = [m for m in heard if m["method"] != "thread/status/changed"]  # it comes from another task, when it comes
        statuses = sorted(
            m["params"]["status"]["type"] for m in client.heard if m.get("method") == "thread/status/changed"
        )
        file = side.folder / "work" / "a.txt"
        ends = {"item and turn": words(client.heard, "status"), "command": words(client.heard, "exitCode")}
        return [*told, statuses, ends, file.exists() and file.read_text()]

    both(sides, talk)


EACH_RESPONSE = ("thread/tokenUsage/updated", "turn/diff/updated")
"""The real one tells these after each response of the model; the fake once, or where its script says so."""


def test_steering_and_interrupting_are_answered_alike(sides: tuple[Side, Side]) -> None:
    gate = Gate()

    def talk(side: Side) -> list[Any]:
        side.script([gate], {"turn": ["work"]})
        text = [{"type": "text", "text": "and quickly"}]
        with side.client() as client:
            thread = client.start()
            turn = client.turn(thread)
            client.told("turn/started")
            here = {"threadId": thread}
            answers = [
                client.ask("turn/steer", {**here, "input": text, "expectedTurnId": "other"}),
                client.ask("turn/steer", {**here, "input": text, "expectedTurnId": turn}),
                client.ask("turn/start", {**here, "input": text}),
                client.ask("turn/interrupt", {**here, "turnId": "other"}),
                client.ask("turn/interrupt", {**here, "turnId": turn}),
            ]
            ended = client.told("turn/completed")
            cleaned = client.ask("thread/backgroundTerminals/clean", here)
            assert answers[2]["result"]["turn"]["id"] == turn, "a second start steers the turn that is there"
        told = json.dumps([*answers, cleaned]).replace(turn, "TURN").replace(thread, "THREAD")
        return [json.loads(told), shape(ended), ended["turn"]["status"]]

    both(sides, talk)


def test_a_turn_that_fails_is_told_alike_and_the_next_one_completes(sides: tuple[Side, Side]) -> None:
    message = '{"error": {"message": "bad"}}'

    def talk(side: Side) -> list[Any]:
        side.script(
            [responses.status(400, {"error": {"message": "bad"}}), "fine"],
            {"on": {"turn/start": [["answer", "begin", {"fail": {"message": message}}], ["answer", "turn"]]}},
        )
        with side.client() as client:
            thread = client.start()
            client.turn(thread)
            error, ended = client.told("error"), client.told("turn/completed")
            failed = notifications(client.heard)
            client.turn(thread)
            completed = client.told("turn/completed")["turn"]
        facts = {"willRetry": error["willRetry"], "error": ended["turn"]["error"], "next": completed["status"]}
        return [*failed, facts]

    both(sides, talk)


def test_a_thread_is_resumed_in_another_process_alike(sides: tuple[Side, Side]) -> None:
    def talk(side: Side) -> list[Any]:
        side.script(["one", "two"], {"turn": [{"message": "hi"}]})
        with side.client() as client:
            thread = client.start(ephemeral=False, sandbox="workspace-write", approvalPolicy="never")
            client.turn(thread)
            client.told("turn/completed")
        with side.client() as client:
            client.ask("initialize", {"clientInfo": {"name": "test", "version": "1"}, **EXPERIMENTAL})
            resumed = client.ask("thread/resume", {"threadId": thread, "excludeTurns": True})["result"]
            client.turn(thread)
            client.told("turn/completed")
        assert resumed["thread"]["id"] == thread
        settings = {name: resumed[name] for name in ("approvalPolicy", "sandbox", "model")}
        usage = [m["params"]["tokenUsage"] for m in client.heard if m.get("method") == "thread/tokenUsage/updated"]
        return [shape(resumed), settings, usage[-1]["total"]]

    both(sides, talk)


ASKED: dict[str, Json] = {
    "nothing": {},
    **{word: {"sandbox": word} for word in ("read-only", "workspace-write", "danger-full-access")},
    "a profile that extends one": {
        "config": {"default_permissions": "mine", "permissions": {"mine": {"extends": ":workspace"}}}
    },
    "a profile that extends none": {"config": {"default_permissions": "mine", "permissions": {"mine": {}}}},
    "a profile of its own": {"config": {"default_permissions": ":danger-full-access"}},
    "a word beside a profile": {
        "sandbox": "read-only",
        "config": {"default_permissions": "mine", "permissions": {"mine": {"extends": ":workspace"}}},
    },
}
"""What may be asked for: the sandbox of a thread."""


def test_a_sandbox_or_a_permission_profile_is_taken_alike(sides: tuple[Side, Side]) -> None:
    def talk(side: Side) -> list[Any]:
        side.script(["hi"], {})
        told: list[Any] = []
        threads: list[str] = []
        with side.client() as client:
            client.ask("initialize", {"clientInfo": {"name": "test", "version": "1"}})
            for how, asked in ASKED.items():
                if asked:  # without a word the real one's own configuration decides
                    opened = client.ask("thread/start", asked)["result"]
                    told.append([how, opened["sandbox"]["type"], opened["activePermissionProfile"]])
                    threads.append(opened["thread"]["id"])
                    client.turn(threads[-1])
                    client.told("turn/completed")
        for thread in threads[:4]:
            with side.client() as client:
                client.ask("initialize", {"clientInfo": {"name": "test", "version": "1"}})
                opened = client.ask("thread/resume", {"threadId": thread, "excludeTurns": True})["result"]
                told.append([opened["sandbox"]["type"], opened["activePermissionProfile"]])
        for how, asked in ASKED.items():
            with side.client() as client:
                client.ask("initialize", {"clientInfo": {"name": "test", "version": "1"}})
                again = {"threadId": threads[1], "excludeTurns": True, **asked}
                opened = client.ask("thread/resume", again)["result"]
                told.append(["again", how, opened["sandbox"]["type"], opened["activePermissionProfile"]])
        return told

    both(sides, talk)


def test_signing_in_and_out_is_told_alike(sides: tuple[Side, Side]) -> None:
    def talk(side: Side) -> list[Any]:
        side.script(["hi"], {})
        with side.client() as client:
            client.ask("initialize", {"clientInfo": {"name": "test", "version": "1"}})
            account = client.ask("account/read", {})
            client.ask("account/login/start", {"type": "apiKey", "apiKey": "sk-none"})
            done, inside = client.told("account/login/completed"), client.told("account/updated")
            out = client.ask("account/logout")
            return [account, done, inside, out, client.told("account/updated")]

    both(sides, talk)


def test_models_and_configuration_have_the_members_that_we_rely_on(sides: tuple[Side, Side]) -> None:
    def talk(side: Side) -> list[Any]:
        side.script(["hi"], {})
        with side.client() as client:
            client.ask("initialize", {"clientInfo": {"name": "test", "version": "1"}})
            models = client.ask("model/list", {})["result"]
            config = client.ask("config/read", {})["result"]
            key = {"keyPath": "model", "value": "gpt-5.5", "mergeStrategy": "upsert"}
            written = client.ask("config/value/write", key)
        return [sorted(models), sorted(models["data"][0]), config["config"]["model"], sorted(config), shape(written)]

    both(sides, talk)


@pytest.mark.parametrize("end", ["EOF", "SIGTERM", "SIGINT"])
def test_the_end_of_the_process_is_alike(sides: tuple[Side, Side], end: str) -> None:
    gate = Gate()

    def talk(side: Side) -> list[Any]:
        side.script([gate], {"turn": ["work"]})
        with side.client() as client:
            client.turn(client.start())
            client.told("turn/started")
            if end == "EOF":
                return [client.close()]
            client.process.send_signal(signal.Signals[end])
            return [client.process.wait(BOUND)]

    both(sides, talk)


def test_the_command_line_is_alike(sides: tuple[Side, Side]) -> None:
    def talk(side: Side) -> list[Any]:
        side.script(["hi"], {})
        key, config = (side.folder / "codex" / name for name in ("auth.json", "config.toml"))
        config.unlink(missing_ok=True)  # with credentials that are ephemeral nobody ever is signed in

        def run(*arguments: str, **env: str) -> list[Any]:
            done = subprocess.run(
                [side.executable, *arguments],
                env={**side.env, **env},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=BOUND,
            )
            said = [line for line in done.stderr.splitlines() if line.startswith(("Not logged", "Logged in using"))]
            return [done.returncode, done.stdout, [line.partition(" - ")[0] for line in said]]

        told = [run("--version"), run("login", "status"), run("app-server", CODEX_HOME="/nowhere")[:2], run("nonsense")]
        key.write_text('{"auth_mode": "apikey", "OPENAI_API_KEY": "sk-abcdefghijklmnop"}')
        return [*told, run("login", "status"), VERSION in told[0][1]]

    both(sides, talk)
