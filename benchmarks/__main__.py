"""Runs every benchmark: `uv run python -m benchmarks`."""

from __future__ import annotations

from benchmarks import framing, imports, peers, process, seam

if __name__ == "__main__":
    for module in (seam, process, peers, framing, imports):
        module.main()
