"""The mode for systems without child-subreapers, forced on Linux: what its children see of it.

Whom it loses, ending by ending, is in `test_matrix` ("no-adoption", and "macintosh" for what macOS lacks besides): each
gap of today is an assertion there, so that whoever closes one will see it.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from subagent_process import _launcher as launcher  # pyright: ignore[reportPrivateUsage]
from subagent_process import open_process, run_command, throwaway_home

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("plain")]


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Supervisors that adopt nobody, for the time of a test."""
    launcher.LAUNCHER.retire(launcher.LAUNCHER.start()[0])
    monkeypatch.setattr(launcher, "adopting", False)
    yield
    launcher.LAUNCHER.retire(launcher.LAUNCHER.start()[0])


async def test_a_child_gets_the_mark_beside_its_environment() -> None:
    done = await run_command(["/usr/bin/env"], env={"A": "1"}, timeout=20)
    first, mark = done.stdout.decode().split()
    assert first == "A=1"
    assert mark.startswith("SUBAGENT_TREE=")


async def test_a_home_is_removed_with_the_tree_and_nothing_is_called_proved() -> None:
    async with throwaway_home() as home:
        async with await open_process(["/bin/cat"], env={}, home=home) as process:
            pass
        report = process.report
        assert report is not None
        assert (report.home_removed, report.clean, report.missing) == (True, False, ("daemons",))
