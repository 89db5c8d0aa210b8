"""How runs of the real Claude Code end: see `endings_kit.py`."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from claude_kit import KEY
from endings_kit import KILLED, Engine, Kin, Scene, provider_of

from subagent_testing import Gate, ScriptedMessages, messages

PROVIDER: Final = "subagent_claude_code:ClaudeCode"
HOMES: Final = ("isolated", "pinned")


@contextmanager
def _scene(folder: Path, work: Path, home: str, ending: str) -> Generator[Scene]:
    """The surrounding is the home. A turn that ends leaves a command in the background; else it is waited for.

    An engine that was interrupted takes 1.5 s for a command that ignores SIGTERM, and then ends by itself; one that has
    a command in the background ends at no EOF.
    """
    gate = Gate()
    with Kin(folder / "kin") as kin:
        background = {"run_in_background": True} if ending == "turn-ends" else {}
        command = messages.tool_use("Bash", {"command": kin.command, "description": "d", **background})
        with ScriptedMessages([[command], [gate, messages.text("done")]]) as api:
            where = home if home == "isolated" else str(folder / "pinned")
            options: dict[str, Any] = {"base_url": api.base_url, "api_key": KEY, "max_retries": 0, "home": where}
            if ending != "turn-ends":
                options["eof_grace"] = 6.0
            yield Scene(provider_of(PROVIDER, options), options, "allow", work, kin, gate, ())


def engines(work: Path) -> list[int]:
    """The engines at work in a folder."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _is_engine(Path("/proc") / name, work)]


def _is_engine(process: Path, work: Path) -> bool:
    with suppress(OSError):
        words = (process / "cmdline").read_bytes().split(b"\0")
        return (process / "cwd").readlink() == work and b"--input-format" in words
    return False


CLAUDE: Final = Engine(
    PROVIDER,
    _scene,
    engines,
    {
        "": (("eof",), 1),
        "turn-ends": (("eof", "term"), 143),
        "kill-engine": ((), KILLED),
        "terminate-engine": ((), 143),
        "kill-keeper": ((), None),
        "kill-warden": ((), 143),
        "kill-guard": ((), 143),
    },
)
