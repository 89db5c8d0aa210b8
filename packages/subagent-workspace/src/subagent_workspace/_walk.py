"""A folder without git: what it holds, found by reading it within a budget.

Breadth first, so that what lies deepest is left out first.  Links are known by their target and not followed, mount
points and ``.git`` folders not entered.  Synchronous: for a worker thread.
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ._fingerprint import Budget, State, fingerprints, open_folder

__all__ = ["Walked", "walk"]

FILES: Final = 20_000  # and folders, in one look


@dataclass(slots=True)
class Walked:
    """What was found.

    Attributes:
        states: of each file, by path from the folder.
        unlisted: folders that are there and were not looked into, with the reason.
    """

    states: dict[str, State] = field(default_factory=dict[str, State])
    unlisted: dict[str, str] = field(default_factory=dict[str, str])

    def knows(self, path: str) -> bool:
        """Whether a file of this path would have been found."""
        parts = path.split("/")
        return not any("/".join(parts[:depth]) in self.unlisted for depth in range(len(parts)))


def walk(root: str, budget: Budget) -> Walked:
    """What lies in a folder.

    Args:
        root: absolute, without links.
        budget: what may be read, and for how long.
    """
    found, files = Walked(), FILES
    device: int | None = None
    waiting = deque([""])
    while waiting:
        path = waiting.popleft()
        if budget.late or files <= 0:
            found.unlisted[path] = "the budget was used up"
            continue
        try:
            if (number := open_folder(root, path)) < 0:
                continue
            try:
                here = os.fstat(number).st_dev
                device = here if device is None else device
                if here != device:
                    found.unlisted[path] = "another file system"
                    continue
                with os.scandir(number) as entries:
                    names = {entry.name: entry.is_dir(follow_symlinks=False) for entry in islice(entries, files + 1)}
            finally:
                os.close(number)
        except OSError as error:
            found.unlisted[path] = os.strerror(error.errno or 0)
            continue
        if len(names) > files:
            found.unlisted[path] = "it holds more than is looked at"
            continue
        files -= len(names)
        inside = {name: f"{path}/{name}" if path else name for name in sorted(names)}
        for name, whole in inside.items():
            if names[name] and name == ".git":
                found.unlisted[whole] = "git's own"
            elif names[name]:
                waiting.append(whole)
        found.states |= fingerprints(root, [inside[name] for name in inside if not names[name]], budget)
    return found
