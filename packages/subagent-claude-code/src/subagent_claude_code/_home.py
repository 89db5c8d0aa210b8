"""CLAUDE_CONFIG_DIR: a throwaway one, a pinned one, or the person's own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from subagent_claude_code.options import ClaudeCodeOptions
from subagent_process import ThrowawayHome, throwaway_home
from subagents import Link
from subagents.backend.homes import pinned_home


@dataclass(frozen=True, slots=True)
class Home:
    """Where a run's engine keeps its files.

    Attributes:
        config: CLAUDE_CONFIG_DIR; None where it is the person's own.
        private: HOME, TMPDIR and the rest, removed after the run; in an inherited home only what tools need.
    """

    config: Path | None
    private: ThrowawayHome

    @property
    def own(self) -> Path:
        """The folder for what we write for the engine."""
        return self.private.path("own")


@asynccontextmanager
async def open_home(options: ClaudeCodeOptions, link: Link) -> AsyncGenerator[Home]:
    """The home of one run.

    Raises:
        StartError: a pinned home cannot be made.
        subagent_process.HomeError: no private folder could be made.
    """
    async with throwaway_home("claude", "own") as private:
        if options.home == "isolated":
            yield Home(private.path("claude"), private)
        elif options.home == "inherit":
            yield Home(None, private)
        else:
            path = Path(options.home)
            async with pinned_home(path, link):
                yield Home(path, private)
