"""Runs every benchmark: `uv run python -m benchmarks`."""

from __future__ import annotations

from benchmarks import claude_events, claude_run, codex_events, codex_run, framing, imports, peer, peers, process, seam

if __name__ == "__main__":
    for module in (seam, process, peers, peer, framing, imports, codex_events, codex_run, claude_events, claude_run):
        module.main()
