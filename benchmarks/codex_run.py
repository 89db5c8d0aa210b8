"""A whole run of ours over a bare client's `initialize`..`turn/completed`..exit, on the real Codex and a model server
that answers at once.  Goal: at most 1.05, with a fresh and with a warm home.

The bare client starts the same program with the same settings, does nothing else, and owns nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio

import subagents
from subagent_codex import Codex, CodexOptions
from subagent_codex._settings import arguments, process_settings, thread_config
from subagent_process import child_env
from subagent_testing import ScriptedResponses

ROUNDS = 25


async def bare(binary: Path, base_url: str, home: Path, cwd: Path) -> float:
    """Milliseconds from the start to the exit, read from its pipe."""
    options = CodexOptions(base_url=base_url)
    settings = list(arguments(process_settings(options, str(cwd), keyed=False, trust=True)))
    own = {"PATH": str(binary.parent.parent / "codex-path"), "HOME": str(home), "CODEX_HOME": str(home / "codex")}
    # Where certificates lie is said to both: reading them costs the engine 13 ms on some machines.
    env = child_env(minimal=True, set={**own, "TMPDIR": str(home)})
    began = time.perf_counter()
    child = await asyncio.create_subprocess_exec(
        binary, "app-server", "--strict-config", *settings,
        env=env, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, limit=1 << 26,
    )  # fmt: skip
    assert child.stdin is not None
    assert child.stdout is not None

    def say(**message: object) -> None:
        assert child.stdin is not None
        child.stdin.write(json.dumps(message).encode() + b"\n")

    say(id=0, method="initialize", params={"clientInfo": {"name": "bare", "version": "0"}})
    async for line in child.stdout:
        message = json.loads(line)
        match message:
            case {"id": 0, "result": _}:
                say(method="initialized")
                config = thread_config(options, key=None, tools={"PATH": os.defpath}, filesystem={})
                say(id=1, method="thread/start", params={
                    "cwd": str(cwd), "ephemeral": True, "approvalPolicy": "never", "sandbox": "read-only",
                    "model": "gpt-5.5", "modelProvider": "subagents", "config": config,
                })  # fmt: skip
            case {"id": 1, "result": {"thread": {"id": thread}}}:
                say(id=2, method="turn/start", params={"threadId": thread, "input": [{"type": "text", "text": "hi"}]})
            case {"method": "turn/completed"}:
                break
            case _:
                pass
    child.stdin.close()
    await child.wait()
    return (time.perf_counter() - began) * 1e3


async def ours(provider: Codex, cwd: Path) -> float:
    """The same until nothing is left."""
    began = time.perf_counter()
    result = await subagents.run(provider, "hi", cwd=cwd)
    assert result.ok, result
    return (time.perf_counter() - began) * 1e3


def empty_home() -> Path:
    home = Path(tempfile.mkdtemp(prefix="bare-"))
    (home / "codex").mkdir()
    return home


async def measured(rounds: int) -> None:
    import codex_cli_bin  # pyright: ignore[reportMissingTypeStubs]

    binary: Path = codex_cli_bin.bundled_codex_path()
    figures: dict[str, list[float]] = {
        "bare, warm home": [],
        "bare, fresh home": [],
        "ours": [],
        "ours, fresh home": [],
    }
    with ScriptedResponses("done") as api, tempfile.TemporaryDirectory() as work:
        cwd, provider, warm = Path(work), Codex(base_url=api.base_url), empty_home()
        cache, nothing = tempfile.mkdtemp(), Path(work, "no folder")
        nothing.write_text("")
        os.environ["SUBAGENTS_CACHE"] = cache
        while not any(Path(cache).glob("codex/*/state_5.sqlite")):
            await ours(provider, cwd)
        await bare(binary, api.base_url, warm, cwd)
        for _ in range(rounds):
            figures["bare, warm home"].append(await bare(binary, api.base_url, warm, cwd))
            figures["ours"].append(await ours(provider, cwd))
            fresh = empty_home()
            figures["bare, fresh home"].append(await bare(binary, api.base_url, fresh, cwd))
            shutil.rmtree(fresh)
            os.environ["SUBAGENTS_CACHE"] = str(nothing)
            figures["ours, fresh home"].append(await ours(provider, cwd))
            os.environ["SUBAGENTS_CACHE"] = cache
        shutil.rmtree(warm)
        shutil.rmtree(cache)
    for name, values in figures.items():
        print(f"  {name:20} {statistics.median(values):7.1f} ms  ({min(values):.1f}-{max(values):.1f})")
    pairs = (("ours", "bare, warm home"), ("ours, fresh home", "bare, fresh home"), ("ours", "bare, fresh home"))
    for one, other in pairs:
        ratio = statistics.median(a / b for a, b in zip(figures[one], figures[other], strict=True))
        print(f"  {one} / {other}: {ratio:.3f}")


def main() -> None:
    print("codex: a whole run, real binary, a model server that answers at once (goal: 1.05)")
    anyio.run(measured, int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else ROUNDS)


if __name__ == "__main__":
    main()
