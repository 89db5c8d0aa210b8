"""The keeper: owns one tree.  Reads the request from ctl, starts the leader, and ends when nothing of the tree lives.

It watches four things at once: ctl (orders; end of file = the harness let go or died), the pipe from the warden (end
of file = the warden died or is stopping), the harness's pidfd (a forked sibling of the harness may hold a copy of ctl
for ever) and its own signals.  Traps kept in mind: the leader is reaped *last*, so that its pid and its group's
number stay ours while we signal; TERM is followed by CONT, or a stopped tree would not hear it; only ECHILD proves
that nobody is left.
"""

from __future__ import annotations

import fcntl
import os
import time

from . import folder, marker, namespace, protocol
from .kernel import PEEKS, become_subreaper, close_others, gaps, limit_files, poller, quiet, signal, tell, wakeup
from .processes import children, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

KILL, STOP, CONTINUE = signal.SIGKILL, signal.SIGTERM, signal.SIGCONT
POLITE = (STOP, CONTINUE)
LONGEST_GRACE = 20.0  # s; the warden that is stopping waits 30 s for its keepers
SWEEP = 5.0  # s; beyond it the tree holds what cannot be killed (uninterruptible sleep, another user's process)
DEFAULT_PATH = os.defpath.encode()
DEFAULTS = [int(number) for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]


def candidates(program: bytes, env: dict[bytes, bytes]) -> list[bytes]:
    """The files that a program's name may mean, in order, by the child's own PATH; an empty entry is the cwd."""
    if b"/" in program:
        return [program]
    return [os.path.join(entry or b".", program) for entry in env.get(b"PATH", DEFAULT_PATH).split(b":")]


def start(request: protocol.Request, stdio: Sequence[int]) -> tuple[int, bytes]:
    """The leader's pid and nothing, or 0 and ``b"ERRNO STAGE"``.

    posix_spawn and not fork: the speed of vfork, errors as exceptions, and no moment between fork and exec in which
    our signal handlers would run in the child.
    """
    stage = b"cwd"
    try:
        os.chdir(request.cwd)
        stage = b"exec"
        if request.umask >= 0:
            os.umask(request.umask)
        limit_files(request.files)  # the one that the harness has now; ours was raised (``guard``)
        return _spawn(candidates(request.argv[0], request.env), request, stdio), b""
    except OSError as error:
        return 0, b"%d %s" % (error.errno or 0, stage)
    finally:
        os.chdir("/")  # a supervisor that stood in the cwd would keep its file system busy


def _spawn(files: list[bytes], request: protocol.Request, stdio: Sequence[int]) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(stdio)]
    refusal: OSError = FileNotFoundError(2, "")
    for file in files:
        try:
            return os.posix_spawn(
                file,
                request.argv,
                request.env,
                file_actions=actions,
                setsid=not request.contained,  # its namespace's first process leads one already
                setsigmask=(),
                setsigdef=DEFAULTS,
            )
        except (FileNotFoundError, NotADirectoryError) as error:
            if len(files) == 1:
                refusal = error
        except OSError as error:  # remembered, as a shell does: a later entry of PATH may still have it
            refusal = error
    raise refusal


def decide(
    orders: bytes, letting_go: bool, kill_at: float | None, now: float, grace: float
) -> tuple[tuple[int, ...], float | None]:
    """Signals for the leader's group now, and the moment of SIGKILL if one is set (repeated every second)."""
    signals: tuple[int, ...] = ()
    if protocol.TERM in orders:
        signals += POLITE
    if protocol.KILL in orders:
        kill_at = now
    if letting_go and kill_at is None:
        signals += POLITE
        kill_at = now + min(grace, LONGEST_GRACE)
    if kill_at is not None and now >= kill_at:
        signals += (KILL,)
        kill_at = now + 1
    return signals, kill_at


def exited(leader: int) -> int | None:
    """The leader's exit (-N = signal N) once it is a zombie, which it stays; reaps everybody else that has ended.

    Where that cannot be seen (``PEEKS``) it is reaped too, and its number is ours only as long as its group lives.
    """
    while not PEEKS:
        pid, status = quiet(os.waitpid, -1, os.WNOHANG) or (0, 0)
        if pid in (0, leader):
            return os.waitstatus_to_exitcode(status) if pid else None
    while True:
        info = quiet(os.waitid, os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if info is None:
            return None
        if info.si_pid == leader:
            return info.si_status if info.si_code == os.CLD_EXITED else -info.si_status
        os.waitpid(info.si_pid, 0)


def reaped(pid: int) -> bool:
    """Whether this child had ended by itself; it is gone then."""
    return quiet(os.waitpid, pid, os.WNOHANG) != (0, 0)


def strike(group: int) -> bool:
    """Kill a process group; False when it is gone."""
    try:
        os.killpg(group, KILL)
    except OSError:  # on macOS also when only zombies are left in it
        return False
    return True


def sweep(leader: int, waker: int, deadline: float, mark: bytes) -> tuple[int, list[int]]:
    """Kill every descendant, reap the leader last: how many were killed, and who is left (nobody: ECHILD said so).

    Converges although they may go on forking: every orphan re-parents to us, and each round kills all that are ours.
    With a mark nobody does, and the walks decide.
    """
    seen: set[int] = set()
    # A leader that is no zombie any more leaves a number that may become somebody else's: never after a refusal.
    poll, pause, held, group, looks = poller((waker,)), 1, PEEKS, True, 0
    while True:
        rest = [pid for pid in children() or () if not (held and pid == leader) and not reaped(pid)]
        seen.update(rest)
        group = group and strike(leader)
        for pid in rest:
            quiet(os.kill, pid, KILL)
        looks = 0 if rest or (mark and marker.strike(mark)) else looks + 1
        if looks >= (marker.EMPTY_LOOKS if mark else 1):
            if held:
                quiet(os.waitpid, leader, 0)
                held = group = False
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return len(seen), []
        if time.monotonic() > deadline:  # what no signal ends: uninterruptible sleep, another user's process
            return len(seen), rest
        if poll.poll(pause):
            quiet(os.read, waker, 512)
        else:
            pause = min(2 * pause, 50)


def hold(home: bytes) -> bool:
    """Share the lock of a throwaway home, so that no janitor takes it from a tree whose harness has died.

    The descriptor is left open on purpose: the lock lives as long as this process.
    """
    if not home:
        return True
    try:
        fcntl.flock(
            os.open(os.path.join(home, b".owner"), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW),
            fcntl.LOCK_SH | fcntl.LOCK_NB,
        )
    except OSError:
        return False
    return True


class Keeper:
    """One run, from four descriptors to the last report.  Every way out is ``os._exit``: this is a fork."""

    def __init__(
        self, ctl: int, stdio: Sequence[int], waker: int, owners: Sequence[int], asked: list[int], mark: bytes
    ) -> None:
        """``owners``: the pipe from the warden and, if there is one, the harness's pidfd; ``mark``: see ``marker``.

        ``asked`` is filled by the signal handler: this process was told to stop.
        """
        self.ctl, self.stdio, self.waker, self.asked, self.mark = ctl, stdio, waker, asked, mark
        self.watches = len(owners) > 1
        self.adopts = False
        self.poll = poller((waker, ctl, *owners))

    def listen(self, timeout: float | None) -> tuple[bytes, bool]:
        """Wait for something to happen: what came over ctl, and whether somebody we depend on is gone."""
        data, gone = b"", False
        for fd, _ in self.poll.poll(None if timeout is None else max(0, int(timeout * 1000) + 1)):
            if fd == self.waker:
                quiet(os.read, self.waker, 512)
            elif fd == self.ctl and (part := quiet(os.read, self.ctl, 1 << 20)):
                data += part
            else:
                self.poll.unregister(fd)
                gone = True
        return data, gone or bool(self.asked)

    def request(self) -> tuple[protocol.Request, bytes]:
        """The request and the orders behind it.  Nothing runs yet, so that the end of anybody is a plain exit."""
        data = bytearray()
        while (complete := protocol.Request.decode(bytes(data))) is None:
            part, gone = self.listen(None)
            if gone:
                os._exit(0)
            data += part
        return complete

    def run(self) -> None:
        """Start the leader and stay until its tree is gone."""
        request, orders = self.request()
        tell(self.ctl, b"B %d %d\n" % (self.adopts, self.watches))
        if self.mark:
            request.env[marker.VARIABLE] = self.mark
        inside = -1
        if not hold(request.home):
            leader, refusal = 0, b"0 home"
        elif request.contained:
            leader, refusal, inside = namespace.start(request, self.stdio, start)
        else:
            leader, refusal = start(request, self.stdio)
        for fd in self.stdio:
            os.close(fd)  # or the child's readers would never see the end of its pipes
        tell(self.ctl, b"E %s\n" % refusal if refusal else b"S %d\n" % leader)
        if refusal:
            tell(self.ctl, b"D 1 0\n")
            os._exit(0)
        code = self.watch(leader, orders, request.grace)
        tell(self.ctl, b"X %d\n" % (namespace.exit_code(inside) if request.contained else code))
        killed, left = sweep(leader, self.waker, time.monotonic() + SWEEP, self.mark)
        for pid in left:
            tell(self.ctl, b"A %d %s\n" % (pid, name_of(pid)))
        tell(self.ctl, b"D %d %d\n" % (not left and self.adopts, killed))
        if request.home and not left:
            tell(self.ctl, b"H %d\n" % folder.remove(request.home, request.device, request.inode, patience=2.0))
        os._exit(1 if left else 0)

    def watch(self, leader: int, orders: bytes, grace: float) -> int:
        """Obey until the leader has ended; its exit."""
        kill_at: float | None = None
        letting_go = False
        while True:
            signals, kill_at = decide(orders, letting_go, kill_at, time.monotonic(), grace)
            for number in signals:
                quiet(os.kill, leader, number)
                quiet(os.killpg, leader, number)
            if (code := exited(leader)) is not None:
                return code
            orders, gone = self.listen(None if kill_at is None else kill_at - time.monotonic())
            letting_go = letting_go or gone


def keep(ctl: int, stdio: Sequence[int], warden: int, pidfds: Sequence[int], asked: list[int], mark: bytes) -> None:
    """Never returns; anything unforeseen ends the process, and the warden sweeps what it leaves."""
    try:
        asked.clear()
        waker, writer = wakeup()
        close_others({ctl, *stdio, warden, *pidfds, waker, writer})
        keeper = Keeper(ctl, stdio, waker, (warden, *pidfds), asked, mark)
        keeper.adopts = become_subreaper(b"keeper")
        keeper.run()
    finally:
        os._exit(126)  # pragma: no cover - a fault of ours


def rehearse() -> None:
    """Go, in the warden, through what every keeper does up to the start of its leader, which here is refused.

    The interpreter writes a lot the first time that it does something: what it has written before the fork is shared
    by all keepers (0.13 of their 1.05 MB each).
    """
    ctl, harness = os.pipe()
    waker, writer = os.pipe()
    request = protocol.Request([b"-"], {b"A": b""}, os.devnull.encode(), umask=-1, files=0, grace=1)
    os.write(harness, request.encode())
    keeper = Keeper(ctl, (), waker, (), [], b"")
    received, orders = keeper.request()
    hold(received.home)
    start(received, ())
    decide(orders, False, None, time.monotonic(), received.grace)
    exited(0)
    gaps({ctl, waker}, harness)
    for fd in (ctl, harness, waker, writer):
        os.close(fd)
