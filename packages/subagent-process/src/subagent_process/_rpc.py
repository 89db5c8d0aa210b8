"""The shapes of JSON-RPC messages, and what of them may be shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from .errors import RpcError
from .redaction import redact, redact_cut

JsonObject: TypeAlias = dict[str, object]

SHOWN = 400  # characters of what went wrong


@dataclass
class PeerCounts:
    """What a peer sent that led to nothing.

    Attributes:
        late: answers to requests that were given up, by their timeout or by cancellation, the last 4,096 of them.
        duplicate: further answers to a request, and answers to those that were given up before these.
        unknown: answers with an id that was never given, null and those of another type included.
        invalid: objects that are neither request, answer nor notification.
        refused: requests answered with an error before anybody was asked: too many at once, or malformed.
    """

    late: int = 0
    duplicate: int = 0
    unknown: int = 0
    invalid: int = 0
    refused: int = 0


def call(method: str, params: Mapping[str, object] | None, **head: object) -> JsonObject:
    """A request, or a notification: ``{"id":0,"method":"x","params":{}}``."""
    return {**head, "method": method} if params is None else {**head, "method": method, "params": dict(params)}


def failed(error: RpcError) -> JsonObject:
    """What an answer says beside its id: ``{"error":{"code":-32601,"message":"…"}}``."""
    body: JsonObject = {"code": error.code, "message": error.message}
    return {"error": body if error.data is None else {**body, "data": error.data}}


def internal(exc: BaseException) -> JsonObject:
    """Likewise, for a failure of ours."""
    return failed(RpcError(-32603, shown(f"Internal error: {type(exc).__name__}: {exc}")))


def shown(text: str, limit: int = SHOWN) -> str:
    """Redacted and cut, in this order; the first cut is for a text of 64 MB, and leaves no half of a secret."""
    front = text[: 2 * limit]
    whole = len(front) == len(text)
    result = redact(text) if whole else redact_cut(front, right=limit)
    return result if whole and len(result) <= limit else result[:limit] + " …"
