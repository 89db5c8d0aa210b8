"""`subagents run local … --write`: a change by a small model, from the shell."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_kit import Done, command

Call = Callable[..., Done]
Answer = Callable[..., None]

APP = "def greet(name):\n    return name\n"
NEW = 'def greet(name):\n    """Greet\u202e."""\n    return name\n'

# In place of the engine: answers every question with the one text that stands in it.
ENGINE = """
import http.server, json, os, sys, threading
sys.stdin.readline()
PAGES = {{
    "/apply-template": {{"prompt": "x"}},
    "/tokenize": {{"tokens": [1]}},
    "/props": {{"default_generation_settings": {{"n_ctx": 4096}}}},
    "/v1/models": {{}},
}}
ANSWER = {{"choices": [{{"delta": {{"content": {answer!r}}}, "finish_reason": "stop"}}]}}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        page = json.dumps(PAGES.get(self.path, ANSWER)).encode()
        self.wfile.write(page if self.path in PAGES else b"data: %s\\n\\n" % page)
    do_POST = do_GET
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(json.dumps({{"url": "http://127.0.0.1:%d" % server.server_address[1]}}), flush=True)
sys.stdin.read()
os._exit(0)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the command is called in."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    (folder / "util.py").write_text("a = 1\n")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """`subagents run local`, with an engine that gives this answer."""
    model = tmp_path / "own.gguf"
    model.write_bytes(b"GGUF" + bytes(60))

    def run(answer: object, *args: str) -> Done:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        (tmp_path / "engine.py").write_text(ENGINE.format(answer=text))
        monkeypatch.setattr("subagent_local._engine.child._SCRIPT", tmp_path / "engine.py")
        return call("run", "local", "Add a docstring to greet", "--model", str(model), *args)

    return run


def said(content: str, path: str = "app.py") -> dict[str, object]:
    return {"files": [{"path": path, "content": content}], "notes": "Added a docstring."}


def test_a_change_is_written_and_its_diff_is_shown_beside_the_answer(folder: Path, run: Callable[..., Done]) -> None:
    done = run(said(NEW), "--write", "app.py", "--read", "util.py")
    assert (done.code, (folder / "app.py").read_text()) == (0, NEW)
    assert done.out == "Added a docstring.\n\n    app.py: 2 -> 3 lines\n"
    lines = done.err.splitlines()
    at = lines.index("\u2713 edit  app.py: 2 -> 3 lines")
    assert lines[at + 1 : at + 7] == [
        "--- a/app.py",
        "+++ b/app.py",
        "@@ -1,2 +1,3 @@",
        " def greet(name):",
        '+    """Greet\\u202e."""',
        "     return name",
    ]
    assert "warning: app.py: line 2 holds a character that does not show (U+202E)" in done.err
    assert "\u202e" not in done.err


def test_quietly_only_the_answer_is_shown(folder: Path, run: Callable[..., Done]) -> None:
    done = run(said(NEW), "--write", "app.py", "-q")
    assert (done.out, done.err) == ("Added a docstring.\n\n    app.py: 2 -> 3 lines\n", "")


def test_json_lines_hold_the_diff_in_an_event(folder: Path, run: Callable[..., Done]) -> None:
    done = run(said(NEW), "--write", "app.py", "--json")
    events: list[dict[str, Any]] = [json.loads(line) for line in done.out.splitlines()]
    (diff,) = (event["output"] for event in events if event["type"] == "tool" and event["status"] == "completed")
    assert diff.startswith("--- a/app.py\n+++ b/app.py\n")
    assert events[-1]["output"].endswith("    app.py: 2 -> 3 lines")


def test_an_answer_that_is_refused_changes_nothing_and_says_why(folder: Path, run: Callable[..., Done]) -> None:
    done = run(said("x = 1\n", "util.py"), "--write", "app.py", "--read", "util.py")
    assert (done.code, done.out, (folder / "util.py").read_text()) == (1, "", "a = 1\n")
    assert "nothing was written: it names 'util.py', which it was not given for writing" in done.err


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("--write", "../app.py"), "'../app.py': it leads out of a folder (..)"),
        (("--write", "uv.lock"), "'uv.lock': it is protected"),
        (("--read", "none.py"), "'none.py': it does not exist"),
        (("--write", "app.py", "--schema", "{}"), "leave out output_schema, or write"),
    ],
)
def test_files_that_cannot_be_given_are_a_usage_error(
    folder: Path, run: Callable[..., Done], args: tuple[str, ...], reason: str
) -> None:
    (folder / "uv.lock").touch()
    done = run("", *args)
    assert (done.code, done.out) == (2, "")
    assert reason in done.err


def test_an_option_lifts_a_protection(folder: Path, run: Callable[..., Done]) -> None:
    (folder / "uv.lock").touch()
    done = run(said("a = 1\n", "uv.lock"), "--write", "uv.lock", "-o", 'protected=["!*.lock"]')
    assert (done.code, (folder / "uv.lock").read_text()) == (0, "a = 1\n")


@pytest.mark.usefixtures("small_model")
def test_the_real_small_model_rewrites_a_file_whole_or_leaves_it(folder: Path) -> None:
    options = ("-m", "smollm2-135m", "-o", "threads=1", "-o", "max_tokens=120")
    before = (sys.executable, "-m", "subagents")
    done = command("run", "local", "Add a docstring to greet", "--write", "app.py", *options, before=before)
    assert done.code in (0, 1, 5), done.err
    assert ((folder / "app.py").read_text() != APP) == (done.code == 0)
    assert ("--- a/app.py" in done.err) == (done.code == 0)
    assert (folder / "util.py").read_text() == "a = 1\n"
