"""What the app-server may ask: a request in, the question for whoever decides and every answer in its words out.

Shapes: the schema of 0.163.0; the answers to commands, file changes, permissions, user input and elicitations were
observed too, the others only read.

Traps:

- A file change that is accepted is written by the engine, outside its sandbox, also through links: the paths are
  resolved when the question is asked, and a command that runs at the same time could change them after that.
- `decline` is honoured where `availableDecisions` does not list it (observed). `cancel` interrupts the whole turn.
- The answers to `request_user_input` go to the model as they are (observed), and `{"answers": {}}` tells it nothing, so
  that it is told in words that nobody is there.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from subagent_codex.options import Sandbox
from subagent_process import JsonObject, RpcError
from subagents import OptionKind, PermissionOption, PermissionRequest, ToolKind

if TYPE_CHECKING:
    from subagent_codex._turn import Turn

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
_PROTECTED: Final = frozenset({".git", ".agents", ".codex", ".aws"})
"""Folders that the sandbox keeps read-only below what it may write."""

_NOBODY: Final = "(Automatic answer: nobody is here to be asked. Decide yourself, and say in the end what you chose.)"
_TITLE: Final = 200  # characters
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


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the configuration gives by itself.  What cannot be told is not given.

    Attributes:
        turn: what is known about the steps that are asked about.
        sandbox: what the engine runs commands in.
        roots: what it may write under workspace-write, absolute; the working folder first.
        network: commands may use the network.
    """

    turn: Turn
    sandbox: Sandbox
    roots: tuple[str, ...]
    network: bool

    @property
    def open(self) -> bool:
        """There is no sandbox."""
        return self.sandbox == "danger-full-access"

    def writes(self, paths: tuple[str, ...]) -> bool:
        """A command could write all of these by itself; False when there are none to look at."""
        if self.open:
            return True
        return self.sandbox == "workspace-write" and bool(paths) and all(map(self._writable, paths))

    def runs(self, item: str, params: JsonObject) -> bool:
        """A command does no more once it is approved than the sandbox lets it."""
        if self.open:
            return True
        return (
            not self.turn.escalates(item)
            and params.get("kind") in (None, "command")  # else it is input for a terminal, which may be outside
            and params.get("approvalId") is None  # else it is a part of a command, of which nothing is known
            and params.get("additionalPermissions") is None
            and (self.network or params.get("networkApprovalContext") is None)
        )

    def _writable(self, path: str) -> bool:
        try:
            real = os.path.realpath(os.path.join(self.roots[0], path))
            below = [os.path.relpath(real, os.path.realpath(root)).split(os.sep) for root in self.roots]
        except (ValueError, IndexError):  # a null character in it; no roots
            return False
        return any(parts[0] != os.pardir and _PROTECTED.isdisjoint(parts) for parts in below)


def question(method: str, params: JsonObject, bounds: Bounds) -> Question:
    """What a request asks, whatever its params hold.

    Raises:
        RpcError: the method is unknown (-32601), or nothing that is true can be answered (-32000).
    """
    kind = _KINDS.get(method)
    if kind is None:
        raise RpcError.method_not_found(method)
    return kind(params, bounds)


# -- the kinds ---------------------------------------------------------------------------------------------------------


def _command(params: JsonObject, bounds: Bounds) -> Question:
    item, command = _text(params, "itemId"), _text(params, "command")
    network = _object(params, "networkApprovalContext")
    title = f"Reach {_text(network, 'host')} ({_text(network, 'protocol')})" if network else _running(params, command)
    options, beyond = _offered(params, "accept"), not bounds.runs(item, params)
    kind: ToolKind = "fetch" if network else "execute"
    return _asked(_DECISIONS, title, params, kind, item=item, command=command, options=options, beyond=beyond)


def _file_change(params: JsonObject, bounds: Bounds) -> Question:
    item = _text(params, "itemId")
    return _changing(_DECISIONS, params, bounds, item, bounds.turn.change_paths(item))


def _permissions(params: JsonObject, bounds: Bounds) -> Question:
    wanted = _object(params, "permissions")
    words: Words = {
        "allow_once": {"permissions": wanted, "scope": "turn"},
        "reject_once": {"permissions": {}, "scope": "turn"},
        "cancel": {"permissions": {}, "scope": "turn"},
    }
    title = f"Grant more permissions for this turn: {_text(params, 'reason') or ', '.join(wanted)}"
    return _asked(words, title, params, item=_text(params, "itemId"), beyond=not bounds.open)


def _user_input(params: JsonObject, _: Bounds) -> Question:
    questions = [cast("JsonObject", q) for q in _list(params, "questions") if isinstance(q, dict)]
    answers: JsonObject = {_text(q, "id"): {"answers": [_NOBODY]} for q in questions}
    title = "; ".join(_text(q, "question") for q in questions)
    return _unasked(f"Answer: {title}", no={"answers": answers}, cancel={"answers": {}})


def _elicitation(params: JsonObject, bounds: Bounds) -> Question:
    """Asked only where a bare yes says all: a tool call, or a form without a field that has to be filled."""
    title = f"{_text(params, 'serverName')}: {_text(params, 'message') or _text(params, 'title')}"
    bare = params.get("mode") in _FORMS and not _object(params, "requestedSchema").get("required")
    if not bare or _object(params, "_meta").get("codex_approval_kind") not in (None, "mcp_tool_call"):
        return _unasked(title, no=_ACTIONS["reject_once"], cancel=_ACTIONS["cancel"])
    return _asked(_ACTIONS, title, params, beyond=not bounds.open)  # a server of tools runs outside the sandbox


def _tool_call(params: JsonObject, _: Bounds) -> Question:
    tool = _text(params, "tool")
    told = {"type": "inputText", "text": f"This client has no tool {tool!r}."}
    return _unasked(f"Call the client's tool {tool}", no={"contentItems": [told], "success": False})


def _old_command(params: JsonObject, bounds: Bounds) -> Question:
    item = _text(params, "callId")
    command = shlex.join(part for part in _list(params, "command") if isinstance(part, str))
    options, beyond = _offered({}, "accept", "acceptForSession"), not bounds.runs(item, params)
    title = _running(params, command)
    return _asked(_OLD_DECISIONS, title, params, "execute", item=item, command=command, options=options, beyond=beyond)


def _old_file_change(params: JsonObject, bounds: Bounds) -> Question:
    changes = _object(params, "fileChanges")
    moved = (_text(cast("JsonObject", change), "move_path") for change in changes.values() if isinstance(change, dict))
    return _changing(_OLD_DECISIONS, params, bounds, _text(params, "callId"), (*changes, *filter(None, moved)))


def _time(_: JsonObject, __: Bounds) -> Question:
    return _unasked("the time", no={"currentTimeAt": int(time.time())}, counted=False)


def _no_tokens(_: JsonObject, __: Bounds) -> Question:
    raise RpcError(_NO_RESULT, "this client keeps no ChatGPT sign-in: sign in with `codex login`")


def _no_attestation(_: JsonObject, __: Bounds) -> Question:
    raise RpcError(_NO_RESULT, "this client can attest nothing")


_KINDS: Final[Mapping[str, Callable[[JsonObject, Bounds], Question]]] = {
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
    line = _line(title)
    request = PermissionRequest(
        line,
        kind,
        item,
        command or None,
        paths,
        reason=_text(params, "reason"),
        options=options,
        beyond=beyond,
        data={name: params[name] for name in _TOLD if params.get(name) is not None},
    )
    return Question(words, line, request)


def _unasked(title: str, *, no: JsonObject, cancel: JsonObject | None = None, counted: bool = True) -> Question:
    return Question({"reject_once": no, "cancel": no if cancel is None else cancel}, _line(title), counted=counted)


def _changing(words: Words, params: JsonObject, bounds: Bounds, item: str, paths: tuple[str, ...]) -> Question:
    root = _text(params, "grantRoot")
    title = f"Change {', '.join(paths) or 'files'}" + (f", and grant {root}" if root else "")
    options = _offered({}, "accept", "acceptForSession")
    beyond = not (bounds.writes(paths) and (not root or bounds.writes((root,))))
    return _asked(words, title, params, "edit", item=item, paths=paths, options=options, beyond=beyond)


def _running(params: JsonObject, command: str) -> str:
    what = "Run" if params.get("kind") in (None, "command") else "Type into a running command"
    return f"{what}: {command}"


def _offered(params: JsonObject, *otherwise: str) -> tuple[PermissionOption, ...]:
    """The answers that the engine takes: those that it lists, and `decline` always."""
    words = _list(params, "availableDecisions") or otherwise
    return tuple(option for word, option in _OPTIONS.items() if word in words or word == "decline")


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TITLE else line[: _TITLE - 1] + "…"


def _text(params: JsonObject, name: str) -> str:
    value = params.get(name)
    return value if isinstance(value, str) else ""


def _object(params: JsonObject, name: str) -> JsonObject:
    value = params.get(name)
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _list(params: JsonObject, name: str) -> list[object]:
    value = params.get(name)
    return cast("list[object]", value) if isinstance(value, list) else []
