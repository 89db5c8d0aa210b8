"""From what a server says or fails to say to a `Failure` of the seam: tables, and one place that reads them.

The words of the servers come from llama.cpp (observed with xllamacpp 2026.10.11549) and from the OpenAI API that it
follows.
"""

from __future__ import annotations

import json
from typing import cast

from subagents import Failure, FailureKind

_BY_TYPE: dict[str, FailureKind] = {
    "exceed_context_size_error": "model",
    "authentication_error": "auth",
    "permission_error": "auth",
    "not_found_error": "model",
    "unavailable_error": "overload",
}
_BY_STATUS: dict[int, FailureKind] = {
    401: "auth",
    403: "auth",
    404: "model",
    408: "timeout",
    413: "model",
    429: "overload",
    503: "overload",
    504: "timeout",
}
_RETRYABLE: frozenset[FailureKind] = frozenset({"overload", "timeout", "network"})


class ChatFailed(Exception):
    """The conversation with the server ended without an answer."""

    def __init__(self, failure: Failure) -> None:
        """`failure` is the whole story."""
        super().__init__(failure.message)
        self.failure = failure


def fault(kind: FailureKind, message: str, *, status: int | None = None) -> ChatFailed:
    """A failure while the model was asked."""
    return ChatFailed(Failure(kind, "run", message, retryable=kind in _RETRYABLE, http_status=status))


def refusal(status: int, body: str) -> ChatFailed:
    """An answer that is not 200."""
    text, kind, _ = _error_of(body)
    kind = kind or _BY_STATUS.get(status, "protocol")
    return fault(kind, f"the model server answered HTTP {status}: {text or 'without a reason'}", status=status)


def error_inside(body: str) -> ChatFailed | None:
    """The error that a stream of status 200 carries in place of a piece of the answer, if it does."""
    text, kind, code = _error_of(body)
    if text is None:
        return None
    kind = kind or (_BY_STATUS.get(code, "protocol") if code is not None else "protocol")
    return fault(kind, f"the model server reported an error in the middle of its answer: {text}", status=code)


def _error_of(body: str) -> tuple[str | None, FailureKind | None, int | None]:
    """Message, kind and code of ``{"error": {"message": …, "type": …, "code": …}}`` or ``{"error": "…"}``."""
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        return body.strip()[:500] or None, None, None
    error = cast("dict[str, object]", value).get("error") if isinstance(value, dict) else None
    if isinstance(error, str):
        return error, None, None
    if not isinstance(error, dict):
        return None, None, None
    table = cast("dict[str, object]", error)
    code, name = table.get("code"), table.get("type")
    message = table.get("message")
    return (
        message if isinstance(message, str) and message else json.dumps(error)[:500],
        _BY_TYPE.get(name) if isinstance(name, str) else None,
        code if isinstance(code, int) else None,
    )
