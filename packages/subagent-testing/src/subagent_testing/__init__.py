"""Test kit of subagents: the conformance kit, scripted providers and servers, the process family, and leak checks.

    import subagent_testing

    subagent_testing.check_provider(lambda: MyEngine(), "say hi", slow_task="count to a million")

Importing this loads nothing else; a name is loaded when it is first used, so that the pytest plug-in costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from subagent_testing import messages, responses, scripted
    from subagent_testing._fake_program import FakeRun, Heard, Verdict
    from subagent_testing._http import Gate
    from subagent_testing._messages_server import ScriptedMessages
    from subagent_testing._promise import Promise, Subject
    from subagent_testing._responses_server import ScriptedResponses
    from subagent_testing.claude import FakeClaude
    from subagent_testing.codex import FakeCodex
    from subagent_testing.conformance import (
        Check,
        Report,
        check_provider,
        check_seam,
        provider_checks,
        seam_checks,
        seam_subject,
    )
    from subagent_testing.errors import BrokenPromise, BrokenPromises, NotApplicable
    from subagent_testing.family import Family
    from subagent_testing.leaks import Snapshot, private_temp
    from subagent_testing.scripted import Scripted

_HOMES: Final = {
    "BrokenPromise": "errors",
    "BrokenPromises": "errors",
    "Check": "conformance",
    "FakeClaude": "claude",
    "FakeCodex": "codex",
    "FakeRun": "_fake_program",
    "Family": "family",
    "Gate": "_http",
    "Heard": "_fake_program",
    "NotApplicable": "errors",
    "Promise": "_promise",
    "Report": "conformance",
    "Scripted": "scripted",
    "ScriptedMessages": "_messages_server",
    "ScriptedResponses": "_responses_server",
    "Snapshot": "leaks",
    "Subject": "_promise",
    "Verdict": "_fake_program",
    "check_provider": "conformance",
    "check_seam": "conformance",
    "messages": "",
    "private_temp": "leaks",
    "provider_checks": "conformance",
    "responses": "",
    "scripted": "",
    "seam_checks": "conformance",
    "seam_subject": "conformance",
}

__all__ = [
    "BrokenPromise",
    "BrokenPromises",
    "Check",
    "FakeClaude",
    "FakeCodex",
    "FakeRun",
    "Family",
    "Gate",
    "Heard",
    "NotApplicable",
    "Promise",
    "Report",
    "Scripted",
    "ScriptedMessages",
    "ScriptedResponses",
    "Snapshot",
    "Subject",
    "Verdict",
    "check_provider",
    "check_seam",
    "messages",
    "private_temp",
    "provider_checks",
    "responses",
    "scripted",
    "seam_checks",
    "seam_subject",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]
    found = getattr(import_module(f"{__name__}.{home}"), name) if home else import_module(f"{__name__}.{name}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
