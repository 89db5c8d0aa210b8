"""A small HTTP/1.1 server on loopback, in threads, whose every wait ends when the client leaves or the server closes.

Not `http.server`: its handlers cannot tell a client that waits from one that has left, and closing it waits for whoever
is at work.  Here an exchange waits for a gate and for the client at once, with no polling, and `close` ends both.

Trap: a client that sends more before it was answered (pipelining) is taken for one that left.
"""

from __future__ import annotations

import http.client
import io
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

_JOIN: Final = 10.0
"""Seconds that `close` gives each thread; only an answering function that blocks by itself needs any."""

_BACKLOG: Final = 128
_SHORTAGE: Final = 0.02
"""Seconds between two looks for a descriptor."""


class Left(Exception):
    """The client closed the connection before it was answered whole, or the server is closing."""


class Gate:
    """Something that a server waits for until a test lets it go on; released once and for all, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = False
        self._reached = threading.Event()
        self._bells: set[socket.socket] = set()

    def release(self) -> None:
        """Let everybody go on who waits here, now and later."""
        with self._lock:
            self._open = True
            for bell in self._bells:
                bell.send(b".")

    def wait_until_reached(self, *, within: float = 10.0) -> None:
        """Block until somebody has come here: all that comes before it in the script has been sent.

        Raises:
            TimeoutError: nobody came within so many seconds.
        """
        if not self._reached.wait(within):
            raise TimeoutError(f"nobody has come to the gate within {within:g} s")

    def pass_through(self, line: socket.socket) -> bool:
        """Wait until it is released; False when the other end of the line closes before that."""
        near, far = socket.socketpair()
        with near, far, selectors.DefaultSelector() as both:
            with self._lock:
                self._reached.set()
                if self._open:
                    return True
                self._bells.add(far)
            both.register(near, selectors.EVENT_READ)
            both.register(line, selectors.EVENT_READ)
            both.select()
            with self._lock:
                self._bells.remove(far)
                return self._open


@dataclass(frozen=True, slots=True)
class Connection:
    """A TCP connection that a client made, also one on which nothing was asked.

    Attributes:
        peer: address and port of the client.
        opened_at: when, in seconds since the epoch.
    """

    peer: tuple[str, int]
    opened_at: float


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    at: float


class Exchange:
    """One request and the connection on which it is answered.  Every method raises `Left` when the client has left.

    Attributes:
        begun: the head of an answer is on its way.
        keep: the connection serves another request afterwards.
    """

    def __init__(self, line: socket.socket, asked: Asked) -> None:
        self._line = line
        self.asked = asked
        self.begun = False
        self.keep = asked.headers.get("connection", "").lower() != "close"

    def answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """A whole answer."""
        self._head(status, {**headers, "content-length": str(len(body))}, body)

    def stream(self, content_type: str) -> None:
        """The head of an answer that comes in chunks."""
        self._head(200, {"content-type": content_type, "transfer-encoding": "chunked"})

    def chunk(self, data: bytes) -> None:
        """The next part of it; an empty one is its end."""
        self._send(b"%x\r\n%s\r\n" % (len(data), data))

    def cut(self) -> None:
        """Close the connection as it stands."""
        self.keep = False
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)

    def wait(self, gate: Gate) -> None:
        """Wait until the gate is released."""
        if not gate.pass_through(self._line):
            raise Left

    def _head(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        known = {s.value: s.phrase for s in HTTPStatus}
        lines = [
            f"HTTP/1.1 {status} {known.get(status, 'Unknown')}",
            *(f"{k}: {v}" for k, v in headers.items()),
            "",
            "",
        ]
        data = "\r\n".join(lines).encode("latin-1") + body
        self.begun = True
        self._send(data)

    def _send(self, data: bytes) -> None:
        try:
            self._line.sendall(data)
        except OSError:
            raise Left from None


class HttpServer:
    """Accepts on a port of 127.0.0.1 from its making until `close`."""

    def __init__(self, answer: Callable[[Exchange], None]) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self._closing = False
        self._lines: dict[threading.Thread, socket.socket] = {}
        self.connections: list[Connection] = []
        self._door = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self.port: int = self._door.getsockname()[1]
        self._stop, self._stopped = socket.socketpair()
        self._porter = threading.Thread(target=self._accept, name=f"scripted server {self.port}", daemon=True)
        self._porter.start()

    @property
    def closing(self) -> bool:
        """Whether `close` was called: who leaves now was sent away."""
        return self._closing

    def close(self) -> None:
        """End every connection and wait until no thread is left; again is nothing.

        Raises:
            RuntimeError: a thread did not end, because an answering function blocks.
        """
        with self._lock:
            if self._closing:
                return
            self._closing = True
        self._stop.close()
        self._porter.join()
        self._stopped.close()
        self._door.close()
        with self._lock:
            open_lines = dict(self._lines)
            for line in open_lines.values():
                with suppress(OSError):  # the client was quicker
                    line.shutdown(socket.SHUT_RDWR)
        for thread in open_lines:
            thread.join(_JOIN)
            if thread.is_alive():
                raise RuntimeError(f"{thread.name} did not end within {_JOIN:g} s: its script blocks")

    def _accept(self) -> None:
        with selectors.DefaultSelector() as both:
            both.register(self._door, selectors.EVENT_READ)
            both.register(self._stopped, selectors.EVENT_READ)
            while all(key.fileobj is self._door for key, _ in both.select()):
                try:
                    line, peer = self._door.accept()
                except OSError:  # the client was quicker, or no descriptor is left: then it waits until there is one
                    time.sleep(_SHORTAGE)
                    continue
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else two writes in a row take 40 ms
                thread = threading.Thread(target=self._serve, args=(line,), name=self._porter.name, daemon=True)
                with self._lock:
                    self.connections.append(Connection((peer[0], peer[1]), time.time()))
                    self._lines[thread] = line
                thread.start()

    def _serve(self, line: socket.socket) -> None:
        try:
            with line, line.makefile("rb") as reader, suppress(OSError, Left):
                while (asked := _read(reader, line)) is not None:
                    exchange = Exchange(line, asked)
                    self._answer(exchange)
                    if not exchange.keep:
                        return
        finally:
            with self._lock:
                del self._lines[threading.current_thread()]


def _read(reader: io.BufferedReader, connection: socket.socket) -> Asked | None:
    """The next request; None at the end, for what is no HTTP (a TLS handshake, say), and for one that is cut short."""
    line = reader.readline(65536)
    try:
        method, path, version = line.decode("ascii").split()
        if not version.startswith("HTTP/1."):
            return None
        headers = {name.lower(): value for name, value in http.client.parse_headers(reader).items()}
        if headers.get("expect", "").lower() == "100-continue":
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        body = _dechunk(reader) if chunked else _exactly(reader, int(headers.get("content-length", "0")))
    except (ValueError, http.client.HTTPException):
        return None
    return Asked(method, path, headers, body, time.time())


def _exactly(reader: io.BufferedReader, size: int) -> bytes:
    data = reader.read(size) if size >= 0 else b""
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes of {size} came")
    return data


def _dechunk(reader: io.BufferedReader) -> bytes:
    parts: list[bytes] = []
    while size := int(reader.readline().partition(b";")[0], 16):
        parts.append(_exactly(reader, size))
        reader.readline()
    http.client.parse_headers(reader)  # trailers, to the empty line
    return b"".join(parts)
