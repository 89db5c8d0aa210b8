"""Notifications that become a notice, and those that are passed over: tables.

All methods of 0.163.0 that a run can get stand in one of the tables here or in `_turn`; what stands in none is new.
"""

from __future__ import annotations

import json
from typing import Final, Literal

from subagent_process import redact
from subagents import NoticeEvent
from subagents.backend.values import JsonObject, number_in, object_in, text_in

Level = Literal["info", "warning", "error"]

_TEXT: Final = 2000  # characters of a notice
# Of every run on a machine without bubblewrap, and of no consequence: the bundled one is used.
_NO_NEWS: Final = "Codex could not find bubblewrap on PATH"

NOTICES: Final[dict[str, tuple[Level, tuple[str, ...]]]] = {
    "warning": ("warning", ("message",)),
    "guardianWarning": ("warning", ("message",)),
    "configWarning": ("warning", ("summary", "details", "path")),
    "deprecationNotice": ("info", ("summary", "details")),
    "modelProvider/authRecoveryStarted": ("info", ("provider", "message")),
    "modelProvider/authRecoveryCompleted": ("info", ("provider", "message")),
    "thread/environment/disconnected": ("warning", ("environmentId",)),
    "thread/realtime/error": ("warning", ("message",)),
}
"""A method, the level of its notice, and the texts that are joined in it. Its code is the method."""

PASSED: Final = frozenset({
    # Said in another way by an item, or by the answer to a request.
    "thread/started", "thread/status/changed", "thread/closed", "thread/settings/updated", "turn/diff/updated",
    "serverRequest/resolved", "item/plan/delta", "item/fileChange/outputDelta", "rawResponse/completed",
    "item/commandExecution/terminalInteraction", "account/login/completed", "account/updated", "thread/compacted",
    "item/autoApprovalReview/started", "item/autoApprovalReview/completed", "autoApprovalReview/strictReviewRequired",
    "thread/environment/connected", "model/verification", "model/safetyBuffering/updated", "turn/moderationMetadata",
    # About the application around it, its stored threads, its other clients.
    "thread/readState/changed", "thread/archived", "thread/deleted", "thread/unarchived", "thread/reverted",
    "thread/name/updated", "thread/attachment/updated", "thread/goal/updated", "thread/goal/cleared",
    "thread/prediction/updated", "thread/queue/changed", "thread/project/updated", "thread/section/changed",
    "thread/search/partial", "project/changed", "skills/changed", "app/list/updated", "remoteControl/status/changed",
    "account/gatewayOAuth/changed", "externalAgentConfig/import/progress", "externalAgentConfig/import/completed",
    "fs/changed", "fuzzyFileSearch/sessionUpdated", "fuzzyFileSearch/sessionCompleted", "hook/started",
    "mcpServer/oauthLogin/completed", "mcpServer/event/stream/notification",
    "windows/worldWritableWarning", "windowsSandbox/setupCompleted",
    # Answers to requests that we do not make.
    "command/exec/outputDelta", "process/outputDelta", "process/exited",
    "thread/realtime/started", "thread/realtime/itemAdded", "thread/realtime/item/started",
    "thread/realtime/item/transcript/delta", "thread/realtime/item/completed", "thread/realtime/transcript/delta",
    "thread/realtime/transcript/done", "thread/realtime/outputAudio/delta", "thread/realtime/sdp",
    "thread/realtime/closed",
})  # fmt: skip
"""Known methods of which nothing is told."""


def notice(method: str, params: JsonObject) -> NoticeEvent | None:
    """The notice of a method in `NOTICES`, or of a hook or server that failed; None when there is nothing to say."""
    if method in NOTICES:
        level, names = NOTICES[method]
        told = _made(level, method, *(text_in(params, name) for name in names))
        return None if told is not None and told.text.startswith(_NO_NEWS) else told
    if method == "hook/completed":
        run = object_in(params, "run")
        status = text_in(run, "status")
        if status in ("completed", "running", ""):
            return None
        return _made("warning", method, f"hook {text_in(run, 'eventName')} {status}", text_in(run, "statusMessage"))
    if text_in(params, "error"):  # mcpServer/startupStatus/updated
        return _made("warning", method, f"MCP server {text_in(params, 'name')}", text_in(params, "error"))
    return None


def retry_notice(error: JsonObject) -> NoticeEvent:
    """The notice of an attempt that failed and is repeated."""
    made = _made("warning", "retry", text_in(error, "message"), text_in(error, "additionalDetails"))
    return made or NoticeEvent("the engine repeats a request to the model", "retry", "warning")


def _made(level: Level, code: str, *texts: str) -> NoticeEvent | None:
    text = ": ".join(filter(None, (text.strip() for text in texts)))
    return NoticeEvent(redact(text[:_TEXT]), code, level) if text else None


class Limits:
    """The limits of the account, which each response reports."""

    def __init__(self) -> None:
        self._said = ""
        self.reset: float | None = None
        """Unix time in seconds at which a limit that is used up ends, as far as it is known."""

    def read(self, params: JsonObject) -> NoticeEvent | None:
        """The notice of `account/rateLimits/updated`, when it says something, and something new."""
        limits = object_in(params, "rateLimits")
        windows = {name: _window(object_in(limits, name)) for name in ("primary", "secondary", "individualLimit")}
        data: dict[str, object] = {name: found for name, found in windows.items() if found}
        reached = text_in(limits, "rateLimitReachedType")
        if reached:
            data["reached"] = reached
        if not data:
            return None
        ends = [float(found["resets_at"]) for found in windows.values() if _full(found) and "resets_at" in found]
        self.reset = max(ends, default=None)
        said = json.dumps(data)
        if said == self._said:
            return None
        self._said = said
        used = [
            f"{found['used_percent']} % of the {name} limit"
            for name, found in windows.items()
            if "used_percent" in found
        ]
        text = ", ".join((*used, *((f"reached: {reached}",) if reached else ())))
        full = bool(reached) or any(map(_full, windows.values()))
        return NoticeEvent(f"used: {text}", "account/rateLimits/updated", "warning" if full else "info", data)


def _window(table: JsonObject) -> dict[str, int]:
    left = number_in(table, "remainingPercent")
    found = {
        "used_percent": number_in(table, "usedPercent") if left is None else 100 - left,
        "resets_at": number_in(table, "resetsAt"),
        "minutes": number_in(table, "windowDurationMins"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _full(window: dict[str, int]) -> bool:
    return window.get("used_percent", 0) >= 100
