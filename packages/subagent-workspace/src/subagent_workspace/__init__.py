"""The working folder of a delegated task: what a path may be, what changed, writing all or nothing, worktrees."""

from __future__ import annotations

__all__: list[str] = []
