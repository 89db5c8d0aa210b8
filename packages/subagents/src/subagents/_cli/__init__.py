"""The command `subagents`.

Importing this package needs nothing of the extra `[cli]`; `main` imports typer and rich, and says what to install
where they are missing.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from subagents._cli.signals import EXIT_INTERRUPTED, INTERRUPTS

__all__ = ["main"]


def main() -> int:
    """Run the command with the arguments of this process; returns its exit code, and raises nothing.

    Interrupted, it does not return: the process ends here, so that nothing can hold that up.
    """
    with INTERRUPTS:
        try:
            code = _run()
        except KeyboardInterrupt:
            code = EXIT_INTERRUPTED
        if INTERRUPTS.caught:
            INTERRUPTS.leave(code)
        return code


def _run() -> int:
    if missing := [name for name in ("typer", "rich") if find_spec(name) is None]:
        print(  # noqa: T201  # rich is what is missing
            f"error: the command needs {' and '.join(missing)}; install it with: pip install 'subagents[cli]'",
            file=sys.stderr,
        )
        return 2
    from subagents._cli.app import run_app

    return run_app()
