"""The texts that a project leaves for agents (AGENTS.md, CLAUDE.md), read without following them anywhere.

From the root of the repository down to the working folder. A link that leads out of the project is not followed: it
could name any file of the person.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from anyio import to_thread


async def project_text(cwd: str, names: Sequence[str], *, most: int, every: bool) -> str:
    """What the files say, a blank line between them; empty where there are none.

    In a worker thread: a slow disk holds up nobody. What cannot be read is left out.

    Args:
        cwd: the working folder.
        names: of the files, in each folder, in this order.
        most: bytes of all of them; what is beyond is cut off.
        every: take every file of a folder, and not the first that says something.
    """
    return await to_thread.run_sync(_read, Path(cwd), tuple(names), most, every, abandon_on_cancel=True)


def _read(cwd: Path, names: tuple[str, ...], most: int, every: bool) -> str:
    above = [cwd, *cwd.parents]
    root = next(filter(_is_repository, above), cwd)
    texts: list[str] = []
    for folder in reversed(above[: above.index(root) + 1]):
        for name in names:
            data = _file(folder / name, root, most)
            most -= len(data)
            if text := data.decode("utf-8", "replace").strip():
                texts.append(text)
            if data and not every:
                break
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
    except (OSError, RuntimeError):  # RuntimeError: links in a circle, before Python 3.13
        return b""


def _without_waiting(path: str, flags: int) -> int:
    """A FIFO would not open before somebody writes to it."""
    return os.open(path, flags | os.O_NONBLOCK)
