"""The look at many providers at once, on both event loops."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Sequence

import anyio
import pytest

from subagent_testing import Scripted, scripted
from subagents import Model, Probe, Provider
from subagents._doctor import examine
from subagents._machine import look_at_machine
from subagents.errors import Unavailable

pytestmark = pytest.mark.anyio

LEAVES = """
import time, anyio
from subagents._doctor import examine
print(anyio.run(lambda: examine(["a"], lambda name: time.sleep(3600), limit=0.1))[0].state)
"""


class Patient(Scripted):
    def __init__(self, name: str) -> None:
        super().__init__(scripted.completes(), name=name)

    async def _probe(self) -> Probe:
        return Probe(True, self.name)

    async def models(self) -> Sequence[Model]:
        return [Model(self.name)]


async def test_all_are_asked_at_once_and_told_in_the_order_of_their_names() -> None:
    meeting = threading.Barrier(3)  # passed only by three at once
    heard: list[list[str]] = []

    def make(name: str) -> Provider:
        meeting.wait(30)
        return Patient(name)

    with anyio.fail_after(60):
        found = await examine(["a", "b", "c"], make, waiting=lambda names: heard.append(list(names)))
    assert [(one.name, one.state, one.probe and one.probe.version) for one in found] == [
        ("a", "ready", "a"),
        ("b", "ready", "b"),
        ("c", "ready", "c"),
    ]
    assert [one.models for one in found] == [(Model("a"),), (Model("b"),), (Model("c"),)]
    assert (heard[0], heard[-1]) == (["a", "b", "c"], [])


async def test_what_does_not_end_is_left_behind() -> None:
    release = threading.Event()

    def make(name: str) -> Provider:
        release.wait(60)
        raise Unavailable("too late")

    with anyio.fail_after(30):
        (found,) = await examine(["a"], make, limit=0.1)
    release.set()
    assert (found.state, found.problem) == ("broken", "it could not be loaded within 0.1 s")


async def test_a_program_ends_though_something_was_left_behind() -> None:
    with anyio.fail_after(30):
        done = await anyio.run_process([sys.executable, "-c", LEAVES], check=True)
    assert done.stdout == b"broken\n"


async def test_an_answer_counts_at_once_whatever_goes_on_behind_it() -> None:
    release = threading.Event()

    class Busy(Patient):
        async def _probe(self) -> Probe:
            asyncio.get_running_loop().run_in_executor(None, release.wait)  # as a name lookup that was given up
            return Probe(True)

    with anyio.fail_after(30):
        (found,) = await examine(["a"], Busy, limit=600)
    release.set()
    assert found.state == "ready"


async def test_nothing_is_asked_of_what_is_only_to_be_made() -> None:
    def make(name: str) -> Provider | None:
        return None if name == "a" else Patient(name)

    with anyio.fail_after(30):
        found = await examine(["a", "b"], make, ())
        assert await examine([], make) == []
    assert [(one.problem, one.probe, one.models) for one in found] == [("", None, None)] * 2


async def test_the_looks_at_the_machine_need_no_loop_of_their_own() -> None:
    with anyio.fail_after(60):
        facts = {fact.name: fact for fact in await look_at_machine()}
    assert facts["python"].ok
    assert facts["temporary files"].ok


async def test_a_machine_that_is_broken_in_every_way_is_told_a_fact_at_a_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def broken() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    with anyio.fail_after(60):
        await look_at_machine()  # the supervisor of children is started by the Python that is there, and stays
    bare = tmp_path_factory.mktemp("bare")
    (bare / "git").write_text("#!/bin/sh\necho this is no git\n")
    (bare / "git").chmod(0o755)
    monkeypatch.setenv("SUBAGENTS_CACHE", "~nobody-of-that-name/cache")
    monkeypatch.setenv("SUBAGENT_DEPTH", "2")
    monkeypatch.setenv("PATH", str(bare))
    monkeypatch.setattr("tempfile.gettempdir", broken)
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with anyio.fail_after(60):
        facts = {fact.name: fact for fact in await look_at_machine()}
    assert {name for name, fact in facts.items() if fact.ok} == {"python"}
    assert facts["cache"].detail.startswith("SUBAGENTS_CACHE: ")
    assert facts["git"].detail.endswith("--version ended with exit code 0 and named no version.")
    assert "/nowhere/python" in facts["processes"].detail
    assert facts["temporary files"].fix == "set TMPDIR to a folder that can be written"
    assert facts["delegation"].fix == "allow them with --max-depth 3"


async def test_a_cache_that_cannot_be_written_is_said_to_be(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cache")

    def may(path: object, mode: int) -> bool:  # a test may run as root, who may write anywhere
        return path != folder

    monkeypatch.setenv("SUBAGENTS_CACHE", str(folder / "below"))
    monkeypatch.setattr("os.access", may)
    with anyio.fail_after(60):
        facts = {fact.name: fact for fact in await look_at_machine()}
    assert facts["cache"].detail == f"{folder / 'below'} cannot be made: {folder} cannot be written"
    monkeypatch.setenv("SUBAGENTS_CACHE", str(folder))
    with anyio.fail_after(60):
        facts = {fact.name: fact for fact in await look_at_machine()}
    assert facts["cache"].detail == f"{folder} cannot be written"
