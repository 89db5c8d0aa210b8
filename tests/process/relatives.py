"""A fake agent that grows relatives, each of which holds a connection to the test.  Run with ``-I -S``.

usage: relatives.py SOCKET ROLE...

Roles: stubborn (same group, ignores SIGTERM), session (setsid), daemon (double fork, setsid, cleared environment), deaf
(the leader itself ignores SIGTERM; the end of its stdin it never looks at).

The kernel closes a connection when, and only when, its process is gone: the end of file in the test is proof of death.
A relative answers anything that it is sent: proof of life.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time


def live(path: str, role: str, *, ignoring: bool) -> None:
    if ignoring:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    connection.sendall(f"{role} {os.getpid()}\n".encode())
    while (said := connection.recv(64)) not in (b"", b"exit"):
        connection.sendall(said)
    os._exit(7 if said else 0)


def grow(path: str, role: str) -> None:
    if os.fork():
        return
    if role in ("session", "daemon"):
        os.setsid()
    if role == "daemon":
        if os.fork():
            os._exit(0)
        time.sleep(0.02)  # until the parent is gone, so that it starts as an orphan
        os.execve(sys.executable, [sys.executable, "-I", "-S", __file__, path, "=daemon"], {})
    live(path, role, ignoring=role == "stubborn")


def main() -> None:
    path, *roles = sys.argv[1:]
    if roles == ["=daemon"]:
        live(path, "daemon", ignoring=False)
    for role in roles:
        if role != "deaf":
            grow(path, role)
    live(path, "leader", ignoring="deaf" in roles)


main()
