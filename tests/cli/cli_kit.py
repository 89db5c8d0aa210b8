"""What the tests of the command share: the command as a process, on pipes and on a terminal, and a child's lifeline."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

ENGINES = Path(__file__).parent / "engines"
"""A distribution with the providers of these tests; entry points are found on sys.path."""

COMMAND = (sys.executable, "-m", "subagents")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
BOUND = 30.0  # s that anything may take


class Done(NamedTuple):
    """How the command ended, and what it wrote."""

    code: int
    out: str
    err: str


def plain(text: str) -> str:
    """What a terminal shows of it, without colours and movements."""
    return ESCAPES.sub("", text).replace("\r\n", "\n")


def timeless(text: str) -> str:
    """The text with every duration as `0.0 s`."""
    return re.sub(r"\d+\.\d s\b", "0.0 s", text)


def environment(**changes: str | None) -> dict[str, str]:
    """The environment of this process with the test's providers, without what changes colours and depth."""
    removed = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "SUBAGENT_DEPTH"}
    env = {k: v for k, v in os.environ.items() if k not in removed}
    path = os.pathsep.join(filter(None, (str(ENGINES), env.get("PYTHONPATH"))))
    usual = {"PYTHONPATH": path, "TERM": "xterm-256color", "SUBAGENTS_CONFIG": os.devnull}
    env |= {**usual, **{k: v for k, v in changes.items() if v is not None}}
    return {k: v for k, v in env.items() if changes.get(k, v) is not None}


def command(*args: str, given: str | bytes = "", before: tuple[str, ...] = COMMAND, **env: str | None) -> Done:
    """Run the command on pipes to its end."""
    data = given.encode() if isinstance(given, str) else given
    done = subprocess.run(
        [*before, *args], input=data, capture_output=True, timeout=BOUND, env=environment(**env), check=False
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@contextmanager
def started(*args: str, before: tuple[str, ...] = COMMAND, **how: Any) -> Generator[subprocess.Popen[bytes]]:
    """The command while it runs; killed at the end where it still does."""
    pipe = subprocess.PIPE
    usual: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": pipe, "stderr": pipe, "env": environment()}
    process = cast("subprocess.Popen[bytes]", subprocess.Popen([*before, *args], **usual | how))
    try:
        yield process
    finally:
        process.kill()
        process.wait(BOUND)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


class Lifeline:
    """A listening socket whose peer is a child somewhere below the command: its end is the child's death."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(BOUND)
        self.port = str(self._listener.getsockname()[1])
        self._peer: socket.socket | None = None

    def born(self) -> None:
        """Wait until the child is connected."""
        self._peer, _ = self._listener.accept()
        self._peer.settimeout(BOUND)

    def died(self) -> bool:
        """Whether the child's end comes within the bound."""
        assert self._peer is not None
        try:
            return self._peer.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    def close(self) -> None:
        self._listener.close()
        if self._peer is not None:
            self._peer.close()


# Makes its standard input the controlling terminal, as a login does, so that ^C is a signal; then it is the command.
_LOGIN = "import os,sys; os.close(os.open(os.ttyname(0), os.O_RDWR)); os.execv(sys.executable, sys.argv[1:])"


class Terminal:
    """The command on a terminal of its own."""

    def __init__(self, *args: str, columns: int = 80, lines: int = 24, before: tuple[str, ...] = COMMAND, **how: Any):
        self._bytes, self._at = b"", 0
        env: dict[str, str] = how.pop("env", environment())
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (lines, columns))
        self.modes = termios.tcgetattr(slave)
        streams: dict[str, Any] = {"stdin": slave, "stdout": slave, "stderr": slave} | how
        argv = [sys.executable, "-c", _LOGIN, *before, *args]
        process = subprocess.Popen(argv, env=env, start_new_session=True, **streams)
        self.process = cast("subprocess.Popen[bytes]", process)
        self._slave = slave  # kept, so that its modes can be read at the end

    @property
    def text(self) -> str:
        """All that has appeared."""
        return self._bytes.decode(errors="replace")

    def wait_for(self, *words: str) -> None:
        """Until these words have appeared, in this order, after what was waited for before; colours do not count."""
        end = time.monotonic() + BOUND
        for word in words:
            while (found := plain(self.text).find(word, self._at)) < 0:
                assert time.monotonic() < end, f"{word!r} did not appear in …{plain(self.text)[-600:]!r}"
                self._read(0.5)
            self._at = found + len(word)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def end(self) -> int:
        """The exit code; everything that was written is in `text` then."""
        end = time.monotonic() + BOUND
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it does not end: …{self.text[-600:]!r}"
            self._read(0.05)
        while self._read(0):
            pass
        return self.process.returncode

    def restored(self) -> bool:
        """Whether the cursor is visible, and the modes (echo, whole lines, signals) are what they were."""
        visible = self.text.rfind("\x1b[?25h") >= self.text.rfind("\x1b[?25l")
        return visible and termios.tcgetattr(self._slave) == self.modes

    def _read(self, bound: float = BOUND) -> bool:
        if not select.select([self._master], [], [], bound)[0]:
            return False
        self._bytes += os.read(self._master, 65536)
        return True

    def hang_up(self) -> None:
        """Close the terminal, as its window does."""
        os.close(self._slave)
        os.close(self._master)
        self._master = self._slave = -1

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(BOUND)
        if self._master >= 0:
            self.hang_up()


@contextmanager
def terminal(*args: str, **how: Any) -> Generator[Terminal]:
    """The command on a terminal; killed at the end where it still runs."""
    shown = Terminal(*args, **how)
    try:
        yield shown
    finally:
        shown.close()


@contextmanager
def lifeline() -> Generator[Lifeline]:
    line = Lifeline()
    try:
        yield line
    finally:
        line.close()
