"""MCP servers on the real Claude Code: whose tools are asked about, what a server is given, and when it ends."""

from __future__ import annotations

import ast
import http.server
import json
import socket
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from claude_kit import KEY, against, prompts, results, told

from subagent_testing import ScriptedMessages, messages

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

PROGRAM = str(Path(__file__).with_name("mcp_server.py"))
SECRET = "canary-of-a-server \"'$(id)\n${HOME}"
SHOW, SAY = (messages.tool_use(f"mcp__db__{name}", {}) for name in ("show", "say"))


def said(api: ScriptedMessages) -> str:
    """What the first call of a server gave to the model."""
    return ast.literal_eval(results(api)[0])[0]["text"]


class Held:
    """A port that a server connects to, and holds until it ends."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(30)
        self.port = self._listener.getsockname()[1]

    def close(self) -> None:
        self._listener.close()

    async def ended(self) -> None:
        """The server has been there, and has ended."""

        def wait() -> None:
            connection, _ = self._listener.accept()
            with connection:
                connection.settimeout(30)
                assert connection.recv(1) == b""

        await to_thread.run_sync(wait)

    def server(self, *args: str) -> dict[str, Any]:
        return {"command": sys.executable, "args": [PROGRAM, str(self.port), *args], "env": {"TOKEN": SECRET}}


@pytest.fixture
def held() -> Generator[Held]:
    found = Held()
    yield found
    found.close()


async def test_a_tool_of_a_server_is_asked_about_and_only_a_callback_or_its_name_lets_it_run(
    work: Path, held: Held
) -> None:
    servers = {"db": held.server()}
    with ScriptedMessages([[SHOW], [SAY], "done"]) as api:
        provider = against(api, mcp_servers=servers, allowed_tools=("mcp__db__say",))
        found = await told(provider, "work", work, permission="allow")
        assert [(request.data["tool"], request.beyond) for request in found.asked] == [("mcp__db__show", True)]
        assert [tool.status for tool in found.tools] == ["failed", "completed"]
        assert found.notices("mcp-server") == []
    with ScriptedMessages([[SHOW], "done"]) as api:
        found = await told(against(api, mcp_servers=servers), "work", work, permission=lambda _: "allow")
        assert [tool.status for tool in found.tools] == ["completed"]


async def test_a_server_gets_what_commands_get_and_its_own_and_nobody_sees_its_secrets(work: Path, held: Held) -> None:
    with ScriptedMessages([[SHOW], "done"]) as api:
        provider = against(api, mcp_servers={"db": held.server("as it is: ${HOME}")}, allowed_tools=("mcp__db",))
        found = await told(provider, "work", work)
    shown = json.loads(said(api))
    assert shown["env"]["TOKEN"] == SECRET
    assert shown["env"]["HOME"].endswith("/tools/home")
    assert not {name for name in shown["env"] if name.startswith(("ANTHROPIC_", "CLAUDE_CODE_MESSAGING"))}
    assert KEY not in json.dumps(shown)
    assert shown["argv"] == ["as it is: ${HOME}"]
    assert shown["cwd"] == str(work)
    assert "--mcp-config" in shown["parent"]
    assert "canary-of-a-server" not in " ".join(shown["parent"])
    assert "canary-of-a-server" not in repr(provider.options)
    await held.ended()
    process = found.result.evidence.process
    assert process is not None
    assert process.clean
    assert process.home_removed


async def test_a_server_ends_with_a_run_that_is_cancelled(work: Path, held: Held) -> None:
    with ScriptedMessages([[messages.text("begun"), messages.silence()]]) as api, anyio.fail_after(60):
        async with against(api, mcp_servers={"db": held.server()}).start("work", cwd=work) as run:
            await api.request(1)
            run.cancel()
            result = await run.closed()
        await held.ended()
    assert result.stop_reason == "aborted"


async def test_a_task_that_says_its_tools_starts_the_servers_that_it_names(work: Path, held: Held) -> None:
    mark = work.parent / "started"
    other = {"command": sys.executable, "args": ["-c", f"open({str(mark)!r}, 'w')"]}
    with ScriptedMessages([[SAY], "done"]) as api:
        provider = against(api, mcp_servers={"db": held.server(), "other": other}, allowed_tools=("mcp__db",))
        found = await told(provider, "work", work, tools=("Read", "mcp__db"))
    assert [tool.status for tool in found.tools] == ["completed"]
    assert found.notices("tools") == []
    assert not mark.exists()


class _Web(http.server.BaseHTTPRequestHandler):
    """An MCP server over HTTP that wants to know who asks."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers["authorization"] != "Bearer canary-of-a-header":
            return self._answer(401, None)
        replies: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "web", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "say", "description": "s", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "said over http"}]},
        }
        if "id" not in request:
            return self._answer(202, None)
        return self._answer(200, {"jsonrpc": "2.0", "id": request["id"], "result": replies.get(request["method"], {})})

    def do_GET(self) -> None:
        self._answer(405, None)

    do_DELETE = do_GET  # noqa: N815  # the names are the library's

    def _answer(self, status: int, body: dict[str, Any] | None) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the library's
        pass


@contextmanager
def web() -> Generator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Web) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        finally:
            server.shutdown()
            thread.join()


async def test_a_server_elsewhere_gets_its_headers_and_one_that_is_not_to_be_had_is_told(work: Path) -> None:
    say = messages.tool_use("mcp__web__say", {})
    with web() as address, ScriptedMessages([[say], "done"]) as api:
        servers: dict[str, Any] = {
            "web": {"url": address, "headers": {"Authorization": "Bearer canary-of-a-header"}},
            "stranger": {"url": address},
            "dead": {"command": "/nonexistent/server"},
            "gone": {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]},
        }
        found = await told(against(api, mcp_servers=servers, allowed_tools=("mcp__web",)), "work", work)
    assert found.result.ok
    assert said(api) == "said over http"
    assert sorted(found.notices("mcp-server")) == [
        "the MCP server dead is not there: failed",
        "the MCP server gone is not there: failed",
        "the MCP server stranger is not there: failed",
    ]
    assert "canary-of-a-header" not in prompts(api) + repr(found)


@pytest.mark.long
async def test_a_server_that_never_answers_is_told_and_the_task_is_done(work: Path) -> None:
    servers = {"mute": {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]}}
    with ScriptedMessages("done") as api:
        found = await told(against(api, mcp_servers=servers, ready_timeout=20.0), "work", work)
    assert found.result.output == "done"
    (notice,) = found.notices("mcp-server")
    assert notice.startswith("the MCP server mute is not there: ")  # `failed` or `pending`
