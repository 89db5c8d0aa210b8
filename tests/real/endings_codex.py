"""How runs of the real Codex end: see `endings_kit.py`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from codex_kit import KEY, shell
from endings_kit import KILLED, Engine, Kin, Scene, provider_of
from isolation_codex import engines

from subagent_testing import Gate, ScriptedResponses, responses

PROVIDER: Final = "subagent_codex:Codex"
PLACEHOLDERS: Final = (".agents", ".aws", ".codex", ".git")
SANDBOXES: Final = ("read-only", "workspace-write", "danger-full-access")


@contextmanager
def _scene(folder: Path, work: Path, sandbox: str, _: str) -> Generator[Scene]:
    """The surrounding is the sandbox."""
    gate = Gate()
    with Kin(folder / "kin") as kin:
        script = [[shell(kin.command, yield_time_ms=250)], [gate, responses.message("done")]]
        with ScriptedResponses(script) as api:
            options = {"base_url": api.base_url, "api_key": KEY, "sandbox": sandbox}
            made = PLACEHOLDERS if sandbox == "workspace-write" else ()
            yield Scene(provider_of(PROVIDER, options), options, "reject", work, kin, gate, made)


CODEX: Final = Engine(
    PROVIDER,
    _scene,
    engines,
    {
        "": (("eof",), 0),
        "kill-engine": ((), KILLED),
        "terminate-engine": ((), 0),  # it ends in order
        "kill-keeper": ((), None),
        "kill-warden": ((), 0),
        "kill-guard": ((), 0),
    },
)
