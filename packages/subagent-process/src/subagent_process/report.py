"""How long each rung of the shutdown may take, and what came of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

__all__ = ["Ladder", "ShutdownReport"]


@dataclass(frozen=True)
class Ladder:
    """Graces of the shutdown, in seconds: finite, and at least 0.

    Attributes:
        eof: from the end of the child's stdin to SIGTERM (with SIGCONT, so that a stopped tree hears it).
        term: from SIGTERM to SIGKILL; also what the supervisor allows when the harness is gone (at most 20 s there).
        kill: from SIGKILL to giving up and reporting ``"leaked"``; after half of it the warden is told to do the work
            of a keeper that does not answer.
    """

    eof: float = 2.0
    term: float = 2.0
    kill: float = 8.0

    def __post_init__(self) -> None:
        """Refuse what would wait for ever, or makes no sense."""
        for field in fields(self):
            value: float = getattr(self, field.name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(
                    f"Ladder.{field.name} is {value!r}: a grace is a finite number of seconds, at least 0."
                )


@dataclass(frozen=True)
class ShutdownReport:
    """What it took to end a child, and what is known about the result.

    Attributes:
        steps: the rungs used, in order, of ``"eof"``, ``"term"``, ``"kill"``, ``"warden"`` (the child's keeper did not
            answer and was killed), ``"leaked"``; empty if the child had ended by itself, or was released at once.
        exit: the leader's exit status; ``-N`` when signal N ended it; None when it is not known.
        clean: True: the kernel said that nothing of the tree lives (ECHILD); False: something may; None: nobody could
            tell.
        killed: how many stragglers were alive when the leader had ended, and were killed.
        survivors: ``"NAME (PID)"`` of those that even SIGKILL did not end (uninterruptible sleep, another user's),
            as far as they are known.
        lost: the keeper of this child was killed; ``exit`` is then unknown.
        home_removed: whether the throwaway home handed over is gone; None when there was none, or nobody could tell.
        duration: seconds that the shutdown took.
        missing: promises that this platform cannot keep; on Linux none, on macOS both (written for macOS, never run on
            one).  ``"daemons"``: no child-subreaper, so that what leaves the group and re-parents away is found only
            by a variable (``SUBAGENT_TREE``) that the child gets beside ``env``: a daemon that clears its environment
            survives, on macOS also one of the programs whose environment the system withholds (those of Apple that
            System Integrity Protection shields, such as ``/bin/sh`` and ``/bin/sleep``), and ``clean`` is never True.
            ``"forked-harness"``: no pidfd, so that a fork of a killed harness that holds its descriptors delays the
            end, and with it the tree's, until it ends itself.
    """

    steps: tuple[str, ...] = ()
    exit: int | None = None
    clean: bool | None = None
    killed: int = 0
    survivors: tuple[str, ...] = ()
    lost: bool = False
    home_removed: bool | None = None
    duration: float = 0.0
    missing: tuple[str, ...] = ()
