"""What is said in lines: pure functions from events and results to text that has been made visible."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from rich.filesize import decimal
from rich.text import Text

from subagents import (
    Changes,
    Failure,
    FailureKind,
    FileChange,
    NoticeEvent,
    PermissionEvent,
    PlanEvent,
    Result,
    ToolEvent,
    Usage,
    WorktreeReport,
    visible,
)

_MARKS: Final[Mapping[str, tuple[str, str]]] = {
    "pending": ("·", "dim"),
    "in_progress": ("▸", "cyan"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
}
_LEVELS: Final[Mapping[str, str]] = {"info": "dim", "warning": "yellow", "error": "red"}
_NEXT: Final[Mapping[FailureKind, str]] = {
    "limit": "The quota is used up: wait, or take another provider or model.",
    "auth": "Sign in with the engine's own command, or give it its key, and run again.",
    "launch": "Check what the message names, then run again; `subagents doctor` shows what works here.",
    "protocol": "The engine and this version may not fit: update both, then run again.",
    "exit": "Run again; --debug shows what the library saw.",
    "network": "See that the address can be reached from here (proxy and index settings included), then run again.",
    "overload": "The service is busy: run again later.",
    "budget": "Raise --budget, or give a smaller task.",
    "model": "`subagents models PROVIDER`, with the same -o, lists its models; choose another with --model.",
    "policy": "A rule of the engine or of its options stands against it: change the task or the rule.",
    "output": "Run again, ask for less, or take a stronger --model.",
    "timeout": "Raise --deadline or --idle-limit, or give a smaller task.",
    "unknown": "Run again with --debug to see more.",
}


def one_line(text: str, limit: int = 400) -> str:
    """The text on one line, hidden characters shown, cut where it is too long for a line of a log."""
    words = " ".join(visible(text[: 4 * limit]).split())
    return words if len(words) <= limit else f"{words[: limit - 1]}…"


def tool_line(event: ToolEvent) -> Text:
    """A step: its mark, kind and title."""
    mark, style = _MARKS[event.status]
    line = Text("  " if event.parent else "")
    line.append(f"{mark} ", style)
    line.append(f"{event.kind}  ", "bold")
    line.append(one_line(event.title or event.command or " ".join(event.paths)))
    if event.status == "failed" and event.exit_code is not None:
        line.append(f"  (exit code {event.exit_code})", "red")
    return line


_DIFF: Final[Mapping[str, str]] = {"+": "green", "-": "red", "@": "cyan"}


def diff_lines(event: ToolEvent) -> list[Text]:
    """The unified diff that an edit step carries, in git's colours; nothing where its output is something else."""
    if event.kind != "edit" or not event.output.startswith("--- "):
        return []
    return [Text(visible(line), _DIFF.get(line[:1], "")) for line in event.output.rstrip("\n").split("\n")]


def plan_lines(event: PlanEvent) -> list[Text]:
    """The plan, a line for each entry."""
    return [
        Text.assemble(
            _MARKS[entry.status], " ", (one_line(entry.content), "dim" if entry.status == "completed" else "")
        )
        for entry in event.entries
    ]


def thought_line(text: str) -> Text:
    """The gist of a thought."""
    return Text(f"  {one_line(text, 160)}", "dim italic")


def notice_line(event: NoticeEvent) -> Text:
    """A notice in the colour of its level."""
    return Text(f"{'' if event.level == 'info' else event.level + ': '}{one_line(event.text)}", _LEVELS[event.level])


def permission_line(event: PermissionEvent) -> Text:
    """What the child was told."""
    assert event.choice is not None
    reason = f" ({one_line(event.choice.reason)})" if event.choice.reason else ""
    return Text(f"{event.choice.kind}: {one_line(event.request.title)}{reason}", "yellow")


def amount(done: float, total: float | None, unit: str) -> str:
    """How far something is: `12.3/98.9 MB`, `3/12 steps`."""
    if unit == "bytes":
        return decimal(int(done)) + (f"/{decimal(int(total))}" if total else "")
    return f"{done:,.0f}" + (f"/{total:,.0f}" if total else "") + (f" {one_line(unit, 20)}" if unit else "")


def seconds(value: float) -> str:
    """A duration for people: `1.2 s`, `3:07`, `1:02:03`."""
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def usage_words(usage: Usage, cost: float | None) -> str:
    """Tokens and cost as far as they are known: `120 in, 45 out tokens · $0.0123`."""
    tokens = [
        f"{n:,} {word}" for n, word in ((usage.input_tokens, "in"), (usage.output_tokens, "out")) if n is not None
    ]
    parts = [f"{', '.join(tokens)} tokens"] if tokens else []
    if cost is not None:
        parts.append(f"${cost:.4f}")
    return " · ".join(parts)


def summary_line(result: Result) -> Text:
    """The last line: stop reason, usage, cost, duration, model."""
    parts = (usage_words(result.usage, result.cost_usd), seconds(result.duration), one_line(result.model or "", 80))
    line = Text(result.stop_reason, "green" if result.ok else "yellow" if result.failure is None else "red")
    line.append("".join(f" · {part}" for part in parts if part), "dim")
    return line


_STATUS: Final[Mapping[str, tuple[str, str]]] = {  # the letters of git
    "added": ("A", "green"),
    "modified": ("M", "yellow"),
    "deleted": ("D", "red"),
    "renamed": ("R", "cyan"),
}
_SHOWN: Final = 20


def change_lines(changes: Changes) -> list[Text]:
    """What the run did to its folder: a line for each file and commit, and what could not be looked at."""
    lines = [_file_line(file) for file in changes.files[:_SHOWN]]
    if more := len(changes.files) + changes.more - len(lines):
        lines.append(Text(f"  and {more} more file{'s' * (more != 1)}", "dim"))
    lines += [
        Text.assemble("  ", (commit.id[:12], "yellow"), " ", one_line(commit.subject, 100))
        for commit in changes.commits
    ]
    if changes.more_commits:
        lines.append(Text(f"  and {changes.more_commits} more commits", "dim"))
    if changes.head_moved:
        lines.append(Text("  HEAD moved: not all of this is the run's own work", "yellow"))
    return [*lines, *(Text(f"  not looked at: {one_line(note)}", "dim") for note in changes.unseen)]


def _file_line(file: FileChange) -> Text:
    letter, style = _STATUS[file.status]
    name = f"{file.old_path} → {file.path}" if file.old_path else file.path
    counts = "".join(f" {sign}{count}" for sign, count in (("+", file.added), ("-", file.removed)) if count is not None)
    return Text.assemble("  ", (letter, style), " ", one_line(name), (counts, "dim"))


def worktree_lines(report: WorktreeReport) -> list[Text]:
    """What became of the worktree, and of its branch."""
    branch = f"branch {one_line(report.branch)}" if report.branch else ""
    if report.path is not None:
        line = Text(", ".join(part for part in (f"worktree {one_line(report.path)}", branch) if part))
    else:
        line = Text(f"the worktree was removed: {branch or 'nothing is in it'}", "" if branch else "dim")
    return [line, *(Text(f"  {one_line(note)}", "yellow") for note in report.notes)]


def failure_lines(failure: Failure) -> list[Text]:
    """Kind, stage and message, and what to do next."""
    hint = _NEXT[failure.kind]
    if failure.retry_at is not None:
        hint += time.strftime(" A retry makes sense from %Y-%m-%d %H:%M.", time.localtime(failure.retry_at))
    return [Text(visible(f"{failure.kind} during {failure.stage}: {failure.message}"), "red"), Text(hint)]
