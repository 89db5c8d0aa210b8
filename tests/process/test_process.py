"""One child: started exactly as asked, spoken to, waited for."""
# ruff: noqa: ASYNC240 - small local files

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

from subagent_process import (
    Ladder,
    ProcessError,
    ShutdownReport,
    SpawnError,
    StderrTail,
    UnsupportedPlatform,
    child_env,
    open_process,
    redact,
    run_command,
    throwaway_home,
)
from subagent_process import _launcher as launcher  # pyright: ignore[reportPrivateUsage]

pytestmark = pytest.mark.anyio
PATH = {"PATH": "/usr/bin:/bin"}
QUICK = Ladder(eof=0.1, term=0.1, kill=5)


def python(script: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", script]


async def slurp(stream: anyio.abc.ByteReceiveStream) -> bytes:
    parts: list[bytes] = []
    try:
        while True:
            parts.append(await stream.receive())
    except anyio.EndOfStream:
        return b"".join(parts)


def threads() -> int:
    """The kernel's count: a C library could start some that Python does not know."""
    return len(os.listdir("/proc/self/task"))


async def output(*argv: str | os.PathLike[str], env: dict[str, str] | None = None, **options: object) -> bytes:
    """What a command writes to stdout."""
    async with await open_process(argv, env=PATH if env is None else env, **options) as process:  # pyright: ignore[reportArgumentType]
        return await slurp(process.stdout)


# --- exactly as asked ----------------------------------------------------------------------------------------------


async def test_the_environment_is_exact_and_no_helper_has_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HARNESS", "x")
    env = {"A": "1", "B": "x=y\nz", "EMPTY": "", "\udcff\udcfe": "\udcfd", "é": "ü"}
    got = await output("/usr/bin/env", "-0", env=env)
    assert got == b"A=1\0B=x=y\nz\0EMPTY=\0\xff\xfe=\xfd\0\xc3\xa9=\xc3\xbc\0"
    assert await output("/usr/bin/env", env={}) == b""
    guard = launcher.LAUNCHER.guard
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


# --- what cannot be started ----------------------------------------------------------------------------------------


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


# --- talking -------------------------------------------------------------------------------------------------------

ECHO = """
import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(line); sys.stdout.buffer.flush()
"""


async def test_a_message_goes_there_and_back() -> None:
    async with await open_process(python(ECHO), env={}) as process:
        messages = process.messages()
        for message in ({"id": 1, "t": "é\u2028\n"}, {}, {"big": "x" * 1_000_000}):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(process.send_line, message)
                assert await anext(messages) == message
        await process.send_line(b'{"raw":1}')
        assert await anext(messages) == {"raw": 1}
        await process.stdin.aclose()
        assert [message async for message in messages] == []
        assert await process.wait() == 0
        with pytest.raises(anyio.ClosedResourceError):
            await process.send_line({})


async def test_lines_are_ascii_and_one_line() -> None:
    async with await open_process(["head", "-n1"], env=PATH) as process:
        await process.send_line({"t": "é\u2028\u0085\n\ud800"})
        assert await slurp(process.stdout) == b'{"t":"\\u00e9\\u2028\\u0085\\n\\ud800"}\n'


async def test_lines_of_many_tasks_never_mix() -> None:
    async with await open_process(python(ECHO), env={}) as process:
        got: list[dict[str, object]] = []
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(process.send_line, {"n": number, "x": chr(97 + number) * 50_000})
            messages = process.messages()
            got += [await anext(messages) for _ in range(20)]
        assert {message["n"] for message in got} == set(range(20))
        assert all(message["x"] == chr(97 + int(str(message["n"]))) * 50_000 for message in got)


async def test_the_rest_of_a_cancelled_line_goes_out_in_front_of_the_next() -> None:
    script = (
        "import os, signal, sys; signal.sigwait({signal.SIGUSR1}); sys.stdout.buffer.write(sys.stdin.buffer.read())"
    )
    block = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1}); print('{}', flush=True); "
    async with await open_process(python(block + script), env={}) as process:
        messages = process.messages()
        assert await anext(messages) == {}
        with anyio.move_on_after(0.2) as scope:
            await process.send_line({"first": "x" * 500_000})  # more than a pipe holds, and nobody reads
        assert scope.cancelled_caught
        with anyio.move_on_after(0.05) as scope:
            await process.send_line({"never": "sent"})  # not a byte of it
        assert scope.cancelled_caught
        os.kill(process.pid, signal.SIGUSR1)
        await process.send_line({"second": 2})
        await process.stdin.aclose()
        assert [message async for message in messages] == [{"first": "x" * 500_000}, {"second": 2}]


async def test_a_line_that_cannot_be_one_is_refused() -> None:
    async with await open_process(["cat"], env=PATH) as process:
        with pytest.raises(ValueError, match="holds a line end"):
            await process.send_line(b"a\nb")
        with pytest.raises(ValueError, match="JSON compliant"):
            await process.send_line({"x": float("nan")})
        with pytest.raises(TypeError):
            await process.send_line({"x": object()})
        await process.send_line({"ok": 1})
        assert await anext(process.messages()) == {"ok": 1}


async def test_writing_to_a_child_that_does_not_listen_is_a_broken_resource() -> None:
    async with await open_process(["sh", "-c", "exec <&-; echo; sleep 60"], env=PATH, ladder=QUICK) as process:
        await process.stdout.receive()
        with pytest.raises(anyio.BrokenResourceError):
            await process.send_line({"x": 1})
        with pytest.raises(anyio.BrokenResourceError):
            await process.stdin.send(b"x")


async def test_large_amounts_go_through_all_three_pipes_at_once() -> None:
    data = os.urandom(3_000_000)
    async with await open_process(["sh", "-c", "tee /dev/stderr; exit 7"], env=PATH) as process:
        got: dict[str, bytes] = {}

        async def read(name: str, stream: anyio.abc.ByteReceiveStream) -> None:
            got[name] = await slurp(stream)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, "out", process.stdout)
            tasks.start_soon(read, "err", process.stderr)
            await process.stdin.send(data)
            await process.stdin.aclose()
        assert got == {"out": data, "err": data}
        assert await process.wait() == 7


@pytest.mark.parametrize("code", [0, 3])
async def test_a_flood_on_stderr_stalls_nobody_and_its_end_is_kept(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKECORP_API_KEY", "zebra-crossing-77")
    script = f"""
import os, sys
os.write(2, b"x" * 200_000)
for n in range(4_800): sys.stderr.write("y" * 999 + "\\n")
sys.stderr.write("the end, with zebra-crossing-77 and 한글"); sys.stderr.flush()
if {code} == 0: print('{{"answer":1}}')
sys.exit({code})
"""
    process = await open_process(python(script), env={})
    tail = StderrTail(process.stderr)
    async with process, anyio.create_task_group() as tasks:
        tasks.start_soon(tail.run)
        assert [message async for message in process.messages()] == ([{"answer": 1}] if code == 0 else [])
        assert await process.wait() == code
    assert tail.total > 5_000_000 - 10_000
    assert tail.text.endswith("the end, with [redacted] and 한글")
    assert len(tail.text.encode()) <= 8192


async def test_a_tail_survives_characters_split_at_its_edge_and_between_chunks() -> None:
    script = "import sys; sys.stderr.buffer.write('한글🧪'.encode() * 20_000)"
    async with await open_process(python(script), env={}) as process:
        tail = StderrTail(process.stderr, limit=1000)
        await tail.run()
        assert "\ufffd" not in tail.text
        assert set(tail.text) == set("한글🧪")
        assert 990 < len(tail.text.encode()) <= 1000


async def test_what_is_written_byte_by_byte_arrives_whole() -> None:
    script = """
import os, time
for fd in (1, 2):
    for byte in '{"t":"한글 ≤ 🧪"}\\n'.encode():
        os.write(fd, bytes([byte])); time.sleep(0.0005)
"""
    async with await open_process(python(script), env={}) as process:
        assert [message async for message in process.messages()] == [{"t": "한글 ≤ 🧪"}]
        tail = StderrTail(process.stderr)
        await tail.run()
        assert tail.text == '{"t":"한글 ≤ 🧪"}\n'


# --- waiting and ending --------------------------------------------------------------------------------------------


async def test_waiting_does_not_wait_for_a_grandchild_that_holds_the_pipes() -> None:
    async with await open_process(["sh", "-c", "sleep 300 & exit 4"], env=PATH) as process:
        with anyio.fail_after(5):
            assert await process.wait() == 4
            assert await slurp(process.stdout) == b""  # and the sweep closes the grandchild's end
    assert process.report is not None
    assert process.report.killed == 1


async def test_a_pipe_that_the_child_closes_ends_while_it_lives() -> None:
    async with await open_process(["sh", "-c", "exec >&- 2>&-; read x"], env=PATH) as process:
        with anyio.fail_after(10):
            assert await slurp(process.stdout) == await slurp(process.stderr) == b""
        assert process.returncode is None


async def test_a_pipe_that_was_given_up_during_the_shutdown_is_closed_for_its_reader() -> None:
    process = await open_process(["sh", "-c", "trap '' TERM; sleep 60"], env=PATH, ladder=Ladder(0.3, 0.3, 5))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process.aclose)
        await anyio.sleep(0.2)
        with pytest.raises(anyio.ClosedResourceError):
            await process.stdout.receive()
    assert process.report is not None


async def test_orphans_that_end_during_the_run_are_reaped() -> None:
    script = "for i in 1 2 3 4 5; do (setsid sh -c 'echo x >&2' &); done; echo {}; read x"
    async with await open_process(["sh", "-c", script], env=PATH) as process:
        assert await anext(process.messages()) == {}
        for _ in range(5):
            await process.stderr.receive(2)
        keeper = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1])
        with anyio.fail_after(10):
            while Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split() != [str(process.pid)]:  # noqa: ASYNC110
                await anyio.sleep(0.005)


async def test_an_ignored_sigchld_changes_nothing() -> None:
    launcher.LAUNCHER.retire(launcher.LAUNCHER.start()[0])
    old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        async with await open_process(["sh", "-c", "sleep 60 & exit 3"], env=PATH) as process:
            assert await process.wait() == 3
        launcher.LAUNCHER.retire(launcher.LAUNCHER.start()[0])
    finally:
        signal.signal(signal.SIGCHLD, old)
    assert process.report is not None
    assert (process.report.clean, process.report.killed) == (True, 1)


async def test_many_may_wait_and_some_may_be_cancelled() -> None:
    results: list[int] = []
    async with await open_process(["cat"], env=PATH) as process:

        async def wait() -> None:
            results.append(await process.wait())

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(wait)
            with anyio.move_on_after(0.05):
                await process.wait()
            await process.stdin.aclose()
        assert await process.wait() == 0
    assert results == [0] * 5
    assert await process.wait() == 0


async def test_a_polite_child_is_asked_no_twice() -> None:
    async with await open_process(["cat"], env=PATH) as process:
        pass
    report = process.report
    assert isinstance(report, ShutdownReport)
    assert (report.steps, report.exit, report.clean, report.killed) == (("eof",), 0, True, 0)
    assert report.home_removed is None
    assert 0 <= report.duration < 5


async def test_two_that_close_at_once_get_the_same_report() -> None:
    process = await open_process(["sleep", "60"], env=PATH, ladder=QUICK)
    reports: list[ShutdownReport] = []

    async def close() -> None:
        reports.append(await process.aclose())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(close)
        tasks.start_soon(close)
    assert reports[0] is reports[1]
    assert reports[0].steps == ("eof", "term")


async def test_a_child_that_says_goodbye_at_length_is_not_killed_for_it() -> None:
    script = "import sys; sys.stdin.read(); [f.write('x' * 3_000_000) for f in (sys.stdout, sys.stderr)]; sys.exit(5)"
    async with await open_process(python(script), env={}, ladder=Ladder(eof=10)) as process:
        pass
    assert process.report is not None
    assert (process.report.steps, process.report.exit) == (("eof",), 5)


async def test_a_reader_that_is_active_keeps_its_stream_during_the_shutdown() -> None:
    script = "import sys; sys.stdin.read(); [print('{\"n\":%d}' % n) for n in range(50_000)]"
    process = await open_process(python(script), env={}, ladder=Ladder(eof=20))
    got: list[dict[str, object]] = []

    async def read() -> None:
        got.extend([message async for message in process.messages()])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await anyio.sleep(0.05)
        await process.aclose()
    assert len(got) == 50_000


async def test_after_the_end_the_streams_are_closed(descriptors: Callable[[], int]) -> None:
    await run_command(["true"], env=PATH, timeout=20)
    before = descriptors()
    async with await open_process(["cat"], env=PATH) as process:
        assert descriptors() - before == 4
    assert descriptors() == before
    for stream in (process.stdout, process.stderr):
        with pytest.raises(anyio.ClosedResourceError):
            await stream.receive()
    await process.stdout.aclose()
    await process.stdin.aclose()


async def test_a_run_with_a_home_takes_five_descriptors(descriptors: Callable[[], int]) -> None:
    await run_command(["true"], env=PATH, timeout=20)
    async with throwaway_home():
        pass  # the first home of a process starts a worker thread
    before = descriptors()
    async with throwaway_home() as home, await open_process(["cat"], env=PATH, home=home):
        assert descriptors() - before == 5
    assert descriptors() == before


async def test_a_child_that_stops_itself_and_ignores_everything_is_killed(descriptors: Callable[[], int]) -> None:
    before = descriptors()
    script = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("{}", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
signal.pause()
"""
    async with await open_process(python(script), env={}, ladder=QUICK) as process:
        await anext(process.messages())
    assert process.report is not None
    assert process.report.steps == ("eof", "term", "kill")
    assert process.report.exit == -signal.SIGKILL
    assert descriptors() == before


async def test_no_thread_is_started_for_children() -> None:
    await run_command(["true"], env=PATH, timeout=20)
    before = threads()
    running = [await open_process(["cat"], env=PATH) for _ in range(20)]
    async with anyio.create_task_group() as tasks:
        for process in running:
            tasks.start_soon(process.wait)
        await anyio.lowlevel.checkpoint()
        assert threads() <= before
        for process in running:
            tasks.start_soon(process.aclose)


async def test_cancelling_the_start_leaves_nothing(descriptors: Callable[[], int]) -> None:
    await run_command(["true"], env=PATH, timeout=20)
    before = descriptors()
    for _ in range(20):
        with anyio.move_on_after(0):
            await open_process(["sleep", "60"], env=PATH)
        with anyio.move_on_after(0.001):
            await open_process(["sleep", "60"], env=PATH)
    assert descriptors() == before
    guard = launcher.LAUNCHER.guard
    (warden,) = map(int, Path(f"/proc/{guard}/task/{guard}/children").read_text().split())
    with anyio.fail_after(10):
        while Path(f"/proc/{warden}/task/{warden}/children").read_text():  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def test_cancelling_in_the_middle_of_a_request_starts_nothing(tmp_path: Path) -> None:
    big = ["x" * 100_000] * 100
    with anyio.move_on_after(0) as scope:
        await open_process(["touch", str(tmp_path / "f"), *big], env=PATH, ladder=Ladder(kill=1000))
    assert scope.cancelled_caught
    assert list(tmp_path.iterdir()) == []


async def test_no_repr_and_no_message_tells_an_argument() -> None:
    async with await open_process(["sh", "-c", "read x; exit 0", "hush"], env=PATH | {"K": "hush"}) as process:
        assert repr(process) == f"<OwnedProcess sh pid={process.pid} running>"
        await process.stdin.aclose()
        await process.wait()
    assert repr(process) == f"<OwnedProcess sh pid={process.pid} exit 0>"
    assert "hush" not in repr(process.report)
    assert process.name == "sh"


async def test_a_signal_to_the_child_is_no_business_of_ours() -> None:
    async with await open_process(["sleep", "60"], env=PATH) as process:
        os.kill(process.pid, signal.SIGUSR1)
        assert await process.wait() == -signal.SIGUSR1


# --- the harness ---------------------------------------------------------------------------------------------------


def test_two_loops_in_two_threads_share_the_supervisors() -> None:
    failures: list[BaseException] = []

    async def work() -> None:
        for _ in range(10):
            assert await output("echo", "x") == b"x\n"

    def run(backend: str) -> None:
        try:
            anyio.run(work, backend=backend)
        except BaseException as error:  # noqa: BLE001 - a thread has nobody else to tell
            failures.append(error)

    threads = [threading.Thread(target=run, args=(backend,)) for backend in ("asyncio", "trio")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


FORK = """
import atexit, gc, os, sys, threading, anyio, anyio.to_thread
from subagent_process import open_process, run_command
from subagent_process import _launcher as launcher
async def inner():
    done = await run_command(["/bin/echo", "child"], env={}, timeout=20)
    print(done.stdout.decode().strip(), launcher.LAUNCHER.guard != int(sys.argv[1]), flush=True)
async def main():
    process = await open_process(["/bin/cat"], env={})
    sys.argv[1:] = [str(launcher.LAUNCHER.guard)]
    if (pid := os.fork()) == 0:
        thread = threading.Thread(target=anyio.run, args=(inner,)); thread.start(); thread.join()
        gc.collect(); atexit._run_exitfuncs(); os._exit(0)
    await anyio.to_thread.run_sync(os.waitpid, pid, 0)
    await process.send_line({"still": "here"})
    print(await anext(process.messages()), flush=True)
    report = await process.aclose()
    print(report.steps, report.exit)
anyio.run(main)
"""


async def test_a_fork_of_the_harness_has_supervisors_of_its_own_and_leaves_ours_alone() -> None:
    env = child_env(passing=["PYTHONPATH"], set={"PYTHONWARNINGS": "ignore"})
    done = await run_command([sys.executable, "-c", FORK], env=env, timeout=40)
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "child True", done.stderr
    assert lines[-2:] == ["{'still': 'here'}", "('eof',) 0"], done.stderr


async def test_a_broken_interpreter_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    sock, _ = launcher.LAUNCHER.start()
    launcher.LAUNCHER.retire(sock)
    for executable in ("/bin/false", "/nope", "/etc/passwd", ""):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", executable)
            with pytest.raises(ProcessError, match="supervisor"):
                await open_process(["true"], env=PATH)
    assert await output("echo", "again") == b"again\n"


async def test_redaction_reads_the_ambient_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKECORP_TOKEN", "yellow-submarine")
    assert redact("in a yellow-submarine") == "in a [redacted]"


def test_pipes_are_no_sockets() -> None:
    async def main() -> None:
        assert await output("sh", "-c", "echo x > /dev/stdout") == b"x\n"

    anyio.run(main)


WINDOWS = """
import sys, os, anyio, anyio.to_thread, anyio._backends._asyncio
import subagent_process  # once, so that the standard library is there, which has its own idea of Windows
for name in [name for name in sys.modules if name.startswith("subagent_process")]:
    del sys.modules[name]
for name in ("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_PATH", "register_at_fork", "posix_spawn", "fork"):
    delattr(os, name)
sys.modules["fcntl"] = sys.modules["resource"] = None
sys.platform = "win32"
import subagent_process
try:
    anyio.run(lambda: subagent_process.open_process(["true"], env={}))
except subagent_process.UnsupportedPlatform as error:
    print(error)
print(subagent_process.child_env(ambient={"A": "1"}))
"""


async def test_the_package_can_be_imported_where_no_process_can_be_owned() -> None:
    done = await run_command([sys.executable, "-c", WINDOWS], env=child_env(passing=["PYTHONPATH"]), timeout=30)
    assert b"Owning a child process needs Linux" in done.stdout, done.stderr
    assert done.stdout.endswith(b"{'A': '1', 'SUBAGENT_DEPTH': '1'}\n")
