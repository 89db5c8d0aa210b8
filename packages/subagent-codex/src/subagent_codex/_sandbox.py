"""What the commands of one task get and may write, beside what the sandbox word of the options says by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from subagent_codex._roots import Access, GitRoots, git_roots
from subagent_codex._settings import profiled
from subagent_codex.options import CodexOptions
from subagent_process import ThrowawayHome, tool_env
from subagents import NoticeEvent
from subagents.backend.toolchains import read_above


@dataclass(frozen=True, slots=True)
class Opened:
    """What is opened for the commands of a task.

    Attributes:
        cwd: the working folder.
        tools: the whole environment of a command; empty where the person's own configuration makes it.
        filesystem: absolute paths beside the working folder that are open for writing, or closed in one that is.
        git: what was found out about the repository.
        notice: what whoever follows the run is told of the tools.
    """

    cwd: str
    tools: Mapping[str, str]
    filesystem: Mapping[str, Access]
    git: GitRoots
    notice: NoticeEvent | None = None

    @property
    def roots(self) -> tuple[str, ...]:
        """All folders that are open for writing, the working folder first."""
        return (self.cwd, *(path for path, access in self.filesystem.items() if access == "write"))

    @property
    def closed(self) -> tuple[str, ...]:
        """What in there is closed."""
        return tuple(path for path, access in self.filesystem.items() if access == "read")

    def without_git(self, reason: str) -> Opened:
        """The same with the folders of git left closed."""
        opened = self.git.filesystem
        kept: dict[str, Access] = {path: how for path, how in self.filesystem.items() if path not in opened}
        return Opened(self.cwd, self.tools, kept, GitRoots(self.git.kind, reason=reason), self.notice)


async def opened(options: CodexOptions, cwd: str, private: ThrowawayHome) -> Opened:
    """Find it out; git is asked once, for the identity of the person.

    Args:
        options: of the provider.
        cwd: the working folder.
        private: where the homes and caches of commands are made.

    Raises:
        OSError: they could not be made.
    """
    variables: Mapping[str, str] = {}
    notice: NoticeEvent | None = None
    writable = list(options.writable_roots)
    if options.home != "inherit":
        tools = await tool_env(cwd, private, real=options.tool_home == "real")
        variables = tools.variables
        notice = read_above(tools)
        writable += tools.writable
    git = GitRoots("none")
    if options.sandbox == "workspace-write" and options.git_writable is not False:
        git = git_roots(cwd, open_plain=bool(options.git_writable) or profiled(options))
    filesystem: dict[str, Access] = {**{str(path): "write" for path in writable}, **git.filesystem}
    return Opened(cwd, variables, filesystem, git, notice)
