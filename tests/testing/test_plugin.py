"""The pytest plug-in, in pytest runs of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]


def _run(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    # The option only keeps pytest-asyncio, where it is installed, from warning about its default.
    quiet = "asyncio_default_fixture_loop_scope=function"
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-o", quiet, *args)


def test_every_promise_is_a_test_with_a_name_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from subagent_testing import Scripted, Subject, scripted

        def test_engine(provider_promise):
            provider_promise(Subject(make=lambda: Scripted(scripted.completes()), task="x"))
        """
    )
    result = _run(pytester, "-v", "-rs", "-k", "kebab or completes or dropped")
    result.assert_outcomes(passed=4, skipped=2, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(
        [
            "*test_engine[[]name-is-kebab-case-asyncio[]] PASSED*",
            "*test_engine[[]a-task-completes-trio[]] PASSED*",
            "*no slow_task was given*",
        ]
    )


def test_a_broken_promise_fails_its_own_test_and_says_what_happened(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from subagent_testing import Scripted, Subject, scripted

        def test_engine(provider_promise):
            provider_promise(Subject(make=lambda: Scripted(scripted.completes(), name="No Kebab"), task="x"))
        """
    )
    result = _run(pytester, "-k", "name-is")
    result.assert_outcomes(passed=2, failed=2, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(["*BrokenPromise: name-is-kebab-case [[]trio[]]: *the name is 'No Kebab'*"])


def test_the_family_of_a_test_ends_with_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import subprocess
        import anyio

        started = []

        def test_family(family):
            started.append(subprocess.Popen(family.argv, stdout=subprocess.PIPE, start_new_session=True))
            anyio.run(family.grow)

        def test_afterwards():
            with started[0] as leader:
                leader.communicate(timeout=30)
        """
    )
    _run(pytester).assert_outcomes(passed=2)


def test_what_a_test_leaves_behind_fails_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os, subprocess, tempfile, threading
        import pytest

        CHILDREN, DESCRIPTORS, END = [], [], threading.Event()

        @pytest.fixture(scope="module", autouse=True)
        def afterwards():
            yield
            END.set()
            for fd in DESCRIPTORS:
                os.close(fd)
            for child in CHILDREN:
                child.kill()
                child.wait()

        @pytest.fixture(autouse=True)
        def quickly(monkeypatch):
            from subagent_testing.leaks import Snapshot
            monkeypatch.setattr(Snapshot.left, "__kwdefaults__", {"within": 0.2})

        def test_descriptor(leak_check):
            DESCRIPTORS.append(os.open("/dev/null", os.O_RDONLY))

        def test_thread(leak_check):
            threading.Thread(target=END.wait, name="forgotten").start()

        def test_child(leak_check):
            CHILDREN.append(subprocess.Popen(["sleep", "60"]))

        def test_folder(leak_check):
            tempfile.mkdtemp(prefix="forgotten-")

        def test_nothing(leak_check):
            with open(os.devnull), tempfile.TemporaryDirectory():
                subprocess.run(["true"])
        """
    )
    result = _run(pytester)
    result.assert_outcomes(passed=5, errors=4)
    result.stdout.fnmatch_lines(
        [
            "*left behind: descriptor /dev/null",
            "*left behind: thread forgotten",
            "*left behind: child *",
            "*left behind: temporary entry */forgotten-*",
        ]
    )


def test_the_event_loop_of_the_test_itself_is_no_leak(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio, os
        import anyio
        import pytest

        @pytest.fixture
        async def something(leak_check, anyio_backend):
            await anyio.sleep(0)
            yield

        @pytest.mark.anyio
        async def test_with_anyio(leak_check, anyio_backend):
            await anyio.to_thread.run_sync(lambda: None)

        @pytest.mark.anyio
        async def test_with_a_fixture(something):
            await anyio.to_thread.run_sync(lambda: None)

        @pytest.mark.asyncio
        async def test_with_pytest_asyncio(leak_check):
            await asyncio.to_thread(lambda: None)
        """
    )
    _run(pytester).assert_outcomes(passed=5)


def test_a_run_through_the_supervisor_is_no_leak(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import anyio
        from subagent_process import child_env, run_command, throwaway_home

        async def work():
            async with throwaway_home() as home:
                await run_command(["true"], env=child_env(home=home), timeout=30)

        def test_work(leak_check):
            anyio.run(work)
        """
    )
    _run(pytester).assert_outcomes(passed=1)


def test_the_plug_in_imports_nothing_until_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass\n")
    code = (
        "import sys, pytest\n"
        "class Look:\n"
        "    def pytest_unconfigure(self):\n"
        "        print([m for m in sys.modules if m.startswith(('subagent', 'pydantic', 'jsonschema'))])\n"
        "sys.exit(pytest.main(['-q', '-p', 'no:hypothesispytest', sys.argv[1]], plugins=[Look()]))\n"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert "['subagent_testing', 'subagent_testing.plugin']" in run.stdout, run.stdout + run.stderr
