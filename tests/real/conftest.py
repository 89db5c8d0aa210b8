"""Real products against scripted model servers on loopback: no key, no network."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# pytest's importlib mode puts no folder on the path, and the helpers of this area are of no use to another one.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every start of a real engine takes most of a second: on trio they run with the long tests."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and "trio" in item.name.partition("[")[2]:
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What our code prepares once per machine is prepared once per session, and not in the person's cache."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUBAGENTS_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def codex_binary() -> Path:
    """The real Codex that the extra `cli` pins."""
    cli = pytest.importorskip("codex_cli_bin", reason="the real codex is missing: subagent-codex[cli]")
    return cli.bundled_codex_path()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """An empty folder for a task."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def home(work: Path) -> Path:
    """An engine's home that lasts; nobody has made it yet."""
    return work.parent / "home"
