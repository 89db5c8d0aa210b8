"""A small MCP server on standard input and output: what it was started with is its first answer.

Started as `mcp_server.py PORT`: it holds a connection to that port of loopback until it ends, ignores SIGTERM, and
stays when its input ends. Its tools: `show` (its environment, its arguments, those of its parent) and `say`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path


def shown() -> dict[str, object]:
    """What this process, and the one that started it, can be seen with."""
    parent = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode().split("\0")
    return {"env": dict(os.environ), "argv": sys.argv[2:], "parent": parent, "cwd": str(Path.cwd())}


def answer(request: dict[str, object]) -> dict[str, object]:
    """The result of one request."""
    match request["method"]:
        case "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "kit", "version": "1"},
            }
        case "tools/list":
            tools = ("show", "say")
            return {"tools": [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in tools]}
        case "tools/call":
            return {"content": [{"type": "text", "text": json.dumps(shown())}]}
        case _:
            return {}


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))):
        for line in sys.stdin:
            request = json.loads(line)
            if "id" in request:
                print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer(request)}), flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
