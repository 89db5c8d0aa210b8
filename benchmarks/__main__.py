"""Runs every benchmark: `uv run python -m benchmarks`."""

from __future__ import annotations

from benchmarks import codex_events, codex_run, framing, imports, local_edits, peer, peers, process, seam, workspace

if __name__ == "__main__":
    for module in (seam, process, peers, peer, framing, imports, codex_events, codex_run, workspace, local_edits):
        module.main()
