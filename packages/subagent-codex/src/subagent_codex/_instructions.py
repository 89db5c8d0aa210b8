"""The AGENTS.md of a project, read by us: the engine reads it only in a folder that it trusts.

There it also starts what the project's `.codex/config.toml` names (observed, 0.163.0: `project_doc_max_bytes` makes no
difference in a folder that is not trusted).  So it goes into the input of the turn, before the prompt, in the words in
which the engine gives it to the model.  As with the engine: from the root of the repository down to the working folder,
`AGENTS.override.md` before `AGENTS.md`, 32 KiB in all.  Otherwise than with it, a link that leads out of the project is
not followed: it could name any file of the person.
"""

from __future__ import annotations

from typing import Final

from subagents.backend.instructions import project_text

_NAMES: Final = ("AGENTS.override.md", "AGENTS.md")
_MOST: Final = 32 * 1024  # bytes


async def project_instructions(cwd: str) -> str:
    """What the model is told, empty where there is nothing."""
    text = await project_text(cwd, _NAMES, most=_MOST, every=False)
    return f"# AGENTS.md instructions for {cwd}\n\n<INSTRUCTIONS>\n{text}\n</INSTRUCTIONS>" if text else ""
