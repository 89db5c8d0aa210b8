"""The table of methods: against what the client sends and reads, and against the schema of the real binary."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from subagent_codex import Codex
from subagent_codex._methods import ASKED, PINNED, READ, SENT
from subagent_codex._notices import NOTICES, PASSED
from subagent_codex._requests import KINDS
from subagent_codex._turn import Turn
from subagent_testing import FakeCodex

codex_cli_bin = pytest.importorskip("codex_cli_bin", reason="openai-codex-cli-bin is not installed")

TOOL = Path(__file__).parents[2] / "tools" / "codex_schema.py"
BUNDLE = "codex_app_server_protocol.schemas.json"
BINARY: Path = codex_cli_bin.bundled_codex_path()


def compared(*arguments: str | Path) -> tuple[int, dict[str, Any], str]:
    """Exit status, what it found, what it complained about."""
    argv = [sys.executable, TOOL, "--json", *arguments]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The schema of the bundled binary."""
    folder = tmp_path_factory.mktemp("schema")
    argv = [BINARY, "app-server", "generate-json-schema", "--experimental", "--out", folder]
    env = {"CODEX_HOME": str(folder), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=60)
    return folder


# -- against the schema ------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_pinned_binary_is_as_the_tables_say() -> None:
    assert compared() == (0, {"version": PINNED, "broken": [], "news": []}, "")
    assert compared("--codex", BINARY)[0] == 0


def of(bundle: Any, kind: str, method: str) -> Any:
    """The variant of a method."""
    variants = bundle["definitions"][kind]["oneOf"]
    (found,) = [variant for variant in variants if variant["properties"]["method"]["enum"] == [method]]
    return found


def without(kind: str, method: str) -> Callable[[Any], None]:
    def edit(bundle: Any) -> None:
        bundle["definitions"][kind]["oneOf"].remove(of(bundle, kind, method))

    return edit


def renamed(kind: str, method: str, name: str) -> Callable[[Any], None]:
    def edit(bundle: Any) -> None:
        of(bundle, kind, method)["properties"]["method"]["enum"] = [name]

    return edit


def fields(name: str, *, v2: bool = True, add: str = "", drop: str = "", need: str = "") -> Callable[[Any], None]:
    def edit(bundle: Any) -> None:
        found = bundle["definitions"]["v2"][name] if v2 else bundle["definitions"][name]
        if add:
            found["properties"][add] = True
        if drop:
            del found["properties"][drop]
        if need:
            found.setdefault("required", []).append(need)

    return edit


def word(name: str, old: str, new: str) -> Callable[[Any], None]:
    """An enum value under another spelling."""

    def edit(bundle: Any) -> None:
        text = json.dumps(bundle["definitions"][name])
        assert f'["{old}"]' in text
        bundle["definitions"][name] = json.loads(text.replace(f'["{old}"]', f'["{new}"]'))

    return edit


def error(bundle: Any) -> None:
    bundle["definitions"]["v2"]["CodexErrorInfo"]["anyOf"][0]["enum"].append("moonPhase")


COMMAND, FILES = "item/commandExecution/requestApproval", "item/fileChange/requestApproval"
DOCTORED: dict[str, tuple[Callable[[Any], None], str, str]] = {
    # what: how, broken or news, the line
    "a request is gone": (without("ClientRequest", "turn/interrupt"), "broken", "request turn/interrupt: it is gone"),
    "a param is gone": (
        fields("TurnStartParams", drop="outputSchema"),
        "broken",
        "request turn/start: it does not take outputSchema any more",
    ),
    "a param is needed": (fields("TurnStartParams", need="mood"), "broken", "request turn/start: it needs mood"),
    "a param is needed that we send only sometimes": (
        fields("TurnStartParams", need="effort"), "broken", "request turn/start: it needs effort",
    ),
    "a field of an answer is gone": (
        fields("InitializeResponse", v2=False, drop="codexHome"),
        "broken",
        "request initialize: its answer has no codexHome any more",
    ),
    "a server request is new": (
        renamed("ServerRequest", "item/tool/call", "item/tool/summon"),
        "broken",
        "server request item/tool/summon: it is new, and is answered with 'method not found'",
    ),
    "a server request is gone": (
        without("ServerRequest", "item/tool/call"), "news", "server request item/tool/call: it is gone",
    ),
    "an approval asks for more": (
        fields("CommandExecutionRequestApprovalParams", v2=False, add="asRoot"),
        "broken",
        f"server request {COMMAND}: asRoot is new",
    ),
    "an approval says less": (
        fields("CommandExecutionRequestApprovalParams", v2=False, drop="additionalPermissions"),
        "broken",
        f"server request {COMMAND}: additionalPermissions is gone",
    ),
    "an answer is spelt otherwise": (
        word("FileChangeApprovalDecision", "decline", "reject"),
        "broken",
        f'server request {FILES}: {{"decision": "decline"}} (reject_once) is no answer any more',
    ),
    "a notification is gone": (
        without("ServerNotification", "turn/completed"), "broken", "notification turn/completed: it is gone",
    ),
    "a notification says less": (
        fields("AgentMessageDeltaNotification", drop="itemId"),
        "broken",
        "notification item/agentMessage/delta: it has no itemId any more",
    ),
    "a notification is new": (
        renamed("ServerNotification", "warning", "omen"),
        "news",
        "notification omen: it is new, and is counted as unknown",
    ),
    "an error is new": (error, "news", "codexErrorInfo moonPhase: it is new, and is classified by its text"),
}  # fmt: skip


@pytest.fixture(scope="module")
def tool() -> Any:
    """The tool as a module: it takes a second to start."""
    spec = importlib.util.spec_from_file_location("codex_schema", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("what", DOCTORED)
def test_a_schema_that_has_changed_is_told_apart(what: str, schema: Path, tool: Any) -> None:
    edit, kind, line = DOCTORED[what]
    bundle = json.loads((schema / BUNDLE).read_bytes())
    edit(bundle)
    found = tool.Schema(bundle)
    lines = {"broken": [*tool.broken(found)], "news": [*tool.news(found)]}
    assert lines.pop(kind) == [line]
    # A request under another name is a new one and one that is gone.
    assert [told for told in lines["news" if kind == "broken" else "broken"] if "gone" not in told] == []


@pytest.mark.long
def test_what_is_broken_is_in_the_exit_status_and_news_is_not(schema: Path, tmp_path: Path) -> None:
    for what, status in (("an error is new", 0), ("a param is needed", 1)):
        bundle = json.loads((schema / BUNDLE).read_bytes())
        edit, kind, line = DOCTORED[what]
        edit(bundle)
        (tmp_path / BUNDLE).write_text(json.dumps(bundle))
        told, found, _ = compared("--schema", tmp_path)
        assert (told, found[kind]) == (status, [line])


@pytest.mark.long
def test_people_are_told_in_lines_and_what_is_no_codex_is_an_error_of_its_own(schema: Path, tmp_path: Path) -> None:
    argv = [sys.executable, TOOL, "--schema", schema]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    lines = [f"codex of that schema; our tables are for {PINNED}", "broken: nothing", "news: nothing"]
    assert (done.returncode, done.stdout.splitlines()) == (0, lines)
    for arguments in (["--schema", tmp_path], ["--codex", "/bin/false"], ["--codex", tmp_path / "absent"]):
        status, found, complaint = compared(*arguments)
        assert (status, found) == (2, {})
        assert complaint.startswith("there is no schema to look at: ")


def test_every_notification_of_the_schema_is_read_or_passed(schema: Path) -> None:
    bundle = json.loads((schema / BUNDLE).read_bytes())
    variants = bundle["definitions"]["ServerNotification"]["oneOf"]
    methods = {variant["properties"]["method"]["enum"][0] for variant in variants}
    assert methods - READ.keys() - NOTICES.keys() - PASSED == set()


# -- against the client ------------------------------------------------------------------------------------------------


def test_every_request_of_the_server_that_is_asked_has_an_answer() -> None:
    assert ASKED.keys() == KINDS.keys()


def test_what_is_said_to_be_read_is_read() -> None:
    turn = Turn(lambda _: None, accepted=lambda: None, ended=lambda: None, cwd="/w")
    for method in READ:
        turn.notified(method, {})
    known = turn.unknown.keys() - READ.keys()
    assert known == set()
    assert not READ.keys() & (NOTICES.keys() | PASSED)


@pytest.mark.anyio
async def test_what_is_sent_is_what_the_table_says(tmp_path: Path) -> None:
    seen: dict[str, set[str]] = {}
    home: dict[str, Any] = {"home": tmp_path / "home", "sandbox": "read-only"}

    async def one(script: dict[str, Any], options: dict[str, Any], **task: Any) -> str | None:
        with FakeCodex(script) as fake:
            async with Codex(executable=fake.executable, **options).start("x", cwd=tmp_path, **task) as run:
                if "turn" in script:
                    await fake.happened("here")
                    await run.send("more")
                    await fake.happened("turn/steer")
                    run.cancel()
                result = await run.closed()
            for message in fake.received:
                if "id" in message and "method" in message:
                    sent, params = SENT[message["method"]], set(message.get("params", {}))
                    assert set(sent.always) <= params, message
                    assert params <= {*sent.always, *sent.sometimes}, message
                    seen.setdefault(message["method"], set()).update(params)
        return result.session

    with anyio.fail_after(60):
        await one({}, {"api_key": "sk-test-0123456789"}, effort="low", output_schema={}, instructions="i")
        session = await one({}, {"base_url": "http://127.0.0.1:9/v1", **home})
        await one({"signed_in": True}, home, resume=session, instructions="i")
        await one({"turn": [{"gate": "here"}]}, {"base_url": "http://127.0.0.1:9/v1"})
    assert seen.keys() == SENT.keys()
    for method, sent in SENT.items():
        assert seen[method] == {*sent.always, *sent.sometimes}, method
