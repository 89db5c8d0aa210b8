"""A child is started exactly as asked."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from talk import python, slurp

from subagent_process import _launcher as launcher  # pyright: ignore[reportPrivateUsage]
from subagent_process import (
    open_process,
)

pytestmark = pytest.mark.anyio
PATH = {"PATH": "/usr/bin:/bin"}


async def output(*argv: str | os.PathLike[str], env: dict[str, str] | None = None, **options: object) -> bytes:
    """What a command writes to stdout."""
    async with await open_process(argv, env=PATH if env is None else env, **options) as process:  # pyright: ignore[reportArgumentType]
        return await slurp(process.stdout)


async def test_the_environment_is_exact_and_no_helper_has_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HARNESS", "x")
    env = {"A": "1", "B": "x=y\nz", "EMPTY": "", "\udcff\udcfe": "\udcfd", "é": "ü"}
    got = await output("/usr/bin/env", "-0", env=env)
    assert got == b"A=1\0B=x=y\nz\0EMPTY=\0\xff\xfe=\xfd\0\xc3\xa9=\xc3\xbc\0"
    assert await output("/usr/bin/env", env={}) == b""
    guard = launcher.LAUNCHER.guard.pid
    (warden,) = map(int, Path(f"/proc/{guard}/task/{guard}/children").read_text().split())
    for pid in (guard, warden):
        assert b"SECRET" not in Path(f"/proc/{pid}/environ").read_bytes()


async def test_arguments_are_exact(tmp_path: Path) -> None:
    words = ["a b", "", "\n", "\udcff", "x=y", "é", "--model", "$(id)", "*"]
    got = await output("printf", "[%s]", *words)
    assert got == b"".join(b"[%s]" % os.fsencode(word) for word in words)
    assert await output("ls", tmp_path) == b""


async def test_the_directory_is_the_one_given_or_ours_as_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await output("pwd", cwd=tmp_path)).decode().strip() == str(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert (await output("pwd")).decode().strip() == str(tmp_path)
    (tmp_path / "sub").mkdir()
    assert (await output("pwd", cwd="sub")).decode().strip() == str(tmp_path / "sub")


async def test_a_program_may_be_given_relative_to_the_directory(tmp_path: Path) -> None:
    script = tmp_path / "tool"
    script.write_text("#!/bin/sh\necho it is me\n")
    script.chmod(0o755)
    assert await output("./tool", cwd=tmp_path) == b"it is me\n"
    assert await output("tool", cwd=tmp_path, env={"PATH": "/nope::/usr/bin"}) == b"it is me\n"


async def test_the_umask_is_the_one_given() -> None:
    assert await output("sh", "-c", "umask", umask=0o027) == b"0027\n"


async def test_the_limit_of_descriptors_is_ours_as_it_is_now(few_descriptors: Callable[[int], None]) -> None:
    few_descriptors(200)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert int(await output("sh", "-c", "ulimit -n")) == limit


async def test_the_child_has_three_pipes_and_nothing_else() -> None:
    extra = os.open("/etc/passwd", os.O_RDONLY)
    try:
        os.set_inheritable(extra, True)
        script = """
import os
kinds = {n: os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in sorted(os.listdir("/proc/self/fd")) if n != "3"}
print(*kinds.values())  # 3 is the listing itself
"""
        got = await output(*python(script))
    finally:
        os.close(extra)
    assert got == b"pipe pipe pipe\n"


async def test_the_child_leads_a_session_with_default_signals() -> None:
    old = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        status = (await output("cat", "/proc/self/status")).decode()
        ids = (await output("sh", "-c", "echo $$; cut -d' ' -f5,6 /proc/$$/stat")).split()
    finally:
        signal.signal(signal.SIGPIPE, old)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    masks = {
        line.split(":")[0]: int(line.split()[1], 16)
        for line in status.splitlines()
        if line[:6] in ("SigBlk", "SigIgn", "SigCgt")
    }
    of_glibc = 3 << 31  # signals 32 and 33: no program can change them
    assert masks["SigBlk"] == 0
    assert masks["SigIgn"] & ~of_glibc == 0
    assert len(set(ids)) == 1


@pytest.mark.parametrize("code", [0, 1, 2, 127, 128, 255])
async def test_exit_codes_are_exact(code: int) -> None:
    async with await open_process(["sh", "-c", f"exit {code}"], env=PATH) as process:
        assert await process.wait() == code
        assert process.returncode == code


@pytest.mark.parametrize("number", [1, 2, 6, 9, 11, 13, 15, 34])
async def test_signals_are_negative_exit_codes(number: int) -> None:
    async with await open_process(["sh", "-c", f"kill -{number} $$"], env=PATH) as process:
        assert await process.wait() == -number
