"""Pairs of sockets that connect us to our supervisors, on Linux and on macOS."""

from __future__ import annotations

import socket
from contextlib import suppress

NO_SIGNAL: int = getattr(socket, "MSG_NOSIGNAL", 0)
"""For every ``send``: the harness may have SIGPIPE at its default, and a dead supervisor must not kill it."""
_SO_NOSIGPIPE = 0x1022  # <sys/socket.h> of macOS, which has that instead, once for the socket


def pair() -> tuple[socket.socket, socket.socket]:
    """Our end, which does not block, and a supervisor's."""
    near, far = socket.socketpair()
    near.setblocking(False)
    if not NO_SIGNAL:
        with suppress(OSError):  # Python ignores SIGPIPE: this is for harnesses that do not
            near.setsockopt(socket.SOL_SOCKET, _SO_NOSIGPIPE, 1)
    return near, far
