"""`Local` keeps the promises of every provider: the embedded half, around a real child with an engine that is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from subagent_local import Local
from subagent_testing import Subject

# Does what the prompt says, in the protocol of the real one; leaves when its standard input ends, unless it lingers.
ENGINE = """
import http.server, json, os, sys, threading, time

key = json.loads(sys.stdin.readline())["key"]
PAGES = {
    "/apply-template": {"prompt": "x"},
    "/tokenize": {"tokens": [1]},
    "/props": {"default_generation_settings": {"n_ctx": 4096}},
    "/v1/models": {},
}
LINGER = threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        assert self.headers["Authorization"] == "Bearer " + key
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        if self.path in PAGES:
            self.wfile.write(json.dumps(PAGES[self.path]).encode())
        else:
            self.answer(json.loads(body)["messages"][-1]["content"])

    do_POST = do_GET

    def answer(self, prompt):
        for i in range(5000 if prompt == "bursts" else 1):
            self.say({"content": f"{i} "})
        if prompt == "lasts":
            time.sleep(600)
        if prompt == "lingers":
            LINGER.set()
        self.say({}, "stop")
        self.wfile.write(b"data: [DONE]\\n\\n")

    def say(self, delta, finish=None):
        chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\\n\\n")

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(json.dumps({"url": "http://127.0.0.1:%d" % server.server_address[1]}), flush=True)
sys.stdin.read()
if LINGER.is_set():
    time.sleep(60)
os._exit(0)
"""


@pytest.fixture
def subject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Subject:
    engine, model = tmp_path / "engine.py", tmp_path / "own.gguf"
    engine.write_text(ENGINE)
    model.write_bytes(b"GGUF" + bytes(60))
    monkeypatch.setattr("subagent_local._engine.child._SCRIPT", engine)
    monkeypatch.setenv("SUBAGENTS_CACHE", str(tmp_path / "cache"))
    return Subject(
        make=lambda: Local(model=model),
        task="completes",
        slow_task="lasts",
        burst_task="bursts",
        linger_task="lingers",  # until SIGTERM, which comes a second after the end of its standard input
        failing=lambda: Local(model=tmp_path / "missing.gguf"),
    )


@pytest.mark.long
def test_local_keeps_the_promises_of_every_provider(
    provider_promise: Callable[[Subject], None], subject: Subject
) -> None:
    provider_promise(subject)
