"""The program of a family: one leader, and relatives that a careless supervisor loses.

    python -I -S _relative.py SOCKET leader[:TRAIT,…] NAME[:TRAIT,…] …

Standard library only, and only what starts quickly: a family is eight interpreters.  Each member connects to SOCKET,
says `NAME PID`, and obeys lines: `ping N` is answered with `pong N`, `exit CODE` ends it, `stop` stops it (SIGSTOP
to itself).  The end of the socket ends it too, so that nothing outlives the test run.

Traits, in the order in which they are applied: `group` a process group of its own; `session` a session of its own;
`orphan` forked twice, so that init or a subreaper adopts it; `quiet` standard streams on the null device (otherwise it
holds the leader's pipes open); `bare` an empty environment; `deaf` ignores SIGTERM, SIGINT and SIGHUP; `hops` every
millisecond in a fresh process and session, the old one gone.
"""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_family.py)

from __future__ import annotations

import os
import select
import signal
import socket
import sys

HOP = 0.001  # s
DEAF_TO = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def start(path: str, member: str) -> None:
    """Fork a relative and make it what its traits say; returns in the leader only."""
    _, traits = parse(member)
    child = os.fork()
    if child:
        if "orphan" in traits:  # the one between exits at once
            os.waitpid(child, 0)
        return
    if "group" in traits:
        os.setpgid(0, 0)
    if "session" in traits:
        os.setsid()
    if "orphan" in traits and os.fork():
        os._exit(0)
    if "quiet" in traits:
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
    # A real exec, so that /proc/PID/environ and the command line are what a scan of processes would see.
    argv = [sys.executable, "-I", "-S", os.path.abspath(__file__), path, f"={member}"]
    os.execve(sys.executable, argv, {} if "bare" in traits else dict(os.environ))


def parse(member: str) -> tuple[str, list[str]]:
    """Name and traits of `NAME:TRAIT,TRAIT`."""
    name, _, traits = member.partition(":")
    return name, traits.split(",")


def live(path: str, member: str) -> None:
    """Connect, say who we are, and obey until the socket ends."""
    name, traits = parse(member)
    if "deaf" in traits:
        for number in DEAF_TO:
            signal.signal(number, signal.SIG_IGN)
    line = socket.socket(socket.AF_UNIX)
    line.connect(path)
    line.sendall(f"{name} {os.getpid()}\n".encode())
    while True:
        if "hops" in traits and not select.select([line], [], [], HOP)[0]:
            if os.fork():
                os._exit(0)
            os.setsid()
            continue
        heard = line.recv(64)
        if not heard:
            os._exit(0)
        for order in heard.splitlines():
            obey(line, *order.split())


def obey(line: socket.socket, order: bytes, number: bytes = b"") -> None:
    """Do what the test says."""
    if order == b"exit":
        os._exit(int(number))
    if order == b"stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        line.sendall(b"pong %s\n" % number)


def main() -> None:
    """Start the relatives, then live as the leader; or live as the one that `=` names."""
    path, first, *others = sys.argv[1:]
    if first.startswith("="):
        live(path, first[1:])
    for member in others:
        start(path, member)
    live(path, first)


main()
