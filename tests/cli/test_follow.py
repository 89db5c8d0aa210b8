"""Following a run, on both event loops: the command itself uses asyncio."""

from __future__ import annotations

import json
import sys

import anyio
import pytest
from cli_kit import ENGINES

from subagents import Provider, create
from subagents._cli.follow import follow
from subagents._cli.jsonl import JsonLines
from subagents._cli.loop import interruptible
from subagents._cli.signals import INTERRUPTS
from subagents._cli.view import View

pytestmark = pytest.mark.anyio


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Provider:
    monkeypatch.setattr("sys.path", [str(ENGINES), *sys.path])
    return create("echo")


async def test_a_run_is_told_to_its_end(echo: Provider, capfd: pytest.CaptureFixture[str]) -> None:
    with anyio.fail_after(30):
        assert await follow(echo.start("show"), JsonLines()) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line["type"] for line in lines][-2:] == ["text", "result"]


async def test_an_interrupt_aborts_it(
    echo: Provider, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupting(JsonLines):
        async def event(self, event: object) -> None:
            monkeypatch.setattr(INTERRUPTS, "caught", "SIGINT")

    with anyio.fail_after(30):
        assert await follow(echo.start("hang"), Interrupting()) == 130
    (line,) = capfd.readouterr().out.splitlines()
    assert json.loads(line)["evidence"]["notes"] == ["interrupted by SIGINT"]


async def test_a_view_that_shows_nothing_is_a_view(echo: Provider, capfd: pytest.CaptureFixture[str]) -> None:
    with anyio.fail_after(30):
        assert await follow(echo.start("ask"), View()) == 0
    assert capfd.readouterr().out == ""


async def test_work_is_interrupted_by_cancelling_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = anyio.Event()

    async def work() -> None:
        monkeypatch.setattr(INTERRUPTS, "caught", "SIGTERM")
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    with anyio.fail_after(30), pytest.raises(KeyboardInterrupt):
        await interruptible(View(), work)
    assert ended.is_set()


async def test_what_work_raises_comes_out_as_it_is() -> None:
    async def work() -> None:
        raise LookupError("no source")

    with pytest.raises(LookupError, match="no source"):
        await interruptible(View(), work)
