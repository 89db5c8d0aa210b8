"""How a command ends: its exit code, and a line for what went wrong.  Never a traceback.

0 completed · 1 error · 2 usage · 3 limit · 4 refusal · 5 max-tokens · 130 aborted · 141 nobody reads standard output
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from subagent_process import redact
from subagents import ConfigError, RegistryError, Result, SubagentError, TaskError
from subagents._cli.signals import EXIT_INTERRUPTED, INTERRUPTS
from subagents._cli.streams import OutputLost, say_error
from subagents._verdict import leaves

_USAGE: Final = 2
_LIMIT: Final = 3
_PIPE: Final = 141
_CODES: Final[Mapping[str, int]] = {
    "completed": 0,
    "error": 1,
    "refusal": 4,
    "max-tokens": 5,
    "aborted": EXIT_INTERRUPTED,
}
_log = logging.getLogger("subagents.command")


class UsageProblem(Exception):
    """What was typed cannot be right; the message says what to type instead."""


class CommandFailed(Exception):
    """The command could not do its work; the message says why."""


class Ending:
    """The exit code as it stands."""

    code = 0


def exit_code(result: Result) -> int:
    """The exit code for a result."""
    if result.failure is not None and result.failure.kind == "limit":
        return _LIMIT
    return _CODES[result.stop_reason]


@contextmanager
def ending() -> Generator[Ending]:
    """Whatever is raised inside becomes a line on standard error and the exit code."""
    end = Ending()
    try:
        yield end
    except KeyboardInterrupt:
        end.code = EXIT_INTERRUPTED
    except (UsageProblem, TaskError, RegistryError, ConfigError) as exc:
        say_error(str(exc))
        end.code = _USAGE
    except Exception as exc:  # noqa: BLE001  # the last line of defence: a traceback is for those who ask for it
        end.code = _failed(leaves(exc)[0])


def _failed(exc: BaseException) -> int:
    if isinstance(exc, OutputLost) and INTERRUPTS.caught:
        return EXIT_INTERRUPTED  # a terminal that is closed sends SIGHUP, and cannot be written
    if isinstance(exc, OutputLost) and exc.closed:
        return _PIPE
    if isinstance(exc, OutputLost | CommandFailed | SubagentError):
        say_error(redact(str(exc)))
    else:
        _log.debug("%s", redact("".join(traceback.format_exception(exc))))
        hint = "Please report it, with what `subagents --debug …` shows."
        say_error(redact(f"unexpected {type(exc).__name__}: {exc}"), hint)
    return 1
