"""What this package raises.

    SubagentError
    ├── TaskError (ValueError)          the Task cannot be right: nothing was started
    │   └── Unsupported                 the provider cannot do what was asked
    ├── StartError                      the child never accepted the work; `.failure` says why
    ├── RunFailed                       from `Result.raise_for_failure()`; `.result` holds the whole result
    ├── RunEnded                        `Run.send` after the verdict
    ├── Busy                            a full Runtime was asked not to wait
    ├── RegistryError (LookupError)
    │   ├── UnknownProvider             nobody offers that name
    │   ├── Unavailable                 it is offered and cannot be loaded
    │   └── DuplicateProvider           two offer the same name
    └── ConfigError (ValueError)        a configuration file or option is wrong

What a child did is never raised by `Run.result()`: it is the `failure` of a `Result`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subagents._result import Failure, Result


class SubagentError(Exception):
    """The root of what this package raises."""


class TaskError(SubagentError, ValueError):
    """The Task cannot be right (a folder that does not exist, a schema that is none); nothing was started."""


class Unsupported(TaskError):
    """The provider does not do what was asked; nothing was started."""


class StartError(SubagentError):
    """The child never accepted the work.  Nothing of it is left when this is raised.

    A backend raises it inside `drive` with the `Failure` that it knows.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.kind} during {failure.stage}: {failure.message}")
        self.failure = failure


class RunFailed(SubagentError):
    """A result that is not `ok`, raised by `Result.raise_for_failure()`."""

    def __init__(self, result: Result) -> None:
        failure = result.failure
        super().__init__(f"{failure.kind}: {failure.message}" if failure else f"the run ended as {result.stop_reason}")
        self.result = result


class RunEnded(SubagentError):
    """The run has its verdict: nothing more can be sent to it."""


class Busy(SubagentError):
    """The Runtime has no free slot and was asked not to wait (`wait=False`)."""


class RegistryError(SubagentError, LookupError):
    """A provider could not be found or loaded by its name."""

    def __str__(self) -> str:  # LookupError's relatives quote their argument
        return str(self.args[0]) if self.args else ""


class UnknownProvider(RegistryError):
    """No installed distribution offers a provider of that name; the message says what to install."""


class Unavailable(RegistryError):
    """The name is offered, and the provider behind it cannot be loaded; the message holds the reason."""


class DuplicateProvider(RegistryError):
    """Two providers claim one name; the message names both."""


class ConfigError(SubagentError, ValueError):
    """A configuration file or an option is wrong; the message names the file and the key."""
