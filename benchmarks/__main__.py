"""Runs every benchmark: `uv run python -m benchmarks`."""

from __future__ import annotations

from benchmarks import imports, seam

if __name__ == "__main__":
    seam.main()
    imports.main()
