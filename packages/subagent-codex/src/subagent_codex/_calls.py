"""The raw calls of the model and what they were answered: the trace of the steps that never become an item.

Codex 0.163.0 emits no item for a call that its rules refused, for a command that ended at once and whose failure it
puts down to the sandbox, for a patch that does not apply, and for tools of its own (`write_stdin`, the `exec` of code
mode). A text counts as a refusal only where the engine wrote it: the answer to a command that ran begins with a head of
the engine's, and its output, which may hold any words, comes after that. All texts were seen on 0.163.0, but for those
marked read.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

from subagent_codex._items import output_text
from subagents import ToolEvent, ToolKind, ToolStatus
from subagents.backend.values import JsonObject, listed, object_in, one_line, tail, text_in, texts_in

CALLS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})

Refusal: TypeAlias = Literal["", "engine", "caller"]

_KINDS: Final[dict[str, ToolKind]] = {
    "exec_command": "execute",
    "shell": "execute",
    "shell_command": "execute",
    "local_shell": "execute",
    "write_stdin": "execute",
    "exec": "execute",
    "apply_patch": "edit",
    "view_image": "read",
    "tool_search": "search",
    "web_search": "search",
    "update_plan": "think",
}
_SHELLS: Final = frozenset({"exec_command", "shell", "shell_command", "local_shell"})
_HEAD: Final = re.compile(
    r"(?:Chunk ID: \S{1,40}\n)?Wall time: [^\n]{1,40}\n(?:Process exited with code (-?\d{1,10})\n)?"
)
_EXIT: Final = re.compile(r"Exit code: (-?\d{1,10})\n")
_CALLER: Final = re.compile(
    r'exec_command failed: CreateProcess \{ message: "Rejected\(\\?"(?:rejected by user|approval request failed)'
    r"|patch rejected by user|patch rejected: approval request failed"
    r"|rejected by user"  # read
)
_ENGINE: Final = re.compile(
    r'exec_command failed: CreateProcess \{ message: "Rejected\(\\?"(?!Failed to )'
    r"|approval policy is \w+; reject command"
    r"|patch rejected"
    r"|MCP tool call requires approval, but approval policy is never"
)
_FAILED: Final = re.compile(
    r"\w{1,40} failed: |\w{1,40} verification failed|unsupported call: |unable to |failed to |aborted|err(?:or)?:"
    r"|\w{1,40} is unavailable in |Script failed",
    re.IGNORECASE,
)
_FILES: Final = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.{1,4096})$", re.MULTILINE)
_HEADERS: Final = 65_536  # characters of a patch in which its files are looked for
_PLAIN: Final = (None, "use_default")
_ASKS: Final = frozenset({"with_escalated_permissions", "additional_permissions"})


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the model.

    Attributes:
        name: of the tool.
        title: what it does, in one line.
        command: the script of a shell call, at most 4 KiB.
        paths: the files that a patch names.
        plain: a shell call that does not ask to leave the sandbox.
    """

    name: str
    title: str
    command: str | None = None
    paths: tuple[str, ...] = ()
    plain: bool = False

    @property
    def shell(self) -> bool:
        """It runs a command."""
        return self.name in _SHELLS

    def event(
        self, call_id: str, status: ToolStatus, output: str, exit_code: int | None, parent: str | None
    ) -> ToolEvent:
        """The step that the call was."""
        kind = _KINDS.get(self.name, "other")
        return ToolEvent(call_id, self.title, kind, status, self.command, self.paths, tail(output), exit_code, parent)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call was answered.

    Attributes:
        status: `failed` when it was refused, or did not succeed.
        output: the text without the engine's head.
        exit_code: of a command that ran.
        refusal: who refused it: nobody, the engine's rules, or the caller that was asked.
    """

    status: ToolStatus
    output: str
    exit_code: int | None
    refusal: Refusal


def call_of(item: JsonObject) -> Call:
    """A raw call as a step."""
    name = text_in(item, "name") or ("local_shell" if text_in(item, "type") == "local_shell_call" else "")
    given = _arguments(item)
    if name == "apply_patch":
        paths = tuple(dict.fromkeys(_FILES.findall(text_in(item, "input")[:_HEADERS])))
        return Call(name, one_line(f"edit {listed(paths) or 'files'}"), paths=paths)
    command = text_in(given, "cmd") or text_in(given, "command") or " ".join(texts_in(given, "command"))
    if name in _SHELLS:
        plain = bool(command) and item.get("namespace") is None and given.get("sandbox_permissions") in _PLAIN
        return Call(name, one_line(command) or name, command[:4096] or None, plain=plain and _ASKS.isdisjoint(given))
    if name == "exec":
        script = text_in(item, "input") or text_in(given, "code")
        return Call(name, one_line(script) or name, script[:4096] or None)
    if name == "view_image" and (path := text_in(given, "path")):
        return Call(name, one_line(f"look at {path}"), paths=(path,))
    return Call(name, one_line(name) or "a tool")


def answer_of(item: JsonObject) -> Answer:
    """A raw output, told apart by the words with which it begins."""
    text = output_text(item)
    if _CALLER.match(text):
        return Answer("failed", text, None, "caller")
    if _ENGINE.match(text):
        return Answer("failed", text, None, "engine")
    found = _HEAD.match(text)
    if found is not None:
        code, rest = found[1], text[found.end() :].split("Output:\n", 1)[-1]
    elif (found := _EXIT.match(text)) is not None:
        code, rest = found[1], text.split("Output:\n", 1)[-1]
    else:
        return Answer("failed" if _FAILED.match(text) else "completed", text, None, "")
    exit_code = None if code is None else int(code)
    return Answer("failed" if exit_code else "completed", rest, exit_code, "")


def _arguments(item: JsonObject) -> JsonObject:
    if action := object_in(item, "action"):  # local_shell_call
        return action
    try:
        given: object = json.loads(text_in(item, "arguments") or "{}")
    except (ValueError, RecursionError):
        return {}
    return cast("JsonObject", given) if isinstance(given, dict) else {}
