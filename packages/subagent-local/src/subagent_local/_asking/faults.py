"""From what a server says or fails to say to a `Failure` of the seam: tables, and one place that reads them.

The words of the servers come from llama.cpp (observed with xllamacpp 2026.10.11549), from the OpenAI API that it
follows, and, of a prompt that is too long, from Ollama, LM Studio and vLLM (read in their sources and in reports).
"""

from __future__ import annotations

import json
import re

from subagent_local._json import count, parsed, table
from subagent_process import redact
from subagents import Failure, FailureKind

_BY_TYPE: dict[str, FailureKind] = {
    "exceed_context_size_error": "model",
    "authentication_error": "auth",
    "permission_error": "auth",
    "not_found_error": "model",
    "unavailable_error": "overload",
}
_BY_STATUS: dict[int, FailureKind] = {
    400: "policy",  # it knows what is asked for, and does not do it: a schema that it cannot compile, for one
    401: "auth",
    403: "auth",
    404: "model",
    408: "timeout",
    413: "model",
    429: "overload",
    503: "overload",
    504: "timeout",
}
# Only errors are searched for it, never what a model says.
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceeds? the (available )?context|longer than the context length"
    r"|maximum (context|model) length|context length of only|context size has been exceeded"
    r"|greater than the context length|longer than the model's context|prompt with n_keep|context length is only",
    re.IGNORECASE,
)
_BOUND = 1 << 16  # characters that are searched for secrets
_RETRYABLE: frozenset[FailureKind] = frozenset({"overload", "timeout", "network"})


class ChatFailed(Exception):
    """The conversation with the server ended without an answer."""

    def __init__(self, failure: Failure) -> None:
        """`failure` is the whole story."""
        super().__init__(failure.message)
        self.failure = failure


def fault(kind: FailureKind, message: str, *, status: int | None = None) -> ChatFailed:
    """A failure while the model was asked."""
    return ChatFailed(Failure(kind, "run", redact(message), retryable=kind in _RETRYABLE, http_status=status))


def broken(error: Exception) -> ChatFailed:
    """A connection that ended, or never was."""
    return fault("network", f"the connection to the model server broke: {str(error) or type(error).__name__}")


def quoted(text: str, most: int = 500) -> str:
    """The beginning of what a server said, redacted before it is cut: half a secret has no shape."""
    return redact(text[:_BOUND])[:most]


def refusal(status: int, body: str, *, schema: bool = False) -> ChatFailed:
    """An answer that is not 200. `schema` says that the request held one, which is what a 400 then is about."""
    if is_redirect(status):
        return fault(
            "protocol",
            f"the model server answered HTTP {status}, a redirect, which is not followed: give the address to which it "
            "leads as url",
            status=status,
        )
    error = _error(table(parsed(body)))
    text = _message(error) if error else quoted(body.strip())
    kind = _kind(error) or _BY_STATUS.get(status, "protocol")
    reason = text or "without a reason"
    if schema and kind == "policy":
        reason += "; it may be unable to hold an answer to the schema: simplify that"
    return fault(kind, f"the model server answered HTTP {status}: {reason}", status=status)


def is_redirect(status: int) -> bool:
    """Whether it sends us elsewhere."""
    return 300 <= status < 400


def error_inside(value: object) -> ChatFailed | None:
    """The error that an answer of status 200 carries in place of a piece of it, if it does."""
    error = _error(table(value))
    if not error:
        return None
    status = count(table(error).get("code"))
    kind = _kind(error) or _BY_STATUS.get(status or 0, "protocol")
    return fault(kind, f"the model server reported an error in place of an answer: {_message(error)}", status=status)


def _error(body: dict[str, object]) -> object:
    """What stands under `error`, or what vLLM puts there itself: ``{"object": "error", "message": …}``."""
    error = body if body.get("object") == "error" else body.get("error")
    # Ollama passes the error of its engine on as text: {"error": "{\"error\": {…}}"}.
    inner = table(parsed(error)).get("error") if isinstance(error, str) else None
    return inner or error


def _message(error: object) -> str:
    """Of ``{"message": …, "type": …, "code": …}``, of plain text, or of something else."""
    message = error if isinstance(error, str) else table(error).get("message")
    return quoted(message, 4000) if isinstance(message, str) else quoted(json.dumps(error))


def _kind(error: object) -> FailureKind | None:
    name = table(error).get("type")
    if isinstance(name, str) and name in _BY_TYPE:
        return _BY_TYPE[name]
    return "model" if _TOO_LONG.search(f"{table(error).get('code')} {_message(error)}") else None
