"""A program that holds a run of a real engine, and comes to a bad end.

python endings_program.py JSON      {"provider", "options", "permission", "cwd", "act", "fault"}
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import anyio

ORDER: dict[str, Any] = json.loads(sys.argv[1])
PACKAGE, _, CLASS = ORDER["provider"].partition(":")


async def main() -> None:
    provider = getattr(import_module(PACKAGE), CLASS)(**ORDER["options"])
    async with provider.start("x", cwd=ORDER["cwd"], permission=ORDER["permission"]) as run:
        print("entered", flush=True)
        await anyio.wait_readable(sys.stdin)  # in no thread: Ctrl-C would have to wait for it
        if ORDER["act"] == "sys-exit":
            sys.exit(3)
        if ORDER["act"] == "os-exit":
            os._exit(3)
        await run.closed()


def home_kept_to_ourselves() -> None:
    """A fault: nobody else is told which home to remove."""
    drive: Any = import_module(f"{PACKAGE}._drive")
    real = drive.open_process

    def open_process(*args: Any, home: object, **options: Any) -> Any:
        return real(*args, **options)

    drive.open_process = open_process


FAULTS: dict[str, Callable[[], None]] = {"home kept": home_kept_to_ourselves}

if __name__ == "__main__":
    if ORDER["fault"]:
        FAULTS[ORDER["fault"]]()
    anyio.run(main)
