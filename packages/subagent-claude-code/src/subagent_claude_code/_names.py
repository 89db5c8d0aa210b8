"""Names that Claude Code knows: of tools, of models; and what is no name of one.

A tool that is misspelt would be accepted by the engine and then do nothing: a tool that is not there, a rule that
forbids nothing. So a name that is not in the table is refused before anything starts. The table is that of 2.1.332;
where `executable` names another Claude Code, which may know more, only the names of servers are looked at.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator

Effort: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]

TOOLS: Final = frozenset(
    """
    Agent Artifact AskUserQuestion Bash ClaudeDesign CronCreate CronDelete CronList Edit EndConversation EnterPlanMode
    EnterWorktree ExitPlanMode ExitWorktree Glob Grep LSP ListAgents ListMcpResourcesTool Monitor NotebookEdit
    OfferChromeSetup PowerShell Projects PushNotification Read ReadMcpResourceDirTool ReadMcpResourceTool
    ReadNotifications RemoteTrigger ReportFindings ScheduleWakeup SendFeedback SendMessage SendUserFile SendUserMessage
    SetGoal ShareOnboardingGuide ShowOnboardingRolePicker Skill SubagentHandback TaskCreate TaskGet TaskList TaskStop
    TaskUpdate TodoWrite ToolSearch WaitForMcpServers WebFetch WebSearch Workflow Write propose_skills
    """.split()  # noqa: SIM905  # one word beside the other is easier to read
)
_FORMER: Final = {
    "Task": "Agent",
    "KillShell": "TaskStop",
    "KillBash": "TaskStop",
    "ListPeers": "ListAgents",
    "Brief": "SendUserMessage",
    "ListMcpResources": "ListMcpResourcesTool",
    "ReadMcpResource": "ReadMcpResourceTool",
    "ReadMcpResourceDir": "ReadMcpResourceDirTool",
    "ProposeGoal": "SetGoal",
}
"""Names that the engine still takes, and itself says (`Task`), for one that it has now."""

_PATTERNS: Final = frozenset({"Agent", "Bash", "Edit", "PowerShell", "Read", "Skill", "Task", "WebFetch"})
"""Tools whose rules take a pattern that the engine looks at (observed but for PowerShell); one on another
tool would match nothing, so that it forbade nothing."""

_RULE: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,127}(?:__\*)?)(\([^\r\n\0]{1,1000}\))?")
_OF_SERVER: Final = re.compile(r"mcp__(.+?)(?:__(.+))?")
_PLAIN_MODEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+\[\]-]{0,127}")


def present_name(tool: str) -> str:
    """The name that a tool has now."""
    return _FORMER.get(tool, tool)


def tool_of(rule: str) -> str:
    """The tool that a rule is about: `Bash` of `Bash(git *)`.

    Raises:
        ValueError: it is no rule.
    """
    found = _RULE.fullmatch(rule)
    if found is None:
        raise ValueError(f"{rule[:80]!r} is no rule: a tool's name, or a name and a pattern, as `Bash(git *)`")
    tool, pattern = found[1], found[2]
    if pattern is None or pattern == "(*)":
        return tool
    if server_of(tool) is None and present_name(tool) not in TOOLS:  # an unknown one, of which the name is the fault
        return tool
    if tool not in _PATTERNS:
        raise ValueError(
            f"{rule[:80]!r} would match nothing: Claude Code looks at a pattern in Bash(…), Read(…), Edit(…) (which"
            " counts for Write and NotebookEdit too; Bash does for Monitor), WebFetch(domain:…), Agent(…) and Skill(…)"
        )
    if tool == "WebFetch" and not pattern.startswith("(domain:"):
        raise ValueError(f"{rule[:80]!r} would match nothing: it is WebFetch(domain:example.org)")
    return tool


def server_of(tool: str) -> str | None:
    """The MCP server that has the tool: `db` of `mcp__db__query`, `mcp__db__*` and `mcp__db`; None of others."""
    found = _OF_SERVER.fullmatch(tool)
    return found[1] if found else None


def check_names(tools: Iterable[str], *, servers: Collection[str] | None, newer: bool) -> None:
    """Refuse what is no name of a tool.

    Args:
        tools: the names.
        servers: the MCP servers that there can be; None where the person's own count too.
        newer: another Claude Code runs, which may have tools that the table has not.

    Raises:
        ValueError: one is unknown; the message lists those that are near.
    """
    for tool in tools:
        server = server_of(tool)
        if server is None:
            known: Collection[str] = TOOLS | _FORMER.keys()
            wrong, what = not newer and tool not in known, "tool of Claude Code, as Read or Bash"
        else:
            known = [] if servers is None else [f"mcp__{name}" for name in servers]
            wrong, what = servers is not None and server not in servers, "tool of a server that mcp_servers names"
        if wrong:
            near = difflib.get_close_matches(tool, known, n=3, cutoff=0.5)
            hint = f"; near it: {', '.join(near)}" if near else ""
            raise ValueError(f"{tool[:80]!r} is no {what}{hint}")


def check_model(value: str) -> str:
    """The value, which is a plain name of a model.

    Raises:
        ValueError: it is not.
    """
    if not _PLAIN_MODEL.fullmatch(value):
        raise ValueError(
            f"{value[:80]!r} is no plain name: letters, digits and . _ : / @ + - [ ] are allowed, at most 128"
            " characters, a letter or digit first"
        )
    return value


ModelName: TypeAlias = Annotated[str, AfterValidator(check_model)]
