"""A whole run of ours over a bare client's `initialize`..`result`..exit, on the real Claude Code and a model server in
a process of its own that answers at once; the SDK is loaded.  Goals: at most 1.05 of the bare client, not slower than
the SDK's own `query()`.

Both start the same program with the same arguments and environment, in a home that is there already and stays, and own
nothing.  Beside it, and without a goal: how long a cancelled run takes until nothing is left, and what the first run of
a process takes, in which the SDK is imported while the engine starts.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio

import subagents
from benchmarks._measure import side_by_side
from subagent_claude_code import ClaudeCode, ClaudeCodeOptions
from subagent_claude_code._argv import arguments, settings
from subagent_claude_code._binary import locate
from subagent_claude_code._environment import engine_env
from subagent_claude_code._home import Home
from subagent_process import throwaway_home
from subagents import Task, TextEvent

ROUNDS = 16
FRESH = 5
SERVER = """
import sys
from subagent_testing import ScriptedMessages, messages

def turn(body, n):
    return [messages.text("soon"), messages.silence()] if "lasts" in str(body["messages"]) else [messages.text("done")]

with ScriptedMessages(turn) as api:
    print(api.base_url, flush=True)
    sys.stdin.read()
"""
FIRST = """
import sys, time
import anyio, subagents
from subagent_claude_code import ClaudeCode

async def runs():
    for _ in range(2):
        began = time.perf_counter()
        result = await subagents.run(ClaudeCode(base_url=sys.argv[1]), "hi", cwd=sys.argv[2])
        assert result.ok, result
        print((time.perf_counter() - began) * 1e3)

anyio.run(runs)
"""


@contextmanager
def served() -> Generator[str]:
    """The address of the model server."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        yield server.stdout.readline().decode().strip()
        assert server.stdin is not None
        server.stdin.close()


async def bare(base_url: str, cwd: Path) -> float:
    """Milliseconds from the start to the exit, read from its pipe."""
    options = ClaudeCodeOptions(base_url=base_url)
    binary = await locate(options)
    argv = [str(binary.path), *arguments(settings(options, Task("hi"), None, None))]
    async with throwaway_home("claude", "own") as private:
        env = engine_env(options, Home(private.path("claude"), private), None, "0.2.189")
        began = time.perf_counter()
        child = await asyncio.create_subprocess_exec(
            *argv, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            limit=1 << 26,
        )  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None

        def say(**message: object) -> None:
            assert child.stdin is not None
            child.stdin.write(json.dumps(message).encode() + b"\n")

        say(type="control_request", request_id="1", request={"subtype": "initialize", "hooks": None})
        async for line in child.stdout:
            message = json.loads(line)
            match message:
                case {"type": "control_response"}:
                    user = {"role": "user", "content": "hi"}
                    say(type="user", session_id="", message=user, parent_tool_use_id=None, client_composed=True)
                case {"type": "result"}:
                    assert message["result"] == "done", message
                    break
                case _:
                    pass
        child.stdin.close()
        await child.wait()
        return (time.perf_counter() - began) * 1e3


async def theirs(base_url: str, cwd: Path) -> float:
    """`query()`, with what of it can be the same."""
    from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

    options = ClaudeCodeOptions(base_url=base_url)
    given = settings(options, Task("hi"), None, None)
    async with throwaway_home("claude", "own") as private:
        env = engine_env(options, Home(private.path("claude"), private), None, "0.2.189")
        began = time.perf_counter()
        async for message in query(prompt="hi", options=ClaudeAgentOptions(cwd=cwd, env=env, **given)):
            if isinstance(message, ResultMessage):
                assert message.result == "done", message
        return (time.perf_counter() - began) * 1e3


async def ours(base_url: str, cwd: Path) -> float:
    """The same until nothing is left."""
    began = time.perf_counter()
    result = await subagents.run(ClaudeCode(base_url=base_url), "hi", cwd=cwd)
    assert result.ok, result
    return (time.perf_counter() - began) * 1e3


async def cancelled(base_url: str, cwd: Path) -> float:
    """From `cancel()` while the model speaks, until nothing is left."""
    async with ClaudeCode(base_url=base_url).start("lasts", cwd=cwd) as run:
        async for event in run.events():
            if isinstance(event, TextEvent):
                break
        began = time.perf_counter()
        run.cancel()
        result = await run.closed()
        assert result.stop_reason == "aborted", result
        return (time.perf_counter() - began) * 1e3


async def whole_runs(base_url: str, cwd: Path) -> None:
    ways = {
        "bare client": bare,
        "the SDK's query()": theirs,
        "ours": ours,
        "cancel() to nothing left": cancelled,
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        await way(base_url, cwd)
    for at in range(ROUNDS):
        order = list(ways)
        first = at % len(order)  # one that was just there leaves the machine busy for the next
        for name in order[first:] + order[:first]:
            taken[name].append(await ways[name](base_url, cwd))
    print(f"\nclaude: a whole run, real binary, model server that answers at once  [ms, median of {ROUNDS} (min-max)]")
    for name, values in taken.items():
        print(f"  {name:28} {statistics.median(values):10.1f}  ({min(values):.1f}-{max(values):.1f})")
    for other, goal in (("bare client", "1.05"), ("the SDK's query()", "1")):
        ratio = statistics.median(a / b for a, b in zip(taken["ours"], taken[other], strict=True))
        print(f"  ours over {other} in the same round (at most {goal} is asked for): {ratio:.3f}")


def printed(code: str, *arguments: str) -> list[float]:
    """What a new interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.PIPE)
    return [float(word) for word in done.stdout.split()]


def importing(name: str, after: str = "sys") -> float:
    """Milliseconds, in a new interpreter that has imported something before."""
    taken = "print((time.perf_counter() - began) * 1e3)"
    return printed(f"import {after}, time; began = time.perf_counter(); import {name}; {taken}")[0]


def first_runs(base_url: str, cwd: Path) -> None:
    seconds: list[float] = []

    def first() -> float:
        one, two = printed(FIRST, base_url, str(cwd))
        seconds.append(two)
        return one

    found = side_by_side(
        "claude: in a new interpreter",
        "ms",
        {
            "first run": first,
            "import claude_agent_sdk": partial(importing, "claude_agent_sdk", "subagent_claude_code.provider"),
            "import subagent_claude_code": partial(importing, "subagent_claude_code"),
            "with its ClaudeCode": partial(importing, "subagent_claude_code.provider"),
        },
        FRESH,
    )
    second = statistics.median(seconds)
    hidden = found["import claude_agent_sdk"] - (found["first run"] - second)
    print(f"  the second run in the same process: {second:.0f}; of the import of the SDK is hidden: {hidden:.0f}")


def main() -> None:
    with served() as base_url, tempfile.TemporaryDirectory() as cwd:
        anyio.run(whole_runs, base_url, Path(cwd))
        first_runs(base_url, Path(cwd))


if __name__ == "__main__":
    main()
