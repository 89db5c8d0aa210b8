"""What harness and supervisors say to each other: plain text on sockets that never block.

::

    harness -> warden   "r" NUMBER and the four descriptors {ctl, stdin, stdout, stderr} of a run: take it
                        "k" NUMBER  kill the keeper of that run, which does not answer, and sweep
                        NUMBER: 8 hexadecimal digits.  All messages have one length, so that reads never mix them.
    harness -> keeper   the request (Request.encode), then orders:
                        T = TERM + CONT    K = KILL    end of file = TERM + CONT, grace, KILL
    keeper  -> harness  B 1|0 1|0  the request is complete; orphans come to the keeper; it watches the harness by pidfd.
                                   Without this line nothing was started: the harness may safely try again
                        S pid      started      E errno cwd|exec|home|pid-namespace   not started
                        X code     the leader has ended; -N = signal N
                        A pid name of the tree and still alive after every effort
                        D 1|0 n    1: ECHILD proved that nothing of the tree lives; n stragglers were killed
                        H 1|0      the throwaway home was removed
    warden  -> harness  R 0        refused for now: no process or descriptor left
                        L 1|0      the keeper was killed and the warden has swept; 1: proved
    end of file without D or L     keeper and warden are both dead: the guard's exit status 0 is the proof
"""

from __future__ import annotations

HANDOVER, ABANDON = b"r", b"k"
MESSAGE = 9  # bytes to the warden
TERM, KILL = b"T", b"K"


def message(kind: bytes, number: int) -> bytes:
    """What the warden is sent about a run."""
    return kind + b"%08x" % (number % (1 << 32))


class Request:
    """What a keeper needs to start and end one tree.  Bytes throughout: arguments and environments are bytes."""

    __slots__ = ("argv", "contained", "cwd", "device", "env", "files", "grace", "home", "inode", "umask")

    def __init__(
        self,
        argv: list[bytes],
        env: dict[bytes, bytes],
        cwd: bytes,
        *,
        umask: int,
        files: int,
        grace: float,
        home: bytes = b"",
        device: int = 0,
        inode: int = 0,
        contained: bool = False,
    ) -> None:
        """``files`` is the soft RLIMIT_NOFILE, ``grace`` in seconds; device and inode say which folder home is.

        ``contained``: in a PID namespace of its own.
        """
        self.argv, self.env, self.cwd = argv, env, cwd
        self.umask, self.files, self.grace = umask, files, grace
        self.home, self.device, self.inode = home, device, inode
        self.contained = contained

    def encode(self) -> bytes:
        r"""The bytes for the keeper.

        ``b"SIZE ARGC ENVC GRACE_MS UMASK FILES DEVICE INODE CONTAINED\n"``, then SIZE bytes: arguments,
        NAME=VALUE pairs, cwd and home, joined by NUL.
        """
        pairs = [name + b"=" + value for name, value in self.env.items()]
        body = b"\0".join([*self.argv, *pairs, self.cwd, self.home])
        numbers = (
            len(body),
            len(self.argv),
            len(pairs),
            int(self.grace * 1000),
            self.umask,
            self.files,
            self.device,
            self.inode,
            self.contained,
        )
        return b" ".join(b"%d" % number for number in numbers) + b"\n" + body

    @classmethod
    def decode(cls, data: bytes) -> tuple[Request, bytes] | None:
        """A request and the orders that came behind it; None while it is incomplete."""
        head, found, rest = data.partition(b"\n")
        if not found:
            return None
        size, argc, envc, grace, umask, files, device, inode, contained = map(int, head.split())
        if len(rest) < size:
            return None
        items = rest[:size].split(b"\0")
        env: dict[bytes, bytes] = {}
        for pair in items[argc : argc + envc]:
            name, _, value = pair.partition(b"=")
            env[name] = value
        cwd, home = items[argc + envc :]
        request = cls(items[:argc], env, cwd, umask=umask, files=files, grace=grace / 1000)
        request.home, request.device, request.inode, request.contained = home, device, inode, contained == 1
        return request, rest[size:]
