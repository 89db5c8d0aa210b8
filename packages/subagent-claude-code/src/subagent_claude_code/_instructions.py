"""The CLAUDE.md of a project, read by us: the engine reads it only together with the project's settings.

Those name hooks and servers, which would be started. So its text goes into the system prompt, beside the instructions
of the task. From the root of the repository down to the working folder, `CLAUDE.md` and `.claude/CLAUDE.md` in each, at
most 64 KiB in all. Otherwise than with the engine `@path` in it is not followed, and neither is a link that leads out
of the project: either could name any file of the person.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from anyio import to_thread

_NAMES: Final = ("CLAUDE.md", ".claude/CLAUDE.md")
_MOST: Final = 64 * 1024  # bytes


async def project_instructions(cwd: str) -> str:
    """What the model is told, empty where there is nothing; in a worker thread: a slow disk holds up nobody."""
    text = await to_thread.run_sync(_read, Path(cwd), abandon_on_cancel=True)
    return f"# Instructions of the project in {cwd}\n\n{text}" if text else ""


def _read(cwd: Path) -> str:
    above = [cwd, *cwd.parents]
    root = next((folder for folder in above if (folder / ".git").exists()), cwd)
    texts: list[str] = []
    left = _MOST
    for folder in reversed(above[: above.index(root) + 1]):
        for name in _NAMES:
            data = _file(folder / name, root, left)
            left -= len(data)
            if text := data.decode("utf-8", "replace").strip():
                texts.append(text)
    return "\n\n".join(texts)


def _file(path: Path, root: Path, most: int) -> bytes:
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(root.resolve()):
            return b""
        with open(real, "rb", opener=_without_waiting) as file:
            return file.read(most) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except (OSError, RuntimeError):
        return b""


def _without_waiting(path: str, flags: int) -> int:
    """A FIFO would not open before somebody writes to it."""
    return os.open(path, flags | os.O_NONBLOCK)
