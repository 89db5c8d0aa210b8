"""From spawn to the first answer and closed, on an engine that answers at once, beside what people use today.

Each starts the engine, sends what it sends first, reads the answer and closes.  The peers are not dependencies of this
project; those that are not installed are left out by name: `uv run --with mcp --with agent-client-protocol --with
claude-agent-sdk --with openai-codex python -m benchmarks.peers`
"""

# pyright: basic, reportMissingImports=false
# The peers are not installed where types are checked, so that nothing is known of theirs.

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from benchmarks._measure import side_by_side
from subagent_process import child_env, open_process

ROUNDS = 51
ENV = child_env()
FOLDER = Path(tempfile.gettempdir(), f"peers-{os.getpid()}")


def engine(answer: dict[str, object], word: str = "id") -> list[str]:
    """A shell that answers the first line, and ends with its stdin.  ID is what the line has under this word."""
    find = f"""id=${{line#*\\"{word}\\"*\\"}}; id=${{id%%\\"*}}"""
    say = json.dumps(answer).replace("ID", "'$id'")
    return ["/bin/sh", "-c", f"read line; {find}; echo '{say}'; while read line; do :; done"]


PLAIN = engine({"id": 0, "result": {}})
MCP = engine(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}},
    }
)
ACP = engine({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1}})
CODEX = engine({"id": "ID", "result": {"userAgent": "x/1", "serverInfo": {"name": "x", "version": "1"}}})
CLAUDE = engine(
    {"type": "control_response", "response": {"subtype": "success", "request_id": "ID", "response": {}}}, "request_id"
)


async def popen() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(PLAIN, env=ENV, start_new_session=True, stdin=pipe, stdout=pipe, stderr=pipe) as child:  # noqa: ASYNC220  # the bare form is what is measured
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b'{"id":0}\n')
        child.stdin.flush()
        json.loads(child.stdout.readline())
        child.stdin.close()


async def bare() -> None:
    async with await anyio.open_process(PLAIN, env=ENV, start_new_session=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        await child.stdin.send(b'{"id":0}\n')
        json.loads(await child.stdout.receive())
        await child.stdin.aclose()
        await child.wait()


async def owned() -> None:
    async with await open_process(PLAIN, env=ENV) as child:
        await child.send_line({"id": 0})
        async for _ in child.messages():
            break
    assert child.report is not None
    assert child.report.clean


async def mcp() -> None:
    import mcp as library
    from mcp.client.stdio import stdio_client

    server: Any = library.StdioServerParameters(command=MCP[0], args=MCP[1:], env=ENV)
    async with stdio_client(server) as streams, library.ClientSession(*streams) as session:
        await session.initialize()


async def acp() -> None:
    import acp as library

    client: Any = object()
    async with library.spawn_agent_process(lambda _agent: client, *ACP, env=ENV) as (connection, _process):
        await connection.initialize(protocol_version=1)


async def codex() -> None:
    from openai_codex.async_client import AsyncCodexClient, CodexConfig

    config: Any = CodexConfig(launch_args_override=tuple(CODEX), env=ENV)
    async with AsyncCodexClient(config) as client:
        await client.initialize()


async def claude() -> None:
    import claude_agent_sdk as library

    options: Any = library.ClaudeAgentOptions(cli_path=FOLDER / "claude", env=ENV)
    async with library.ClaudeSDKClient(options):
        pass


PEERS: dict[str, Callable[[], Awaitable[None]]] = {
    "Popen": popen,
    "anyio, bare": bare,
    "subagent_process": owned,
    "mcp stdio_client": mcp,
    "agent-client-protocol": acp,
    "claude-agent-sdk": claude,
    "openai-codex": codex,
}


def main() -> None:
    taken: dict[str, list[float]] = {}

    async def measure() -> None:
        for name, once in PEERS.items():
            try:
                await once()  # warm, and there at all
                taken[name] = []
            except ImportError as exc:
                print(f"left out: {name} ({exc})")
        for _ in range(ROUNDS):
            for name, times in taken.items():
                began = time.perf_counter()
                await PEERS[name]()
                times.append((time.perf_counter() - began) * 1e3)

    # Its client takes a file, and would start it once more, only to ask for its version.
    os.environ["CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK"] = "1"
    FOLDER.mkdir(0o700)
    try:
        (FOLDER / "claude").write_text(f"#!{CLAUDE[0]}\n{CLAUDE[2]}\n")
        (FOLDER / "claude").chmod(0o700)
        anyio.run(measure)
    finally:
        shutil.rmtree(FOLDER)
    rows = {name: iter(times).__next__ for name, times in taken.items()}
    side_by_side("from spawn to the first answer and closed", "ms", rows, rounds=ROUNDS)


if __name__ == "__main__":
    main()
