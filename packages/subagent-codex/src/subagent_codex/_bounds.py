"""What the configuration gives a task by itself, so that `permission="allow"` grants this and no more.

Traps:

- Under `untrusted` the engine runs a command again without its sandbox when the sandbox stopped it, and does not ask:
  the first yes counts (observed on 0.163.0 in read-only too, for most commands that end at once). So no command is sure
  to stay inside there, and all are beyond. Under `on-request` it does not (observed).
- A file change that is accepted is written where its paths say, also where no command may write (observed). Through a
  link that leads there the engine does not write (observed); the paths are resolved here all the same, when the
  question is asked, so that nothing rests on that.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from subagent_codex.options import ApprovalPolicy, Sandbox
from subagent_process import JsonObject

if TYPE_CHECKING:
    from subagent_codex._turn import Turn

_PROTECTED: Final = frozenset({".git", ".agents", ".codex", ".aws"})
"""Folders that the sandbox keeps read-only below what it may write."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the configuration gives by itself.  What cannot be told is not given.

    Attributes:
        turn: what is known about the steps that are asked about.
        policy: when the engine asks.
        sandbox: what the engine runs commands in.
        roots: what it may write under workspace-write, absolute; the working folder first.
        closed: what in there it may not, absolute.
        network: commands may use the network.
    """

    turn: Turn
    policy: ApprovalPolicy
    sandbox: Sandbox
    roots: tuple[str, ...]
    closed: tuple[str, ...]
    network: bool

    @property
    def open(self) -> bool:
        """There is no sandbox."""
        return self.sandbox == "danger-full-access"

    def writes(self, paths: tuple[str, ...]) -> bool:
        """A command could write all of these by itself; False when there are none to look at."""
        if self.open:
            return True
        return self.sandbox == "workspace-write" and bool(paths) and all(map(self._writable, paths))

    def runs(self, item: str, params: JsonObject) -> bool:
        """A command does no more once it is approved than the sandbox lets it."""
        if self.open:
            return True
        return (
            self.policy != "untrusted"
            and not self.turn.escalates(item)
            and params.get("kind") in (None, "command")  # else it is input for a terminal, which may be outside
            and params.get("approvalId") is None  # else it is a part of a command, of which nothing is known
            and params.get("additionalPermissions") is None
            and (self.network or params.get("networkApprovalContext") is None)
        )

    def _writable(self, path: str) -> bool:
        try:
            real = os.path.realpath(os.path.join(self.roots[0], path))
        except (ValueError, IndexError):  # a null character in it; no roots
            return False
        if any(_below(real, closed) is not None for closed in self.closed):
            return False
        inside = (_below(real, root) for root in self.roots)
        return any(parts is not None and _PROTECTED.isdisjoint(parts) for parts in inside)


def _below(real: str, folder: str) -> list[str] | None:
    """The parts of a resolved path below a folder; None when it lies elsewhere."""
    parts = os.path.relpath(real, os.path.realpath(folder)).split(os.sep)
    return None if parts[0] == os.pardir else parts
