"""What the fake app-server says and accepts, against the JSON schema that the real one writes."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from app_server import binary, talking
from line_client import BOUND, Json

from subagent_testing import FakeCodex
from subagent_testing._fake.recorded import fill, new_id
from subagent_testing._fake_codex.answers import NO_SUCH_METHOD, SHAPES, wrong
from subagent_testing._fake_codex.recorded import RECORDED

RESPONSES = {
    "applyPatchApproval": "ApplyPatchApprovalResponse",
    "execCommandApproval": "ExecCommandApprovalResponse",
    "attestation/generate": "AttestationGenerateResponse",
    "account/chatgptAuthTokens/refresh": "ChatgptAuthTokensRefreshResponse",
    "item/commandExecution/requestApproval": "CommandExecutionRequestApprovalResponse",
    "item/fileChange/requestApproval": "FileChangeRequestApprovalResponse",
    "item/permissions/requestApproval": "PermissionsRequestApprovalResponse",
    "item/tool/call": "DynamicToolCallResponse",
    "item/tool/requestUserInput": "ToolRequestUserInputResponse",
    "mcpServer/elicitation/request": "McpServerElicitationRequestResponse",
}

NETWORK: Json = {"network_policy_amendment": {"host": "h", "action": "allow"}}

RESULTS: list[Any] = [
    {},
    [],
    None,
    {"decision": None},
    *({"decision": word} for word in ("accept", "acceptForSession", "decline", "cancel", "approved", "abort", 1)),
    *({"decision": word} for word in ("approved_for_session", "approved_mcp_policy_amendment", "timed_out")),
    {"decision": {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["ls"]}}},
    {"decision": {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": [1]}}},
    {"decision": {"acceptWithExecpolicyAmendment": {}}},
    {"decision": {"applyNetworkPolicyAmendment": NETWORK}},
    {"decision": {"applyNetworkPolicyAmendment": {"network_policy_amendment": {"host": "h", "action": "maybe"}}}},
    {"decision": {"applyNetworkPolicyAmendment": NETWORK, "accept": True}},
    {"decision": {"denied": {"rejection": "no"}}},
    {"decision": {"denied": {}}},
    {"decision": {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": ["ls"]}}},
    {"decision": {"network_policy_amendment": NETWORK}},
    {"decision": "accept", "more": 1},
    {"permissions": {}},
    {"permissions": {}, "scope": "turn"},
    {"permissions": {"fileSystem": None, "network": None}, "scope": "session", "strictAutoReview": True},
    {"permissions": {"fileSystem": {"read": ["/a"], "write": None}, "network": {"enabled": False}}},
    {"permissions": {"fileSystem": {"entries": [{"access": "read", "path": {"type": "path", "path": "/a"}}]}}},
    {"permissions": {"fileSystem": {"entries": [{"access": "all", "path": {"type": "path", "path": "/a"}}]}}},
    {"permissions": {"fileSystem": {"read": "/a"}}},
    {"permissions": {"network": {"enabled": 1}}},
    {"permissions": {"network": True}},
    {"permissions": {}, "scope": "forever"},
    {"answers": {}},
    {"answers": {"q1": {"answers": ["red"]}}},
    {"answers": {"q1": {"answers": "red"}}},
    {"answers": {"q1": ["red"]}},
    {"answers": []},
    *({"action": word} for word in ("accept", "decline", "cancel", "allow")),
    {"action": "accept", "content": {}, "_meta": None},
    {"contentItems": [], "success": False},
    {"contentItems": [{"type": "inputText", "text": "t"}, {"type": "inputImage", "imageUrl": "u"}], "success": True},
    {"contentItems": [{"type": "inputAudio", "audioUrl": "u"}], "success": True},
    {"contentItems": [{"type": "inputText"}], "success": True},
    {"contentItems": [{"type": "text", "text": "t"}], "success": True},
    {"contentItems": [], "success": "no"},
    {"accessToken": "t", "chatgptAccountId": "a"},
    {"accessToken": "t", "chatgptAccountId": "a", "chatgptPlanType": None},
    {"accessToken": "t", "chatgptAccountId": "a", "chatgptPlanType": 1},
    {"token": "t"},
    {"token": 1},
]


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of schemas that the real one writes."""
    folder = tmp_path_factory.mktemp("schema")
    env = {"PATH": os.defpath, "HOME": str(folder), "CODEX_HOME": str(folder)}
    argv = [binary(), "app-server", "generate-json-schema", "--out", folder / "out"]
    subprocess.run(argv, env=env, check=True, capture_output=True, timeout=BOUND)
    return folder / "out"


@cache
def _validator(path: Path) -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(json.loads(path.read_text(encoding="utf-8")))


def _validates(schemas: Path, name: str, value: Any) -> bool:
    return _validator(schemas / f"{name}.json").is_valid(value)  # pyright: ignore[reportUnknownMemberType]


def _of_method(schemas: Path, name: str) -> dict[str, jsonschema.Draft7Validator]:
    """Method -> what a message with it has to be, out of a schema of many."""
    whole = json.loads((schemas / f"{name}.json").read_text(encoding="utf-8"))
    return {
        one["properties"]["method"]["enum"][0]: jsonschema.Draft7Validator({**one, "definitions": whole["definitions"]})
        for one in whole["oneOf"]
    }


def _faults(validator: jsonschema.Draft7Validator, value: Any) -> list[str]:
    return [str(fault.message) for fault in validator.iter_errors(value)]  # pyright: ignore[reportUnknownMemberType]


def test_the_fake_knows_every_request_of_the_server_and_sends_it_as_the_schema_says(schemas: Path) -> None:
    known = _of_method(schemas, "ServerRequest")
    assert RECORDED["requests"].keys() == SHAPES.keys() == RESPONSES.keys() == known.keys()
    for method, params in RECORDED["requests"].items():
        filled = fill(params, thread=new_id(), turn=new_id(), item="call_1", cwd="/work")
        assert "$" not in json.dumps(filled)
        assert _faults(known[method], {"id": 0, "method": method, "params": filled}) == [], method


@pytest.mark.parametrize("method", RESPONSES)
def test_an_answer_is_right_for_the_fake_when_it_is_right_by_the_schema(schemas: Path, method: str) -> None:
    for result in RESULTS:
        assert (wrong(method, {"id": 0, "result": result}) == "") == _validates(schemas, RESPONSES[method], result), (
            result
        )


def test_an_error_is_a_right_answer_only_where_there_is_no_refusal() -> None:
    no: Json = {"id": 0, "error": {"code": NO_SUCH_METHOD, "message": "no such method"}}
    assert wrong("brandNew/thing", no) == ""
    assert wrong("attestation/generate", no) == ""
    assert wrong("account/chatgptAuthTokens/refresh", no) == ""
    assert "has an answer for a refusal" in wrong("item/tool/call", no)
    assert wrong("brandNew/thing", {"error": {"code": -32000, "message": ""}}).startswith("error -32000 for an unknown")
    assert wrong("brandNew/thing", {"result": {}}) == "a result for an unknown method"
    assert wrong("brandNew/thing", {"error": {"code": 1}}) == "error lacks message"
    assert wrong("brandNew/thing", {"error": {}, "result": {}}) == "both result and error"
    assert wrong("brandNew/thing", {}) == "neither result nor error"


ANSWERS = {
    "initialize": "v1/InitializeResponse",
    "account/read": "v2/GetAccountResponse",
    "account/login/start": "v2/LoginAccountResponse",
    "account/logout": "v2/LogoutAccountResponse",
    "config/value/write": "v2/ConfigWriteResponse",
    "model/list": "v2/ModelListResponse",
    "thread/start": "v2/ThreadStartResponse",
    "thread/resume": "v2/ThreadResumeResponse",
    "thread/unsubscribe": "v2/ThreadUnsubscribeResponse",
    "turn/start": "v2/TurnStartResponse",
    "turn/steer": "v2/TurnSteerResponse",
    "turn/interrupt": "v2/TurnInterruptResponse",
}


def test_everything_that_the_fake_says_is_as_the_schema_says(schemas: Path, tmp_path: Path) -> None:
    every: list[Any] = [
        {"reasoning": "hm"},
        {"plan": [{"step": "one", "status": "inProgress"}]},
        {"retry": "Reconnecting... 1/5"},
        {"command": {"exitCode": 3}},
        {"file_change": {"path": "b.txt"}},
        {"message": {"text": "so", "phase": "commentary"}},
        {"usage": {"inputTokens": 7}},
    ]
    script: Json = {
        "requires_openai_auth": True,
        "on": {
            "turn/start": [
                ["answer", {"turn": every}],
                ["answer", "begin", {"fail": {"message": "full", "codexErrorInfo": "contextWindowExceeded"}}],
                ["answer", {"turn": ["work"]}],
            ]
        },
    }
    text = [{"type": "text", "text": "hi"}]
    answers: list[tuple[str, Json]] = []
    with FakeCodex(script) as fake, talking(fake.executable, tmp_path, env={"CODEX_HOME": str(tmp_path)}) as client:

        def ask(method: str, params: Any = None) -> Any:
            answers.append((method, client.ask(method, params)))
            return answers[-1][1]["result"]

        ask("initialize", {"clientInfo": {"name": "test", "version": "1"}})
        ask("account/login/start", {"type": "apiKey", "apiKey": "sk"})
        ask("account/read", {})
        ask("account/logout")
        ask("config/value/write", {"keyPath": "model", "value": "m", "mergeStrategy": "upsert"})
        ask("model/list", {})
        for sandbox in ("workspace-write", "danger-full-access"):
            ask("thread/start", {"sandbox": sandbox, "ephemeral": True})
        thread = ask("thread/start", {"sandbox": "read-only"})["thread"]["id"]
        here = {"threadId": thread, "input": text}
        for _ in range(2):
            ask("turn/start", here)
            client.told("turn/completed")
        turn = ask("turn/start", here)["turn"]["id"]
        ask("turn/steer", {**here, "expectedTurnId": turn})
        ask("turn/interrupt", {"threadId": thread, "turnId": turn})
        client.told("turn/completed")
        ask("thread/resume", {"threadId": thread})
        ask("thread/unsubscribe", {"threadId": thread})
        client.close()
        heard = client.heard

    known = _of_method(schemas, "ServerNotification")
    for message in heard:
        if "method" in message:
            assert _faults(known[message["method"]], message) == [], message
    for method, answer in answers:
        assert _faults(_validator(schemas / f"{ANSWERS[method]}.json"), answer["result"]) == [], method
