"""The embedded engine: `_engine/server.py` as an owned child, one per run, reached over loopback with a key of its own.

One child per run is what makes the rest simple. Cancelling is ending the child: it leaves when its standard input
ends, also in the middle of a prompt (observed: 0.02 s), and the ladder of `open_process` kills it after a second if
it does not. A crash of the engine hurts one run, and its memory really comes back. Loading costs 0.5 s for the small
model and 1.8 s for the default one from a warm disk cache.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import anyio
import httpx

from subagent_local._engine.cpus import default_threads
from subagent_process import Ladder, OwnedProcess, ShutdownReport, StderrTail, child_env, open_process, throwaway_home
from subagents import Failure, Link, StartError

PACKAGE = "xllamacpp"
INSTALL = "pip install 'subagent-local[embedded]'"
OR_A_SERVER = "set url=auto where a model server runs (Ollama, llama.cpp, LM Studio, vLLM)"

_LADDER = Ladder(eof=1.0, term=1.0)
# Threads of the engine that wait for each other sleep, and do not spin. Alone they are up to a third slower; beside
# other work, and two runs at once are that, five to ten times as fast (on two cores 41 against 8, and 13 against 1
# tokens a second).
_WAITING = {"OMP_WAIT_POLICY": "passive"}
_NEWS = 0.5  # seconds in which a child that broke its connection is seen to have ended, and its last words arrive
_SCRIPT = Path(__file__).with_name("server.py")


class Child:
    """The process, and what is known of how it fares."""

    def __init__(self, process: OwnedProcess) -> None:
        """Take it over; `drain` has to run."""
        self.process = process
        self._tail = StderrTail(process.stderr)
        self._drained = anyio.Event()

    async def drain(self) -> None:
        """Read its standard error to the end."""
        await self._tail.run()
        self._drained.set()

    async def exit_code(self) -> int | None:
        """How it ended, when it did; None while it lives."""
        with anyio.move_on_after(_NEWS):
            return await self.process.wait()
        return None

    async def last_words(self) -> str:
        """The end of its standard error, as the end of a sentence; empty when it said nothing."""
        with anyio.move_on_after(_NEWS):
            await self._drained.wait()
        text = self._tail.text.strip()
        return f"; its last words:\n{text[-2000:]}" if text else ""

    async def ready(self, config: Mapping[str, object], timeout: float) -> str:
        """Hand it its configuration; the address under which it answers.

        Raises:
            StartError: it ends, or says that it cannot, or is not ready in time.
        """
        try:
            with anyio.fail_after(timeout):
                await self.process.send_line(config)
                async for message in self.process.messages():
                    url = message.get("url")
                    if isinstance(url, str) and url.startswith("http://127.0.0.1:"):
                        return url
                    reason = f"the engine could not load {config['model']}: {message.get('error')}"
                    raise launch_failure(reason + await self.last_words())
                code = await self.process.wait()
        except TimeoutError:
            reason = f"the engine was not ready within {timeout:g} s"
            raise launch_failure(reason + await self.last_words()) from None
        reason = f"the engine ended with exit code {code} before it was ready"
        raise launch_failure(reason + await self.last_words(), exit_code=code)


@dataclass(frozen=True, slots=True)
class Engine:
    """A child that answers, and a client with its address and key."""

    child: Child
    client: httpx.AsyncClient


def engine_version() -> str | None:
    """The version of the engine, found without importing it; None when it is not installed."""
    if find_spec(PACKAGE) is None:
        return None
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return "unknown"


def launch_failure(message: str, *, exit_code: int | None = None) -> StartError:
    """The engine cannot be started."""
    return StartError(Failure("launch", "start", message, exit_code=exit_code))


@asynccontextmanager
async def start_engine(
    model: Path, link: Link, *, context: int, threads: int | None, ready_timeout: float
) -> AsyncGenerator[Engine]:
    """A child with the model loaded; it and all that it started are gone when the context is left, however it is left.

    Raises:
        StartError: of kind `launch`: the engine is not installed, ends, cannot load the model, or is not ready in time.
        subagent_process.SpawnError: the interpreter cannot be started.
    """
    key = secrets.token_urlsafe(32)
    config = {
        "packages": _packages(),
        "model": os.fspath(model),
        "key": key,
        "context": context,
        "threads": threads or default_threads(),
    }
    # -I and -S: neither PYTHON* variables, nor the user's site, nor a .pth file decide what the child imports.
    argv = [sys.executable, "-I", "-S", os.fspath(_SCRIPT)]
    async with throwaway_home() as home:
        env = child_env(minimal=True, home=home, set=_WAITING)
        process = await open_process(argv, env=env, cwd=home.root, ladder=_LADDER, home=home)
        try:
            async with process, anyio.create_task_group() as tasks:
                child = Child(process)
                tasks.start_soon(child.drain)
                url = await child.ready(config, ready_timeout)
                # Loopback: no proxy, no certificates (loading them takes 20 ms), no time limit beside the caller's.
                headers = {"Authorization": f"Bearer {key}"}
                client = httpx.AsyncClient(base_url=url, headers=headers, timeout=None, trust_env=False, verify=False)
                async with client:
                    yield Engine(child, client)
                tasks.cancel_scope.cancel()
        finally:
            link.report(process.report or ShutdownReport())


def _packages() -> str:
    """From where the child imports the engine: where this process would, so that every way of installing works."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise launch_failure(f"the engine ({PACKAGE}) is not installed: {INSTALL}, or {OR_A_SERVER}")
    return os.fspath(Path(spec.origin).parent.parent)
