"""The home of a run on the real Codex is gone after it, also when the program that held it was killed."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from codex_kit import KEY, against, told
from isolation_codex import engines
from isolation_kit import environment, parent

from subagent_testing import Gate, ScriptedResponses, responses

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("codex_binary")]

HOLDER: Final = """
import sys
import anyio
from subagent_codex import Codex

async def main():
    base_url, key, home, cwd = sys.argv[1:]
    async with Codex(base_url=base_url, api_key=key, home=home).start("wait", cwd=cwd) as run:
        await run.closed()

anyio.run(main, backend="asyncio")
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the loop of the test


@contextmanager
def held(home: str, work: Path) -> Generator[tuple[subprocess.Popen[bytes], Path, list[int]]]:
    """A program that holds a run, the folder of that run, and handles of its engine and of who ends that."""
    gate, handles = Gate(), list[int]()
    with ScriptedResponses([[gate, responses.message("too late")]]) as api:
        argv = [sys.executable, "-c", HOLDER, api.base_url, KEY, home, str(work)]
        with subprocess.Popen(argv) as program:
            try:
                gate.wait_until_reached()
                (engine,) = engines(work)
                handles += [os.pidfd_open(pid) for pid in (engine, parent(engine))]
                yield program, Path(environment(engine)["HOME"]).parent, handles
            finally:
                program.kill()
                for handle in handles:
                    os.close(handle)


def ended(handle: int) -> bool:
    """It ends within half a minute."""
    return handle in select.select([handle], [], [], 30)[0]


def test_nothing_of_a_home_is_left_when_its_holder_is_killed(work: Path) -> None:
    with held("isolated", work) as (program, root, handles):
        assert (root / "codex/installation_id").is_file()
        program.kill()
        assert all(ended(handle) for handle in handles)
        assert not root.exists()


@pytest.mark.long
async def test_a_home_that_was_given_stays_and_serves_the_next_run(work: Path, tmp_path: Path) -> None:
    home = tmp_path / "pinned"
    with held(str(home), work) as (program, root, handles):
        program.kill()
        assert all(ended(handle) for handle in handles)
        assert not root.exists()
    assert "installation_id" in os.listdir(home)
    with ScriptedResponses() as api:
        assert (await told(against(api, home=home), "work", work)).result.ok
