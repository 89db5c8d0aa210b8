"""What can go wrong before a model answers.

    LocalError (SubagentError)
    ├── UnknownModel        no such name in the table, and no such file either
    ├── BadModelFile        a path that is not a readable GGUF file
    ├── ServerUnusable      no model server that can be used where the options say that there is one
    └── PullError           a model did not arrive in the cache
        ├── CacheUnusable   the folder of the cache cannot be made, read or written
        ├── DiskFull        there is not enough room for it
        └── SourcesFailed   every source was tried; each is named with its reason

A run never raises these: `Local` folds them into the `Failure` of its `StartError`. They reach callers of `pull`,
`find_model` and `Local.models`. No message holds the credentials of an index or the key of a server: addresses are
shown without user, password and query.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from subagents import SubagentError


class LocalError(SubagentError):
    """Base of everything that this package raises itself."""


class UnknownModel(LocalError):
    """The name is neither in the table of models nor a path to a file."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        """Name what was asked for and what there is."""
        self.name = name
        super().__init__(
            f"there is no model named {name!r}: use one of {', '.join(known)}, or a path to a .gguf file of your own"
        )


class BadModelFile(LocalError):
    """The path does not lead to a regular, readable file that starts like a GGUF file."""

    def __init__(self, path: Path, reason: str) -> None:
        """Name the file and what is wrong with it."""
        self.path = path
        super().__init__(f"{path} cannot be used as a model: {reason}")


class ServerUnusable(LocalError):
    """Where the options say that there is a model server, none answers, or not in a way that helps."""


class PullError(LocalError):
    """The model is not in the cache, and could not be brought there."""


class CacheUnusable(PullError):
    """The cache cannot be used where it is."""

    def __init__(self, folder: Path | str, reason: object) -> None:
        """Name the folder and what is wrong with it."""
        self.folder = folder
        super().__init__(
            f"the cache of models cannot be used: {folder}: {reason}. "
            "Set SUBAGENTS_CACHE to a folder that can be written"
        )


class DiskFull(PullError):
    """There is less free room under the cache than the model still needs."""

    def __init__(self, folder: Path, needed: int | None) -> None:
        """Name the folder, and the bytes that are missing where they are known."""
        self.folder = folder
        self.needed = needed
        amount = f"{needed / 1e6:,.0f} MB more are needed" if needed is not None else "the disk is full"
        super().__init__(
            f"not enough room under {folder}: {amount}. Free some, or set SUBAGENTS_CACHE to a folder on another disk"
        )


class SourcesFailed(PullError):
    """No source could give the model.

    Attributes:
        model: its name.
        failures: (source, reason) in the order in which they were tried.
        network: at least one of them could not be reached, or was in trouble itself: another try may do better.
    """

    def __init__(self, model: str, failures: Iterable[tuple[str, str]], *, network: bool = False) -> None:
        """Name the model, every source and its reason."""
        self.model = model
        self.failures = tuple(failures)
        self.network = network
        tried = "; ".join(f"{source}: {reason}" for source, reason in self.failures)
        super().__init__(
            f"could not pull {model}: {tried}. What has arrived is kept and continued by the next try; "
            "a path to a .gguf file of your own works in place of the name"
        )
