"""The AGENTS.md of a project, read by us: the engine reads it only in a folder that it trusts.

There it also starts what the project's `.codex/config.toml` names (observed, 0.163.0: `project_doc_max_bytes` makes no
difference in a folder that is not trusted).  So it goes into the input of the turn, before the prompt, in the words in
which the engine gives it to the model.  As with the engine: from the root of the repository down to the working folder,
`AGENTS.override.md` before `AGENTS.md`, 32 KiB in all.  Otherwise than with it, a link that leads out of the project is
not followed: it could name any file of the person.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from anyio import to_thread

_NAMES: Final = ("AGENTS.override.md", "AGENTS.md")
_MOST: Final = 32 * 1024  # bytes


async def project_instructions(cwd: str) -> str:
    """What the model is told, empty where there is nothing; in a worker thread: a slow disk holds up nobody."""
    text = await to_thread.run_sync(_read, Path(cwd), abandon_on_cancel=True)
    return f"# AGENTS.md instructions for {cwd}\n\n<INSTRUCTIONS>\n{text}\n</INSTRUCTIONS>" if text else ""


def _read(cwd: Path) -> str:
    above = [cwd, *cwd.parents]
    root = next(filter(_is_repository, above), cwd)
    texts: list[str] = []
    left = _MOST
    for folder in reversed(above[: above.index(root) + 1]):
        data = next(filter(None, (_file(folder / name, root, left) for name in _NAMES)), b"")
        left -= len(data)
        if text := data.decode("utf-8", "replace").strip():
            texts.append(text)
    return "\n\n".join(texts)


def _is_repository(folder: Path) -> bool:
    """Not by `.git` alone: the engine may leave an empty one, in /tmp too."""
    git = folder / ".git"
    return git.is_file() or (git / "HEAD").is_file()


def _file(path: Path, root: Path, most: int) -> bytes:
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(root.resolve()):
            return b""
        with open(real, "rb", opener=_without_waiting) as file:
            return file.read(most) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except OSError:
        return b""


def _without_waiting(path: str, flags: int) -> int:
    """A FIFO would not open before somebody writes to it."""
    return os.open(path, flags | os.O_NONBLOCK)
