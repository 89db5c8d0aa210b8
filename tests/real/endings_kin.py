"""The relatives that a tool command of a task leaves, as a program of their own: see `Kin` in `endings_kit.py`.

    python -I -S endings_kin.py FOLDER

Each holds the named pipe NAME.life in FOLDER open for writing; the end of the pipe NAME.line ends it, so that nothing
outlives the test.  Pipes and not sockets: a sandbox without a network lets
nobody connect, not even to a socket of the file system (seen on Codex 0.163.0).
"""

from __future__ import annotations

import os
import signal
import sys

TRAITS = {
    "leader": (),
    "plain": (),
    "deaf": ("deaf",),
    "own-session": ("session",),
    "bare-daemon": ("session", "orphan", "quiet", "deaf", "bare"),
}


def live(folder: str, name: str) -> None:
    """Say that we are there, and wait for the end."""
    if "deaf" in TRAITS[name]:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    line = os.open(f"{folder}/{name}.line", os.O_RDONLY)
    os.write(os.open(f"{folder}/{name}.life", os.O_WRONLY), b"here\n")
    os.read(line, 1)
    os._exit(0)


def start(folder: str, name: str) -> None:
    """Fork one and make it what its traits say; returns in the leader only."""
    traits = TRAITS[name]
    child = os.fork()
    if child:
        if "orphan" in traits:  # the one between exits at once
            os.waitpid(child, 0)
        return
    if "session" in traits:
        os.setsid()
    if "orphan" in traits and os.fork():
        os._exit(0)
    if "quiet" in traits:
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
    argv = [sys.executable, "-I", "-S", os.path.abspath(__file__), folder, name]
    os.execve(sys.executable, argv, {} if "bare" in traits else dict(os.environ))


if __name__ == "__main__":
    where, *who = sys.argv[1:]
    for relative in () if who else tuple(TRAITS)[1:]:
        start(where, relative)
    live(where, who[0] if who else "leader")
