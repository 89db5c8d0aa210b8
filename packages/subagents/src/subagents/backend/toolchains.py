"""What the commands of a task get of the person's tools, said to whoever follows a run."""

from __future__ import annotations

from subagent_process import ToolEnv
from subagents import NoticeEvent


def read_above(tools: ToolEnv) -> NoticeEvent | None:
    """The warning, of code `tools`, that commands read configuration which no variable keeps from them; else None.

    It names the files: those of npm, yarn, cargo and uv in a folder above the working folder.
    """
    found = ", ".join(name for name, why in tools.left_out.items() if why == "above")
    if not found:
        return None
    text = f"commands may use what {found} says, tokens too: npm, yarn, cargo and uv look above the working folder"
    return NoticeEvent(text, "tools", "warning")
