"""What is different on macOS, as far as Linux can show it: the answers of its kernel, and the calls that it lacks.

The endings of a run are in `test_matrix`, which goes through them on this false Mac too.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace

import macintosh
import pytest
from program import MACINTOSH

from subagent_process._supervisor import folder, kernel, sysctl

Answers = dict[tuple[int, ...], bytes]
ME = os.getpid()


@pytest.fixture
def kernel_says(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answers], None]:
    """Puts answers, by name, behind a C function `sysctl`; what is not among them is refused."""

    def put(answers: Answers) -> None:
        monkeypatch.setattr(sysctl, "libc", SimpleNamespace(sysctl=macintosh.sysctl_with(answers.get)))

    return put


def test_the_table_says_who_is_there_and_whose_child(kernel_says: Callable[[Answers], None]) -> None:
    table = (
        macintosh.entry(0, 0, b"kernel_task", 0)
        + macintosh.entry(1, 0, b"launchd", 1)
        + macintosh.entry(ME, 1, b"python3.13", 2)
        + macintosh.entry(99_998, ME, b"node", 3)
        + macintosh.entry(99_999, 1, b"node", 4)
    )
    kernel_says({(1, 14, 0): table})
    assert sysctl.pids() == [0, 1, ME, 99_998, 99_999]
    assert sysctl.children() == [99_998]


@pytest.mark.parametrize(
    "table", [None, b"", b"\0" * 648, macintosh.entry(1, 0, b"launchd", 1), macintosh.entry(ME, 1, b"python", 2)[:-1]]
)
def test_a_table_without_ourselves_is_unknown_and_not_empty(
    table: bytes | None, kernel_says: Callable[[Answers], None]
) -> None:
    kernel_says({} if table is None else {(1, 14, 0): table})
    assert (sysctl.pids(), sysctl.children()) == ([], None)


def test_one_process_has_a_name_and_a_start(kernel_says: Callable[[Answers], None]) -> None:
    known = macintosh.entry(77, 1, b"a long name of one", 1_700_000_000_123_456)
    kernel_says({(1, 14, 1, 77): known, (1, 14, 1, 78): b"", (1, 14, 1, 79): known})
    assert sysctl.name_of(77) == b"a long name of o"
    assert sysctl.started(77) == 1_700_000_000_123_456
    for stranger in (78, 79, 80):  # gone, answered with somebody else, refused
        assert (sysctl.name_of(stranger), sysctl.started(stranger)) == (b"", None)


@pytest.mark.parametrize(
    ("block", "environment"),
    [
        # argc, the path and its padding, three arguments (one looks like a variable, one is empty), the environment,
        # and what Apple puts behind it.
        (
            b"\3\0\0\0/usr/local/bin/node\0\0\0\0\0node\0A=argument\0\0A=1\0B=\0C=x=y\0\0ptr_munge=\0stack=1\0",
            [b"A=1", b"B=", b"C=x=y"],
        ),
        (b"\1\0\0\0/x\0x\0A=1\0", [b"A=1"]),
        (b"\1\0\0\0/bin/sleep\0\0\0sleep\0", []),  # withheld
        (b"\1\0\0\0/bin/sleep\0\0\0sleep", []),
        (b"\0\0\0\0", []),
        (b"\0", []),
        (b"", []),
        (None, []),
    ],
)
def test_an_environment_is_what_stands_between_the_arguments_and_apples_own_strings(
    block: bytes | None, environment: list[bytes], kernel_says: Callable[[Answers], None]
) -> None:
    kernel_says({} if block is None else {(1, 49, 77): block})
    assert sysctl.environment(77) == environment
    if block and environment:
        path, argv = (
            (b"/x", [b"x"]) if len(environment) == 1 else (b"/usr/local/bin/node", [b"node", b"A=argument", b""])
        )
        kernel_says({(1, 49, 77): macintosh.arguments(path, argv, environment)})
        assert sysctl.environment(77) == environment


def test_a_refusal_of_the_size_is_an_empty_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        return -1

    monkeypatch.setattr(sysctl, "libc", SimpleNamespace(sysctl=refuse))
    assert (sysctl.pids(), sysctl.environment(ME)) == ([], [])


def test_as_many_descriptors_as_can_be_are_what_macos_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    asked: list[int] = []

    def refuse_the_first(_which: int, limits: tuple[int, int]) -> None:
        asked.append(limits[0])
        if len(asked) == 1:
            raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse_the_first)
    kernel.raise_file_limit()
    assert asked == [before[1], 10_240]


def test_a_call_that_is_not_there_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "_libc", SimpleNamespace())
    with pytest.raises(OSError, match="not implemented"):
        kernel.unshare(0)
    monkeypatch.delattr(os, "pidfd_open")
    assert kernel.pidfd_of(ME) is None


SCRIPT = """
import errno, os, sys, anyio, mutants
mutants.apply("macintosh")
from subagent_process import Ladder, SpawnError, open_process, run_command, throwaway_home
PYTHON = [sys.executable, "-I", "-S", "-c"]

async def main():
    async with throwaway_home("x") as home:
        make = "import os; os.makedirs('a/b'); os.chmod('a', 0); os.symlink('/', 'c'); print(os.listdir('/dev/fd'))"
        async with await open_process([*PYTHON, make + "; input()"], env={}, cwd=home.path("x"), home=home) as process:
            print((await process.stdout.receive()).count(b"'"))
        print(process.report.home_removed, home.root.exists(), process.report.missing)
    try:
        await open_process(["true"], env={}, containment="pid-namespace")
    except SpawnError as error:
        print(error.errno == errno.ENOSYS)
    # The gap that only macOS has: a program whose environment is withheld, in its own session, under another parent.
    spawn = "import os; os.posix_spawn('/bin/sleep', ['sleep', '60'], os.environ, setsid=True)"
    leader = f"import os; pid = os.posix_spawn(os.sys.executable, ['python', '-I', '-S', '-c', {spawn!r}], os.environ)"
    leader += "; os.waitpid(pid, 0)"
    done = await run_command([*PYTHON, leader], env={"ESCAPES": "1"}, timeout=20)
    print(done.exit)

anyio.run(main)
"""


@pytest.fixture
def strays() -> Generator[Callable[[], list[int]]]:
    """Who has ESCAPES in its environment; ended at the end."""

    def find() -> list[int]:
        found: list[int] = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    found += [int(pid)] if b"ESCAPES=1\0" in file.read() else []
            except OSError:
                continue
        return found

    yield find
    for pid in find():
        os.kill(pid, 9)


def test_a_false_mac_keeps_what_is_promised_there_and_no_more(strays: Callable[[], list[int]], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, MACINTOSH, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    # Descriptors 0 to 2 and the one of the listing; the home with its closed folder is gone; no namespace; no failure.
    assert done.stdout.splitlines() == ["8", "True False ('daemons', 'forked-harness')", "True", "0"]
    assert len(strays()) == 1


def test_a_mode_is_repaired_by_name_without_following_a_link(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path_factory.mktemp("mac")
    outside, home = base / "outside", base / "home"
    for path in (outside, home, home / "closed" / "deep"):
        path.mkdir(parents=True)
    outside.chmod(0o500)
    (home / "link").symlink_to(outside)
    (home / "closed").chmod(0)
    home.chmod(0o100)
    found = home.lstat()
    monkeypatch.setattr(folder, "_BY_NAME", True)
    assert not folder.remove(str(home), found.st_dev, found.st_ino + 1, patience=0)
    assert folder.remove(str(home), found.st_dev, found.st_ino, patience=0)
    assert not home.exists()
    assert outside.stat().st_mode & 0o777 == 0o500
