"""What cannot be started says why, and leaves nothing."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from subagent_process import (
    Ladder,
    ProcessError,
    SpawnError,
    UnsupportedPlatform,
    open_process,
    run_command,
)
from subagent_process import _launcher as launcher  # pyright: ignore[reportPrivateUsage]

pytestmark = pytest.mark.anyio
PATH = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Files that are no programs, each in its own way."""
    (tmp_path / "plain").write_text("text")
    (tmp_path / "nothing").write_bytes(b"\0\1\2\3")
    (tmp_path / "nothing").chmod(0o755)
    (tmp_path / "orphan").write_text("#!/no/such/interpreter\n")
    (tmp_path / "orphan").chmod(0o755)
    (tmp_path / "folder").mkdir()
    return tmp_path


FAILURES: list[tuple[list[str], str, int, str]] = [
    (
        ["no-such-program", "--key", "hush"],
        "/usr/bin:/bin",
        errno.ENOENT,
        "no such program in the child's PATH (/usr/bin:/bin)",
    ),
    (["no-such-program"], "", errno.ENOENT, "which is empty"),
    (["/no/such/program"], "/bin", errno.ENOENT, "no such file"),
    (["./no-such-program"], "/bin", errno.ENOENT, "no such file (seen from"),
    (["{}/plain"], "/bin", errno.EACCES, "is not an executable file"),
    (["plain"], "{}", errno.EACCES, "PATH searched: {}"),
    (["{}/folder"], "/bin", errno.EACCES, "is not an executable file"),
    (["{}/nothing"], "/bin", errno.ENOEXEC, "no program for this system"),
    (["{}/orphan"], "/bin", errno.ENOENT, "what its first line (#!) names"),
    (["orphan"], "/bin:{}", errno.ENOENT, "the file {}/orphan exists"),
    (["{}/plain/x"], "/bin", errno.ENOTDIR, "Not a directory"),
    (["true", "x" * 200_000], "/bin", errno.E2BIG, "pass it over stdin"),
]


@pytest.mark.parametrize(("argv", "path", "code", "words"), FAILURES, ids=lambda part: str(part)[:30])
async def test_a_program_that_cannot_start_says_why(
    argv: list[str], path: str, code: int, words: str, programs: Path, descriptors: Callable[[], int]
) -> None:
    await run_command(["true"], env=PATH, timeout=20)
    before = descriptors()
    with pytest.raises(SpawnError) as caught:
        await open_process([word.format(programs) for word in argv], env={"PATH": path.format(programs)})
    error = caught.value
    assert error.errno == code
    assert words.format(programs) in str(error)
    assert error.program == argv[0].format(programs)
    assert error.path_searched == (None if "/" in argv[0] else path.format(programs))
    assert "hush" not in str(error)
    assert "hush" not in repr(error)
    assert descriptors() == before


@pytest.mark.parametrize("kind", ["missing", "file"])
async def test_a_directory_that_cannot_be_entered_is_named(kind: str, tmp_path: Path) -> None:
    cwd = tmp_path / "x"
    if kind == "file":
        cwd.touch()
    with pytest.raises(SpawnError, match=str(cwd)) as caught:
        await open_process(["true"], env=PATH, cwd=cwd)
    assert caught.value.cwd == str(cwd)
    assert caught.value.errno in (errno.ENOENT, errno.ENOTDIR)


async def test_our_own_directory_may_have_been_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(SpawnError, match="No such file or directory"):
        await open_process(["true"], env=PATH)


@pytest.mark.parametrize(
    ("argv", "options", "words"),
    [
        ([], {}, "argv is empty"),
        ([""], {}, "argv is empty"),
        ("true", {}, "argv is one string"),
        (["true", "a\0b"], {}, "argv of 'true' holds a NUL"),
        (["tr\0ue"], {}, "holds a NUL"),
        (["true"], {"env": {"A": "hush\0b"}}, "variable A holds a NUL"),
        (["true"], {"env": {"A\0": "b"}}, "cannot be the name"),
        (["true"], {"env": {"A=B": "b"}}, "cannot be the name"),
        (["true"], {"env": {"": "b"}}, "cannot be the name"),
        (["true"], {"cwd": "/tmp\0"}, "cwd holds a NUL"),
        (["true"], {"umask": 0o1000}, "umask is"),
        (["true"], {"umask": -2}, "umask is"),
    ],
)
async def test_a_callers_mistake_is_a_value_error_before_anything_starts(
    argv: list[str], options: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        await open_process(argv, **({"env": PATH} | options))  # pyright: ignore[reportArgumentType]
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_a_grace_is_a_finite_number_of_seconds(value: float) -> None:
    with pytest.raises(ValueError, match=r"Ladder\.term is"):
        Ladder(term=value)


async def test_another_system_is_refused_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(UnsupportedPlatform, match="this is win32"):
        await open_process(["true"], env=PATH)
    assert issubclass(UnsupportedPlatform, ProcessError)


@pytest.mark.parametrize("cold", [False, True])
async def test_running_out_of_descriptors_names_the_limit_and_leaks_nothing(
    cold: bool, few_descriptors: Callable[[int], None], descriptors: Callable[[], int]
) -> None:
    await run_command(["true"], env=PATH, timeout=20)
    if cold:
        sock, _ = launcher.LAUNCHER.start()
        launcher.LAUNCHER.retire(sock)
    before = descriptors() + cold
    limits: list[SpawnError] = []
    for number in range(12):
        few_descriptors(number)
        try:
            process = await open_process(["true"], env=PATH)
        except SpawnError as error:
            limits.append(error)
        else:
            few_descriptors(50)
            await process.aclose()
            break
        few_descriptors(50)
        assert descriptors() <= before
    assert len(limits) >= 7
    assert all("RLIMIT_NOFILE" in str(error) and error.errno == errno.EMFILE for error in limits)
    assert descriptors() == before


async def test_a_harness_with_few_descriptors_does_not_starve_its_supervisors(
    few_descriptors: Callable[[int], None],
) -> None:
    sock, _ = launcher.LAUNCHER.start()
    launcher.LAUNCHER.retire(sock)
    few_descriptors(12)
    await run_command(["true"], env=PATH, timeout=20)
    few_descriptors(300)
    async with AsyncExitStack() as stack:
        for _ in range(40):
            await stack.enter_async_context(await open_process(["cat"], env=PATH))
