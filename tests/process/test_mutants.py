"""A test that cannot fail proves nothing: each fault of `mutants` loses exactly the relatives that it must lose.

Without a fault the same rows lose nobody (`test_matrix`).
"""

from __future__ import annotations

import os
import signal

import anyio
import pytest
from program import Program

from subagent_testing import Family
from subagent_testing.family import RELATIVES

EVERYBODY = tuple(RELATIVES)
ESCAPED = ("own-group", "own-session", "daemon", "bare-daemon")

ROWS = [
    ("no subreaper", "close", ESCAPED),
    ("no subreaper", "dead-keeper", EVERYBODY),
    ("no control channel and no pidfd", "sleep", EVERYBODY),
    ("no guard", "dead-keeper-and-warden", EVERYBODY),
    ("warden does not sweep", "dead-keeper", EVERYBODY),
    ("killpg only", "close", ESCAPED),
    ("killpg only", "leader-exits", ESCAPED),
    # The guard spares who is in its own session, for 30 s: the leader, and so the leader's own children.
    ("no new session", "dead-keeper-and-warden", ("leader", "same-group", "deaf", "own-group", "own-session")),
    ("no resumption", "stopped-keeper", EVERYBODY),
    ("close instead of shutdown", "drop-while-held", EVERYBODY),
    ("no tie to the loop", "loop-ends-global", EVERYBODY),
]
# What the harness says when it has done it.
WORDS = {
    "sleep": "asleep",
    "stopped-keeper": "struck",
    "dead-keeper": "struck",
    "dead-keeper-and-warden": "struck",
    "drop-while-held": "dropped",
    "loop-ends-global": "ended",
}


@pytest.mark.long
@pytest.mark.parametrize(("fault", "ending", "lost"), ROWS)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_a_fault_loses_whom_it_must_lose(fault: str, ending: str, lost: tuple[str, ...]) -> None:
    with anyio.fail_after(60):
        async with Family(deaf_leader=True) as family:
            with Program("asyncio", fault) as program:
                program.start(family, ending)
                await family.grow()
                program.go()
                if ending == "leader-exits":
                    await family.exit_leader()
                program.hear(WORDS.get(ending, "report"))
                if ending in ("sleep", "stopped-keeper"):
                    os.kill(program.pid, signal.SIGKILL)
                assert await family.survivors(within=1) == lost
