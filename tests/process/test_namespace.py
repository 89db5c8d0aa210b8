"""A PID namespace around the tree, where the kernel allows one; a clear refusal where it does not.

The endings of a run in one are in `test_matrix`.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable

import anyio
import pytest
from endings import LADDER, helpers

from subagent_process import Ladder, OwnedProcess, SpawnError, open_process
from subagent_testing import Family

pytestmark = pytest.mark.anyio
PATH = {"PATH": "/usr/bin:/bin"}


async def contained(*argv: str, ladder: Ladder = LADDER) -> OwnedProcess:
    try:
        return await open_process(argv, env=PATH, ladder=ladder, containment="pid-namespace")
    except SpawnError as error:
        if "in a PID namespace" in str(error):
            pytest.skip(str(error))
        raise


async def test_the_tree_is_alone_in_its_namespace() -> None:
    script = "import os; print([os.getpid(), os.getppid(), sorted(map(int, filter(str.isdigit, os.listdir('/proc'))))])"
    async with await contained(sys.executable, "-I", "-S", "-c", script) as process:
        with anyio.fail_after(20):
            assert await process.stdout.receive() == b"[2, 1, [1, 2]]\n"
            assert await process.wait() == 0
    assert process.report is not None
    assert (process.report.clean, process.report.missing) == (True, ())


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -11 $$", -11), ("kill -9 -1; exit 3", 3)]
)
async def test_exits_are_exact(script: str, code: int) -> None:
    async with await contained("sh", "-c", script) as process:
        with anyio.fail_after(20):
            assert await process.wait() == code


async def test_the_kernel_ends_it_when_its_first_process_is_killed() -> None:
    with anyio.fail_after(60):
        async with Family("hopper", deaf_leader=True) as family, await contained(*family.argv) as process:
            await family.grow()
            os.kill(process.pid, signal.SIGKILL)
            assert await family.survivors() == ()
            assert await process.wait() == -signal.SIGKILL


async def test_all_three_supervisors_may_die_in_one_instant() -> None:
    with anyio.fail_after(60):
        async with Family("hopper", deaf_leader=True) as family, await contained(*family.argv) as process:
            await family.grow()
            for pid in helpers(process).values():
                os.kill(pid, signal.SIGKILL)
            assert await family.survivors() == ()
    assert process.report is not None
    assert (process.report.lost, process.report.clean) == (True, False)  # dead, and nobody left to prove it


async def test_a_program_that_is_not_there_is_said_as_ever() -> None:
    await (await contained("true")).aclose()
    with pytest.raises(SpawnError, match="no such program") as caught:
        await contained("no-such-program")
    assert caught.value.errno == errno.ENOENT


@pytest.mark.parametrize(("call", "code"), [("unshare", errno.EPERM), ("mount", errno.EACCES)])
async def test_a_system_that_allows_none_is_refused_and_nothing_weaker_is_used(
    call: str, code: int, fault: Callable[[str], None], descriptors: Callable[[], int]
) -> None:
    fault(
        f"""
from _supervisor import namespace
def refuse(*_):
    raise OSError({code}, "")
namespace.{call}
namespace.{call} = refuse
"""
    )
    await (await open_process(["true"], env=PATH)).aclose()
    before = descriptors()
    with pytest.raises(SpawnError, match=f"PID namespace of its own: {os.strerror(code)}") as caught:
        await open_process(["true"], env=PATH, containment="pid-namespace")
    assert caught.value.errno == code
    assert descriptors() == before


async def test_without_privileges_a_user_namespace_is_made_too(fault: Callable[[str], None]) -> None:
    fault(
        """
from _supervisor import namespace
real = namespace.unshare
def unprivileged(flags):
    if flags == namespace._PIDS:
        raise PermissionError
    real(flags)
namespace.unshare = unprivileged
"""
    )
    async with await contained("sh", "-c", "id -u; id -g; echo $$; exit 3") as process:
        with anyio.fail_after(20):
            assert await process.wait() == 3
            assert (await process.stdout.receive()).split() == [b"%d" % os.geteuid(), b"%d" % os.getegid(), b"2"]


async def test_a_first_process_that_is_killed_at_the_start_is_said(fault: Callable[[str], None]) -> None:
    fault(
        """
import os
from _supervisor import namespace
namespace._first
namespace._first = lambda *_: os._exit(1)
"""
    )
    with pytest.raises(SpawnError, match="its first process was killed"):
        await open_process(["true"], env=PATH, containment="pid-namespace")


async def test_another_word_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="subreaper, pid-namespace"):
        await open_process(["true"], env=PATH, containment="cgroup")  # pyright: ignore[reportArgumentType]
