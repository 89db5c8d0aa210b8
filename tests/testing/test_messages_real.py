"""The scripted Messages server as the real `claude` sees it: what each step of a script makes of its turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from line_client import Json
from stream_json import binary, environment, talking

from subagent_testing import ScriptedMessages, messages


def turn(folder: Path, api: ScriptedMessages, *arguments: str, **env: str) -> tuple[Json, list[Json]]:
    """One turn of the real one: its result, and all that it said."""
    with talking(binary(), folder / "work", *arguments, env=environment(folder, api.base_url, **env)) as client:
        client.begin()
        return client.told("result"), client.heard


def test_the_real_one_works_with_what_the_server_says_and_nothing_else_is_asked(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("the content")
    read = messages.tool_use("Read", {"file_path": str(tmp_path / "work" / "a.txt")})
    with ScriptedMessages([[messages.thinking("hm"), messages.text("let me look"), read], "it says so"]) as api:
        result, heard = turn(tmp_path, api)
        assert (result["subtype"], result["result"], result["num_turns"]) == ("success", "it says so", 2)
        assert result["usage"]["input_tokens"] == 200
        said = [block["type"] for m in heard if m["type"] == "assistant" for block in m["message"]["content"]]
        assert said == ["thinking", "text", "tool_use", "text"]
        assert "the content" in str(api.requests[1].body["messages"][-1])
        assert (len(api.requests), api.others) == (2, [])
        assert api.requests[0].headers["x-api-key"] == "sk-none"


def test_the_request_for_a_title_is_known(tmp_path: Path) -> None:
    env = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "", "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1"}
    with ScriptedMessages(["hello"]) as api:
        env = environment(tmp_path, api.base_url, DISABLE_ERROR_REPORTING="1", **env)
        with talking(binary(), tmp_path, env=env) as client:
            client.begin(
                "Write a small parser of INI files, with tests for all of it, please."
            )  # a short one gets none
            assert client.told("result")["result"] == "hello"
            client.close()
        assert len(api.requests) == 1
        assert "/v1/messages" in {other.path.partition("?")[0] for other in api.others}


@pytest.mark.parametrize(
    ("steps", "status", "error"),
    [
        ([messages.status(403, message="not allowed")], 403, "authentication_failed"),
        ([messages.status(404, message="model: m")], 404, "model_not_found"),
        ([messages.status(429, headers={"x-should-retry": "false"})], 429, "rate_limit"),
        ([messages.status(529, message="Overloaded")], 529, "server_error"),
        ([messages.sse_error()], 529, "server_error"),
        ([messages.cut()], None, "server_error"),
    ],
    ids=["403", "404", "429", "529", "sse_error", "cut"],
)
def test_what_fails_is_an_error_of_the_real_one(
    tmp_path: Path, steps: list[Any], status: int | None, error: str
) -> None:
    with ScriptedMessages([steps]) as api:
        result, heard = turn(tmp_path, api)
        (said,) = [m for m in heard if m["type"] == "assistant"]
        assert (result["is_error"], result.get("api_error_status"), said["error"]) == (True, status, error)


def test_a_stream_that_breaks_before_its_first_block_is_asked_for_again_without_one(tmp_path: Path) -> None:
    with ScriptedMessages([[messages.started(), messages.cut()], "whole"]) as api:
        result, _ = turn(tmp_path, api)
        assert (result["is_error"], result["result"]) == (False, "whole")
        assert [request.body.get("stream") for request in api.requests] == [True, False]


def test_a_client_that_is_stopped_is_seen_to_leave(tmp_path: Path) -> None:
    with (
        ScriptedMessages([messages.silence()]) as api,
        talking(binary(), tmp_path, env=environment(tmp_path, api.base_url)) as client,
    ):
        client.begin()
        api.wait_for_request(1)
        client.ask("interrupt")
        assert client.told("result")["terminal_reason"] == "aborted_streaming"
        api.wait_for_hang_up(1)
