"""What importing costs, each in a fresh interpreter, over one that imports nothing.  Goal: under 100 ms."""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks._measure import side_by_side


def fresh(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return (time.perf_counter() - began) * 1e3


def main() -> None:
    names = ("subagent_process", "subagents", "subagent_local", "subagent_testing", "pydantic", "httpx")
    side_by_side(
        "a fresh interpreter that imports",
        "ms",
        {"nothing": lambda: fresh("pass"), **{name: lambda n=name: fresh(f"import {n}") for name in names}},
    )


if __name__ == "__main__":
    main()
