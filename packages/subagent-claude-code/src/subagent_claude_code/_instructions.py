"""The CLAUDE.md of a project, read by us: the engine reads it only together with the project's settings.

Those name hooks and servers, which would be started. So its text goes into the system prompt, beside the instructions
of the task. From the root of the repository down to the working folder, `CLAUDE.md` and `.claude/CLAUDE.md` in each, at
most 64 KiB in all. Otherwise than with the engine `@path` in it is not followed, and neither is a link that leads out
of the project: either could name any file of the person.
"""

from __future__ import annotations

from typing import Final

from subagents.backend.instructions import project_text

_NAMES: Final = ("CLAUDE.md", ".claude/CLAUDE.md")
_MOST: Final = 64 * 1024  # bytes


async def project_instructions(cwd: str) -> str:
    """What the model is told, empty where there is nothing."""
    text = await project_text(cwd, _NAMES, most=_MOST, every=True)
    return f"# Instructions of the project in {cwd}\n\n{text}" if text else ""
