"""What this package says to the app-server, and relies on in what that says, as data.

The client itself does not read these tables: a server may say more than they hold, and is borne with.
`tools/codex_schema.py` compares them with the schema that a `codex` makes of itself, and tests compare them with what
the client really sends and reads. Kept elsewhere: the answers to requests (`_requests.KINDS`), notifications that are
passed on or over (`_notices`), classes of errors (`_failures.ERRORS`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

PINNED: Final = "0.163.0"
"""The version of `codex` that these tables, and the facts of RFC 0004, hold for."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A request of ours.

    Attributes:
        always: params that each one has.
        sometimes: params that some have.
        read: fields of the answer that are looked at.
    """

    always: tuple[str, ...] = ()
    sometimes: tuple[str, ...] = ()
    read: tuple[str, ...] = ()


_THREAD: Final = ("cwd", "approvalPolicy", "model", "config")
_THREAD_SOMETIMES: Final = ("sandbox", "modelProvider", "developerInstructions")

SENT: Final[Mapping[str, Sent]] = {
    "initialize": Sent(("clientInfo",), ("capabilities",), ("codexHome",)),
    "account/login/start": Sent(("type", "apiKey")),
    "account/read": Sent(("refreshToken",), (), ("account", "requiresOpenaiAuth")),
    "thread/start": Sent(_THREAD, ("ephemeral", "experimentalRawEvents", *_THREAD_SOMETIMES), ("thread", "model")),
    "thread/resume": Sent(("threadId", "excludeTurns", *_THREAD), _THREAD_SOMETIMES, ("thread", "model")),
    "thread/inject_items": Sent(("threadId", "items")),
    "turn/start": Sent(("threadId", "input"), ("effort", "outputSchema"), ("turn",)),
    "turn/steer": Sent(("threadId", "expectedTurnId", "input")),
    "turn/interrupt": Sent(("threadId", "turnId")),
    "thread/backgroundTerminals/clean": Sent(("threadId",)),
}

ASKED: Final[Mapping[str, tuple[str, ...]]] = {
    "item/commandExecution/requestApproval": (
        *("threadId", "turnId", "itemId", "startedAtMs", "environmentId", "approvalId", "kind", "reason", "cwd"),
        *("command", "commandActions", "additionalPermissions", "networkApprovalContext", "availableDecisions"),
        *("proposedExecpolicyAmendment", "proposedNetworkPolicyAmendments"),
    ),
    "item/fileChange/requestApproval": ("threadId", "turnId", "itemId", "startedAtMs", "reason", "grantRoot"),
    "item/permissions/requestApproval": (
        *("threadId", "turnId", "itemId", "startedAtMs", "environmentId", "reason", "cwd", "permissions"),
    ),
    "item/tool/requestUserInput": ("threadId", "turnId", "itemId", "questions", "isBlocking", "autoResolutionMs"),
    "mcpServer/elicitation/request": (
        *("threadId", "turnId", "serverName", "mode", "message", "_meta", "requestedSchema", "elicitationId", "url"),
        *("title", "description", "challenge"),
    ),
    "item/tool/call": ("threadId", "turnId", "callId", "namespace", "tool", "arguments"),
    "account/chatgptAuthTokens/refresh": ("reason", "previousAccountId"),
    "attestation/generate": (),
    "currentTime/read": ("threadId",),
    "execCommandApproval": ("conversationId", "callId", "approvalId", "command", "cwd", "reason", "parsedCmd"),
    "applyPatchApproval": ("conversationId", "callId", "fileChanges", "reason", "grantRoot"),
}
"""Requests of the server with all their params: one that is new may widen what a yes grants."""

READ: Final[Mapping[str, tuple[str, ...]]] = {
    "turn/started": ("threadId", "turn"),
    "turn/completed": ("threadId", "turn"),
    "turn/plan/updated": ("threadId", "plan"),
    "item/started": ("threadId", "item"),
    "item/completed": ("threadId", "item"),
    "item/agentMessage/delta": ("threadId", "itemId", "delta"),
    "item/reasoning/summaryTextDelta": ("threadId", "itemId", "delta"),
    "item/reasoning/textDelta": ("threadId", "itemId", "delta"),
    "item/reasoning/summaryPartAdded": ("threadId", "itemId"),
    "item/commandExecution/outputDelta": ("threadId", "itemId", "delta"),
    "item/mcpToolCall/progress": ("threadId", "itemId", "message"),
    "item/fileChange/patchUpdated": ("threadId", "itemId", "changes"),
    "thread/tokenUsage/updated": ("threadId", "turnId", "tokenUsage"),
    "error": ("threadId", "error", "willRetry"),
    "model/rerouted": ("threadId", "fromModel", "toModel", "reason"),
    "account/rateLimits/updated": ("rateLimits",),
    "hook/completed": ("run",),
    "mcpServer/startupStatus/updated": ("name", "error"),
}
"""Notifications whose params are read. `rawResponseItem/completed` is read too, and is in no schema."""
