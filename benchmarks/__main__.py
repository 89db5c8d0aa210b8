"""Runs every benchmark: `uv run python -m benchmarks`."""

from __future__ import annotations

from benchmarks import (
    claude_events,
    claude_run,
    codex_events,
    codex_run,
    framing,
    imports,
    local_edits,
    peer,
    peers,
    process,
    seam,
    workspace,
)

if __name__ == "__main__":
    floors = (seam, process, peers, peer, framing, imports, workspace)
    for module in (*floors, codex_events, codex_run, claude_events, claude_run, local_edits):
        module.main()
