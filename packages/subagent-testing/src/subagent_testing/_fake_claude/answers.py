"""What `claude` asks of its client, and the shape of each answer.

As 2.1.332 asks and claude-agent-sdk 0.2.189 answers: observed.  The product publishes no schema.
"""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_claude*.py)

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

SHAPES: Mapping[str, tuple[Mapping[str, type], Mapping[str, type]]] = {
    "allow": ({"behavior": str}, {"updatedInput": dict, "updatedPermissions": list, "toolUseID": str}),
    "deny": ({"behavior": str, "message": str}, {"interrupt": bool, "toolUseID": str}),
    "hook_callback": ({}, {}),
    "mcp_message": ({"mcp_response": dict}, {}),
}
"""What an answer must have and what it may have, each with its type; other members are allowed."""


def wrong(subtype: str, answer: Mapping[str, Any]) -> str:
    """What is wrong with the `response` of an answer; empty when it has the request's own shape.

    An unknown request wants an error; `can_use_tool` never does, because it has an answer for a refusal.
    """
    known = subtype in {"can_use_tool", *SHAPES}
    if answer.get("subtype") == "error":
        if not isinstance(answer.get("error"), str):
            return "error is no string"
        return f"an error where {subtype} has an answer for a refusal" if subtype == "can_use_tool" else ""
    if answer.get("subtype") != "success":
        return "neither success nor error"
    if not known:
        return "success for an unknown request"
    response = answer.get("response")
    if not isinstance(response, dict):
        return "response is no object"
    members = cast("dict[str, Any]", response)
    shape = subtype
    if subtype == "can_use_tool":
        shape = str(members.get("behavior"))
        if shape not in {"allow", "deny"}:
            return "behavior is none of allow, deny"
    required, optional = SHAPES[shape]
    if missing := [name for name in required if name not in members]:
        return f"response lacks {', '.join(missing)}"
    bad = [n for n, kind in {**required, **optional}.items() if n in members and not isinstance(members[n], kind)]
    return f"response has the wrong type of {', '.join(bad)}" if bad else ""
