"""What the app-server may ask: a request in, the question for whoever decides and every answer in its words out.

Shapes: the schema of 0.163.0; the answers to commands, file changes, permissions, user input and elicitations were
observed too, the others only read.

Traps:

- `decline` is honoured where `availableDecisions` does not list it (observed). `cancel` interrupts the whole turn.
- The answers to `request_user_input` go to the model as they are (observed), and `{"answers": {}}` tells it nothing, so
  that it is told in words that nobody is there.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from subagent_codex._bounds import Bounds
from subagent_process import JsonObject, RpcError
from subagents import OptionKind, PermissionOption, PermissionRequest, ToolKind
from subagents.backend.values import listed, object_in, objects_in, one_line, text_in, texts_in

Said: TypeAlias = OptionKind | Literal["cancel"]
Words: TypeAlias = Mapping[Said, JsonObject]
"""What a decision is in the words of one kind: `reject_once` and `cancel` always, what may be granted where it may."""

_DECISIONS: Final[Words] = {
    "allow_once": {"decision": "accept"},
    "allow_always": {"decision": "acceptForSession"},
    "reject_once": {"decision": "decline"},
    "cancel": {"decision": "cancel"},
}
_OLD_DECISIONS: Final[Words] = {
    "allow_once": {"decision": "approved"},
    "allow_always": {"decision": "approved_for_session"},
    "reject_once": {"decision": {"denied": {"rejection": "the client refused"}}},
    "cancel": {"decision": "abort"},
}
_ACTIONS: Final[Words] = {
    "allow_once": {"action": "accept", "content": {}},
    "reject_once": {"action": "decline", "content": None},
    "cancel": {"action": "cancel", "content": None},
}
_OPTIONS: Final[Mapping[str, PermissionOption]] = {
    "accept": PermissionOption("allow_once", "accept", "once"),
    "acceptForSession": PermissionOption("allow_always", "acceptForSession", "for this run"),
    "decline": PermissionOption("reject_once", "decline", "no"),
}
_FORMS: Final = ("form", "openai/form", "openaiForm")
_TOLD: Final = (
    *("kind", "cwd", "grantRoot", "additionalPermissions", "networkApprovalContext", "permissions"),
    *("serverName", "mode", "requestedSchema", "_meta", "fileChanges"),
)
_NOBODY: Final = "(Automatic answer: nobody is here to be asked. Decide yourself, and say in the end what you chose.)"
_NO_RESULT: Final = -32000  # JSON-RPC leaves this range to whoever answers


@dataclass(frozen=True, slots=True)
class Question:
    """A request of the server.

    Attributes:
        words: what each decision is.
        title: one line for people.
        request: None where nobody is asked, and the answer is `reject_once`.
        counted: refusing it counts towards the bound.
    """

    words: Words
    title: str
    request: PermissionRequest | None = None
    counted: bool = True


def question(method: str, params: JsonObject, bounds: Bounds) -> Question:
    """What a request asks, whatever its params hold.

    Raises:
        RpcError: the method is unknown (-32601), or nothing that is true can be answered (-32000).
    """
    kind = KINDS.get(method)
    if kind is None:
        raise RpcError.method_not_found(method)
    return kind(params, bounds)


# -- the kinds ---------------------------------------------------------------------------------------------------------


def _command(params: JsonObject, bounds: Bounds) -> Question:
    item, command = text_in(params, "itemId"), text_in(params, "command")
    network = object_in(params, "networkApprovalContext")
    title = (
        f"Reach {text_in(network, 'host')} ({text_in(network, 'protocol')})" if network else _running(params, command)
    )
    options, beyond = _offered(params, "accept"), not bounds.runs(item, params)
    kind: ToolKind = "fetch" if network else "execute"
    return _asked(_DECISIONS, title, params, kind, item=item, command=command, options=options, beyond=beyond)


def _file_change(params: JsonObject, bounds: Bounds) -> Question:
    item = text_in(params, "itemId")
    return _changing(_DECISIONS, params, bounds, item, bounds.turn.change_paths(item))


def _permissions(params: JsonObject, bounds: Bounds) -> Question:
    wanted = object_in(params, "permissions")
    words: Words = {
        "allow_once": {"permissions": wanted, "scope": "turn"},
        "reject_once": {"permissions": {}, "scope": "turn"},
        "cancel": {"permissions": {}, "scope": "turn"},
    }
    title = f"Grant more permissions for this turn: {text_in(params, 'reason') or ', '.join(wanted)}"
    return _asked(words, title, params, item=text_in(params, "itemId"), beyond=not bounds.open)


def _user_input(params: JsonObject, _: Bounds) -> Question:
    questions = objects_in(params, "questions")
    answers: JsonObject = {text_in(q, "id"): {"answers": [_NOBODY]} for q in questions}
    title = "; ".join(text_in(q, "question") for q in questions)
    return _unasked(f"Answer: {title}", no={"answers": answers}, cancel={"answers": {}})


def _elicitation(params: JsonObject, bounds: Bounds) -> Question:
    """Asked only where a bare yes says all: a tool call, or a form without a field that has to be filled."""
    title = f"{text_in(params, 'serverName')}: {text_in(params, 'message') or text_in(params, 'title')}"
    bare = params.get("mode") in _FORMS and not object_in(params, "requestedSchema").get("required")
    if not bare or object_in(params, "_meta").get("codex_approval_kind") not in (None, "mcp_tool_call"):
        return _unasked(title, no=_ACTIONS["reject_once"], cancel=_ACTIONS["cancel"])
    return _asked(_ACTIONS, title, params, beyond=not bounds.open)  # a server of tools runs outside the sandbox


def _tool_call(params: JsonObject, _: Bounds) -> Question:
    tool = text_in(params, "tool")
    told = {"type": "inputText", "text": f"This client has no tool {tool!r}."}
    return _unasked(f"Call the client's tool {tool}", no={"contentItems": [told], "success": False})


def _old_command(params: JsonObject, bounds: Bounds) -> Question:
    item = text_in(params, "callId")
    command = shlex.join(texts_in(params, "command"))
    options, beyond = _offered({}, "accept", "acceptForSession"), not bounds.runs(item, params)
    title = _running(params, command)
    return _asked(_OLD_DECISIONS, title, params, "execute", item=item, command=command, options=options, beyond=beyond)


def _old_file_change(params: JsonObject, bounds: Bounds) -> Question:
    changes = object_in(params, "fileChanges")
    moved = (text_in(object_in(changes, path), "move_path") for path in changes)
    return _changing(_OLD_DECISIONS, params, bounds, text_in(params, "callId"), (*changes, *filter(None, moved)))


def _time(_: JsonObject, __: Bounds) -> Question:
    return _unasked("the time", no={"currentTimeAt": int(time.time())}, counted=False)


def _no_tokens(_: JsonObject, __: Bounds) -> Question:
    raise RpcError(_NO_RESULT, "this client keeps no ChatGPT sign-in: sign in with `codex login`")


def _no_attestation(_: JsonObject, __: Bounds) -> Question:
    raise RpcError(_NO_RESULT, "this client can attest nothing")


KINDS: Final[Mapping[str, Callable[[JsonObject, Bounds], Question]]] = {
    "item/commandExecution/requestApproval": _command,
    "item/fileChange/requestApproval": _file_change,
    "item/permissions/requestApproval": _permissions,
    "item/tool/requestUserInput": _user_input,
    "mcpServer/elicitation/request": _elicitation,
    "item/tool/call": _tool_call,
    "account/chatgptAuthTokens/refresh": _no_tokens,
    "attestation/generate": _no_attestation,
    "currentTime/read": _time,
    "execCommandApproval": _old_command,
    "applyPatchApproval": _old_file_change,
}


# -- what they share ---------------------------------------------------------------------------------------------------


def _asked(
    words: Words,
    title: str,
    params: JsonObject,
    kind: ToolKind = "other",
    *,
    item: str = "",
    command: str = "",
    paths: tuple[str, ...] = (),
    options: tuple[PermissionOption, ...] = (_OPTIONS["accept"], _OPTIONS["decline"]),
    beyond: bool,
) -> Question:
    line = one_line(title)
    request = PermissionRequest(
        line,
        kind,
        item,
        command or None,
        paths,
        reason=text_in(params, "reason"),
        options=options,
        beyond=beyond,
        data={name: params[name] for name in _TOLD if params.get(name) is not None},
    )
    return Question(words, line, request)


def _unasked(title: str, *, no: JsonObject, cancel: JsonObject | None = None, counted: bool = True) -> Question:
    return Question({"reject_once": no, "cancel": no if cancel is None else cancel}, one_line(title), counted=counted)


def _changing(words: Words, params: JsonObject, bounds: Bounds, item: str, paths: tuple[str, ...]) -> Question:
    root = text_in(params, "grantRoot")
    title = f"Change {listed(paths) or 'files'}" + (f", and grant {root}" if root else "")
    options = _offered({}, "accept", "acceptForSession")
    beyond = not (bounds.writes(paths) and (not root or bounds.writes((root,))))
    return _asked(words, title, params, "edit", item=item, paths=paths, options=options, beyond=beyond)


def _running(params: JsonObject, command: str) -> str:
    what = "Run" if params.get("kind") in (None, "command") else "Type into a running command"
    return f"{what}: {command}"


def _offered(params: JsonObject, *otherwise: str) -> tuple[PermissionOption, ...]:
    """The answers that the engine takes: those that it lists, and `decline` always."""
    words = otherwise if params.get("availableDecisions") is None else texts_in(params, "availableDecisions")
    return tuple(option for word, option in _OPTIONS.items() if word in words or word == "decline")
