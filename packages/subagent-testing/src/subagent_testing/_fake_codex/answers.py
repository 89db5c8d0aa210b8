"""What an app-server asks of its client: the ten requests of 0.163.0, and the shape of each answer.

The shapes are those of the schema that `codex app-server generate-json-schema` of 0.163.0 writes; what they require is
required, and members that a schema does not name are allowed where it allows them.
"""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_codex*.py)

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

Shape = Callable[[Any, str], str]
"""Says what is wrong with a value, naming the place; empty when nothing is."""


def _first(faults: Iterable[str]) -> str:
    return next(filter(None, faults), "")


def is_text(value: Any, at: str) -> str:
    return "" if isinstance(value, str) else f"{at} is no string"


def is_bool(value: Any, at: str) -> str:
    return "" if isinstance(value, bool) else f"{at} is no boolean"


def anything(value: Any, at: str) -> str:
    return ""


def one_of(*words: str) -> Shape:
    return lambda value, at: "" if value in words and isinstance(value, str) else f"{at} is none of {', '.join(words)}"


def or_null(shape: Shape) -> Shape:
    return lambda value, at: "" if value is None else shape(value, at)


def listed(shape: Shape) -> Shape:
    def check(value: Any, at: str) -> str:
        if not isinstance(value, list):
            return f"{at} is no array"
        elements = cast("list[Any]", value)
        return _first(shape(element, f"{at}[{i}]") for i, element in enumerate(elements))

    return check


def mapped(shape: Shape) -> Shape:
    def check(value: Any, at: str) -> str:
        if not isinstance(value, dict):
            return f"{at} is no object"
        members = cast("dict[str, Any]", value)
        return _first(shape(member, f"{at}.{name}") for name, member in members.items())

    return check


def object_of(
    required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None, *, closed: bool = False
) -> Shape:
    known = {**required, **(optional or {})}

    def check(value: Any, at: str) -> str:
        if not isinstance(value, dict):
            return f"{at} is no object"
        members = cast("dict[str, Any]", value)
        if missing := [name for name in required if name not in members]:
            return f"{at} lacks {', '.join(missing)}"
        if closed and (others := [name for name in members if name not in known]):
            return f"{at} has {', '.join(others)}, which the schema does not allow"
        return _first(known[name](member, f"{at}.{name}") for name, member in members.items() if name in known)

    return check


def either(*shapes: Shape) -> Shape:
    def check(value: Any, at: str) -> str:
        wrong = [shape(value, at) for shape in shapes]
        return "" if "" in wrong else "; ".join(wrong)

    return check


_NETWORK_AMENDMENT = object_of(
    {"network_policy_amendment": object_of({"host": is_text, "action": one_of("allow", "deny")})}
)
_REVIEW = either(
    one_of("approved", "approved_for_session", "approved_mcp_policy_amendment", "timed_out", "abort"),
    object_of({"denied": object_of({"rejection": is_text})}, closed=True),
    object_of(
        {"approved_execpolicy_amendment": object_of({"proposed_execpolicy_amendment": listed(is_text)})}, closed=True
    ),
    object_of({"network_policy_amendment": _NETWORK_AMENDMENT}, closed=True),
)

SHAPES: Mapping[str, Shape] = {
    "item/commandExecution/requestApproval": object_of(
        {
            "decision": either(
                one_of("accept", "acceptForSession", "decline", "cancel"),
                object_of(
                    {"acceptWithExecpolicyAmendment": object_of({"execpolicy_amendment": listed(is_text)})}, closed=True
                ),
                object_of({"applyNetworkPolicyAmendment": _NETWORK_AMENDMENT}, closed=True),
            )
        }
    ),
    "item/fileChange/requestApproval": object_of(
        {"decision": one_of("accept", "acceptForSession", "decline", "cancel")}
    ),
    "item/permissions/requestApproval": object_of(
        {
            "permissions": object_of(
                {},
                {
                    "fileSystem": or_null(
                        object_of(
                            {},
                            {
                                "entries": or_null(
                                    listed(
                                        object_of({"access": one_of("read", "write", "deny"), "path": mapped(anything)})
                                    )
                                ),
                                "read": or_null(listed(is_text)),
                                "write": or_null(listed(is_text)),
                            },
                        )
                    ),
                    "network": or_null(object_of({}, {"enabled": or_null(is_bool)})),
                },
            )
        },
        {"scope": one_of("turn", "session"), "strictAutoReview": or_null(is_bool)},
    ),
    "item/tool/requestUserInput": object_of({"answers": mapped(object_of({"answers": listed(is_text)}))}),
    "mcpServer/elicitation/request": object_of(
        {"action": one_of("accept", "decline", "cancel")}, {"content": anything}
    ),
    "item/tool/call": object_of(
        {
            "contentItems": listed(
                either(
                    object_of({"type": one_of("inputText"), "text": is_text}),
                    object_of({"type": one_of("inputImage"), "imageUrl": is_text}),
                    object_of({"type": one_of("inputAudio"), "audioUrl": is_text}),
                )
            ),
            "success": is_bool,
        }
    ),
    "account/chatgptAuthTokens/refresh": object_of(
        {"accessToken": is_text, "chatgptAccountId": is_text}, {"chatgptPlanType": or_null(is_text)}
    ),
    "attestation/generate": object_of({"token": is_text}),
    "applyPatchApproval": object_of({"decision": _REVIEW}),
    "execCommandApproval": object_of({"decision": _REVIEW}),
}
"""Method -> the shape of `result`."""

REFUSABLE = ("account/chatgptAuthTokens/refresh", "attestation/generate")
"""What a client that has none of it can only answer with an error."""

NO_SUCH_METHOD = -32601


def wrong(method: str, answer: Mapping[str, Any]) -> str:
    """What is wrong with the answer to a request; empty when it has the request's own shape.

    An unknown method wants the error "no such method"; what a client cannot have, any error.
    """
    if "result" in answer and "error" in answer:
        return "both result and error"
    if "error" in answer:
        if fault := object_of({"code": anything, "message": is_text})(answer["error"], "error"):
            return fault
        code = answer["error"]["code"]
        if method in SHAPES:
            return "" if method in REFUSABLE else f"an error ({code}) where {method} has an answer for a refusal"
        return "" if code == NO_SUCH_METHOD else f"error {code} for an unknown method, instead of {NO_SUCH_METHOD}"
    if "result" not in answer:
        return "neither result nor error"
    if method not in SHAPES:
        return "a result for an unknown method"
    return SHAPES[method](answer["result"], "result")
