"""Deliberate faults in our own code: each must lose the relatives that it is known to lose, or its test is blind.

The supervisors' are source text that runs in the guard before anything else; the harness's are functions.  Each fails
loudly when what it breaks is no longer there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from socket import socket

from subagent_process import _control as control  # pyright: ignore[reportPrivateUsage]
from subagent_process import _launcher as launcher  # pyright: ignore[reportPrivateUsage]

SUPERVISORS = {
    # It says that it adopts, and does not.
    "no subreaper": """
from _supervisor import kernel
prctl = kernel._prctl
kernel._prctl = lambda option, *rest: 0 if option == kernel._SUBREAPER else prctl(option, *rest)
""",
    # The keeper hears orders and signals, but neither the end of ctl nor of the harness.
    "no control channel and no pidfd": """
from _supervisor.keeper import Keeper
listen = Keeper.listen
Keeper.listen = lambda self, timeout: (listen(self, timeout)[0], False)
""",
    "no guard": """
import os
from _supervisor import guard
guard.guard
guard.guard = lambda warden, mark: (os.waitpid(warden, 0), os._exit(0))
""",
    "warden does not sweep": """
from _supervisor.warden import Warden
Warden.sweep
Warden.sweep = lambda self: setattr(self, "pause", None)
""",
    "killpg only": """
import os
from _supervisor import keeper
keeper.sweep
keeper.sweep = lambda leader, *_: (os.killpg(leader, 9), os.waitpid(leader, 0), (0, []))[2]
""",
    "no new session": """
import os
spawn = os.posix_spawn
os.posix_spawn = lambda *words, setsid, **options: spawn(*words, **options)
""",
    "no resumption": """
import os
os.WUNTRACED = 0
""",
}


def _close_only() -> None:
    def shutdown(sock: socket, owner: int) -> None:
        """Leave it to close(), which a fork's copy makes void."""

    assert control._shutdown  # pyright: ignore[reportPrivateUsage]
    control._shutdown = shutdown  # pyright: ignore[reportPrivateUsage]


def _untied() -> None:
    async def tie(sock: socket, owner: int) -> AsyncGenerator[None, None]:
        yield

    assert control._tie  # pyright: ignore[reportPrivateUsage]
    control._tie = tie  # pyright: ignore[reportPrivateUsage]


def _no_adoption() -> None:
    launcher.adopting = False


def _macintosh() -> None:
    """The supervisors are to find themselves on macOS too; `macintosh.py` has started this harness there."""
    begin, text = "from _supervisor.guard import main", launcher._BOOT  # pyright: ignore[reportPrivateUsage]
    where = str(Path(__file__).parent)
    pretend = f"sys.path.append({where!r})\nimport macintosh\nmacintosh.pretend(sys.argv[1] + '/_supervisor')\n"
    assert begin in text
    launcher._BOOT = text.replace(begin, pretend + begin)  # pyright: ignore[reportPrivateUsage]


HARNESS: dict[str, Callable[[], None]] = {
    "close instead of shutdown": _close_only,
    "no tie to the loop": _untied,
    # No faults: the mode for systems without child-subreapers, and what macOS lacks besides.
    "no adoption": _no_adoption,
    "macintosh": _macintosh,
}


def booted(text: str, fault: str) -> str:
    """A boot text of the supervisors with a fault in it."""
    before, main, after = text.rpartition("main(int(")
    assert main
    return before + fault + main + after


def apply(name: str) -> None:
    if name in SUPERVISORS:
        launcher._BOOT = booted(launcher._BOOT, SUPERVISORS[name])  # pyright: ignore[reportPrivateUsage]
    elif name:
        HARNESS[name]()
