"""What every fake program is for the test that made it: an executable that tells what happens and waits at gates.

A subclass names the package of the program, which runs under `-I -S`, and what a script may have.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Self, cast

import anyio.to_thread

_LONGEST_SOCKET: Final = 100
"""Bytes that a socket's path may have: 103 on macOS, 107 on Linux."""

_LONGEST_SHEBANG: Final = 250
"""Bytes of a first line that every kernel reads."""

_GRACE: Final = 1.0
"""Seconds in which a fake ends by itself when this is closed, and then seconds in which it dies."""

_PROGRAM: Final = """\
#!{python} -IS
import sys
sys.path.append({folder!r})
from subagent_testing.{package}.program import main
main({script!r}, {socket!r})
"""


@dataclass(frozen=True, slots=True)
class Heard:
    """Something that a fake told.

    Attributes:
        what: the method of a message of the client, `answer` for its answers, `noise` for a line that was no message,
            `EOF` for the end of its pipe, `verdict`, `run` for the start of a process, or a name out of the script.
        pid: which process.
        members: `message` for what the client sent; `text` for noise.
    """

    what: str
    pid: int
    members: Mapping[str, Any] = field(repr=False)

    @property
    def message(self) -> dict[str, Any]:
        """What the client sent, whole."""
        return self.members["message"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the client's answer to a request had the request's own shape.

    Attributes:
        method: the request's.
        answer: the client's message: `{"id": 0, "result": {"decision": "decline"}}`.
        wrong: what is wrong with it, as `result lacks decision`; empty when nothing is.  `was answered before` for one
            answer too many; `answers no request`, with an empty `method`, for one whose id nobody has asked with.
    """

    method: str
    answer: Mapping[str, Any]
    wrong: str


@dataclass(frozen=True, slots=True)
class FakeRun:
    """A process of the fake as it was started.

    Attributes:
        argv: its own name and its arguments.
        env: its environment; not in the repr.
        descriptors: the numbers that were open, without the one to the test.
    """

    pid: int
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    cwd: Path
    umask: int
    descriptors: tuple[int, ...]


class FakeProgram:
    """A program that follows a script; what is public here, its subclasses describe."""

    _name: ClassVar[str]
    """What the executable is called."""

    _package: ClassVar[str]
    """The package of the program."""

    _members: ClassVar[frozenset[str]]
    """What a script may have; `turn` is a list of steps, `on` has lists of them."""

    _verbs: ClassVar[frozenset[str]]
    """The steps that there are."""

    def __init__(self, script: Mapping[str, Any] | None = None) -> None:
        script = script or {}
        self._check(script)
        first = f"#!{sys.executable} -IS"
        if len(first) > _LONGEST_SHEBANG or " " in sys.executable:
            raise ValueError(f"no program can name this Python in its first line: {sys.executable}")
        folder = tempfile.gettempdir()
        if len(folder) + len("/xx-12345678/socket") > _LONGEST_SOCKET:
            folder = "/tmp"
        self._folder = Path(tempfile.mkdtemp(prefix=f"{self._name[:2]}-", dir=folder))
        self._changed = threading.Condition()
        self._closed = False
        self._opened: list[str] = []
        self._lines: dict[socket.socket, bytes] = {}
        self.heard: list[Heard] = []
        path, script_path = str(self._folder / "socket"), self._folder / "script.json"
        script_path.write_text(json.dumps(script), encoding="utf-8")
        self.executable = self._folder / self._name
        names = {"python": sys.executable, "package": self._package, "script": str(script_path), "socket": path}
        self.executable.write_text(_PROGRAM.format(folder=str(Path(__file__).parents[1]), **names), encoding="utf-8")
        self.executable.chmod(0o700)
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(path)
        self._door.listen(128)
        self._stop, self._stopped = socket.socketpair()
        self._thread = threading.Thread(target=self._listen, name=f"fake {self._name} {self._folder.name}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End whoever still lives, and remove the folder; again is nothing.  Takes at most about 2 s."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        self._stop.close()
        self._thread.join()
        self._end()
        for thing in (self._door, self._stopped, *self._lines):
            thing.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def runs(self) -> Sequence[FakeRun]:
        """Its processes, `--version` and `login status` included, in the order of their start."""
        return [
            FakeRun(
                pid=each.pid,
                argv=tuple(each.members["argv"]),
                env=each.members["env"],
                cwd=Path(each.members["cwd"]),
                umask=each.members["umask"],
                descriptors=tuple(each.members["descriptors"]),
            )
            for each in self._all("run")
        ]

    @property
    def received(self) -> Sequence[dict[str, Any]]:
        """What clients sent, requests, notifications and answers, in order."""
        with self._changed:
            return [each.message for each in self.heard if "message" in each.members]

    @property
    def verdicts(self) -> Sequence[Verdict]:
        """On every answer to a request of the fake for which the script waited, and on each that is too many.

        Where the script has written bytes (`raw`), an id that nobody has asked with may be one of theirs: no verdict.
        """
        return [Verdict(e.members["method"], e.members["answer"], e.members["wrong"]) for e in self._all("verdict")]

    def open(self, gate: str) -> None:
        """Let every process go on that waits, or comes to wait, at this gate of the script."""
        with self._changed:
            self._opened.append(gate)
            for line in self._lines:
                _say(line, gate)

    def wait_for(self, what: str, n: int = 1, *, within: float = 10.0) -> Heard:
        """Block until this has happened for the n-th time: see `Heard.what`.

        Raises:
            TimeoutError: it did not within so many seconds, or before the fake was closed; the message lists what did.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._count(what) >= n, within)
            if self._count(what) < n:
                limit = "before the fake was closed" if self._closed else f"within {within:g} s"
                seen = ", ".join(each.what for each in self.heard[-30:]) or "nothing"
                raise TimeoutError(f"number {n} of {what!r} did not happen {limit}; what did, last: {seen}")
            return [each for each in self.heard if each.what == what][n - 1]

    async def happened(self, what: str, n: int = 1, *, within: float = 10.0) -> Heard:
        """`wait_for`, for coroutines; may be cancelled, its thread ends within the bound or when the fake is closed."""
        return await anyio.to_thread.run_sync(lambda: self.wait_for(what, n, within=within), abandon_on_cancel=True)

    def _all(self, what: str) -> list[Heard]:
        with self._changed:
            return [each for each in self.heard if each.what == what]

    def _count(self, what: str) -> int:
        return sum(each.what == what for each in self.heard)

    def _listen(self) -> None:
        with selectors.DefaultSelector() as inputs:
            inputs.register(self._door, selectors.EVENT_READ, self._welcome)
            inputs.register(self._stopped, selectors.EVENT_READ)
            while True:
                for key, _ in inputs.select():
                    if key.fileobj is self._stopped:
                        return
                    take: Callable[[selectors.BaseSelector, Any], None] = key.data
                    take(inputs, key.fileobj)

    def _welcome(self, inputs: selectors.BaseSelector, door: socket.socket) -> None:
        line, _ = door.accept()
        with self._changed:
            self._lines[line] = b""
            for gate in self._opened:
                _say(line, gate)
        inputs.register(line, selectors.EVENT_READ, self._hear)

    def _hear(self, inputs: selectors.BaseSelector, line: socket.socket) -> None:
        data = b""
        with suppress(ConnectionResetError):
            data = line.recv(1 << 20)
        with self._changed:
            *told, self._lines[line] = (self._lines[line] + data).split(b"\n")
            for each in told:
                members: dict[str, Any] = json.loads(each)
                self.heard.append(Heard(members.pop("what"), members.pop("pid"), members))
                _say(line, "")
            if not data:
                inputs.unregister(line)
                del self._lines[line]
                line.close()
            self._changed.notify_all()

    def _end(self) -> None:
        with selectors.DefaultSelector() as inputs:
            for line in self._lines:
                with suppress(OSError):  # it has ended
                    line.shutdown(socket.SHUT_WR)
                inputs.register(line, selectors.EVENT_READ)
            _drain(inputs)
            for key in inputs.get_map().values():
                pid = _peer(cast("socket.socket", key.fileobj))
                if pid > 0:  # pragma: no branch - 0 is a process of a namespace that is not below ours
                    os.kill(pid, signal.SIGKILL)  # its line is open, so it lives and the number is its own
            _drain(inputs)

    def _check(self, script: Mapping[str, Any]) -> None:
        if others := sorted(script.keys() - self._members):
            raise ValueError(f"a script has no {', '.join(others)}; its members are {', '.join(sorted(self._members))}")
        self._check_steps("turn", script.get("turn", []))
        for occurrence, lists in script.get("on", {}).items():
            if not lists or isinstance(lists, str | Mapping):
                raise ValueError(f"on.{occurrence} needs a list of steps for the first time that it happens")
            for steps in lists:
                self._check_steps(f"on.{occurrence}", steps)

    def _check_steps(self, where: str, steps: Sequence[Any]) -> None:
        if isinstance(steps, str | Mapping):
            raise ValueError(f"{where}: {steps!r} is no list of steps")
        for step in steps:
            match step:
                case str():
                    name, value = step, None
                case dict() if len(cast("dict[str, Any]", step)) == 1:
                    [(name, value)] = cast("dict[str, Any]", step).items()
                case _:
                    name, value = "", None
            if name not in self._verbs:
                raise ValueError(f"{where}: {step!r} is no step; steps are {', '.join(sorted(self._verbs))}")
            if name == "turn" and value is not None:
                self._check_steps(f"{where}.turn", value)


def _say(line: socket.socket, gate: str) -> None:
    with suppress(OSError):  # it has ended
        line.sendall(os.fsencode(f"{gate}\n"))


def _peer(line: socket.socket) -> int:
    """Who is at the other end: the kernel's word, since in a PID namespace it knows itself by another number."""
    if sys.platform == "darwin":  # pragma: no cover
        return line.getsockopt(0, 2)  # SOL_LOCAL, LOCAL_PEERPID
    return struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def _drain(inputs: selectors.BaseSelector) -> None:
    """Until every line has ended, for a while."""
    limit = time.monotonic() + _GRACE
    while inputs.get_map() and (left := limit - time.monotonic()) > 0:
        for key, _ in inputs.select(left):
            line, data = cast("socket.socket", key.fileobj), b""
            with suppress(ConnectionResetError):
                data = line.recv(1 << 20)
            if not data:  # pragma: no branch - whether it says a last word depends on the moment
                inputs.unregister(line)
