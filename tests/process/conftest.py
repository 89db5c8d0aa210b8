"""What the tests of the process floor share: families that prove who lives, faults to order, a descriptor count."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# pytest's importlib mode puts no folder on the path, and the helpers of this area are of no use to another one.
sys.path.insert(0, str(Path(__file__).parent))

from measured import measure_supervisors
from mutants import booted

from subagent_process import _launcher as launcher  # pyright: ignore[reportPrivateUsage]
from subagent_process._supervisor import folder
from subagent_testing import Family


@pytest.fixture(scope="session", autouse=True)
def measured_supervisors() -> None:
    """Measure the supervisors too, where the tests are measured."""
    measure_supervisors()


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Starts the supervisors with a fault, given as source text, for the time of a test."""

    def retire() -> None:
        launcher.LAUNCHER.retire(launcher.LAUNCHER.start()[0])

    def put(text: str) -> None:
        retire()
        monkeypatch.setattr(launcher, "_BOOT", booted(launcher._BOOT, text))  # pyright: ignore[reportPrivateUsage]

    yield put
    retire()


@pytest.fixture
def family() -> Iterator[Family]:
    """A tree whose leader obeys."""
    family = Family()
    yield family
    family.close()


@pytest.fixture
def deaf_family() -> Iterator[Family]:
    """A tree whose leader ignores SIGTERM and the end of its stdin."""
    family = Family(deaf_leader=True)
    yield family
    family.close()


@pytest.fixture
def descriptors() -> Callable[[], int]:
    """Counts the descriptors of this process."""
    return lambda: len(os.listdir("/proc/self/fd"))


@pytest.fixture
def few_descriptors() -> Iterator[Callable[[int], None]]:
    """Leaves this process so many descriptors, and gives them back."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def leave(number: int) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        free = [os.open("/dev/null", os.O_RDONLY) for _ in range(number + 1)]
        for fd in free:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free[-1], hard))

    yield leave
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A short private base: the paths of pytest's own folders are too long for sockets."""
    path = Path(f"/tmp/sp-{os.getpid():x}-{os.urandom(2).hex()}")
    path.mkdir(mode=0o700)
    yield path
    found = path.lstat()
    assert folder.remove(str(path), found.st_dev, found.st_ino, patience=5)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder outside, of which nothing may change."""
    path = tmp_path / "victim"
    path.mkdir()
    (path / "keep.txt").write_text("precious")
    (path / "keep.txt").chmod(0o640)
    path.chmod(0o750)
    return path
