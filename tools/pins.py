"""Moves the pins of the root pyproject.toml to the newest versions that resolve: `uv run python tools/pins.py`.

The pins stand where a lock file would: a lock names the addresses of a registry, and the tree holds none.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "constraint-dependencies = [\n", "]\n"


def resolved() -> list[str]:
    """`name==version` of every third-party package, for all supported Pythons and platforms."""
    subprocess.run(["uv", "lock", "--quiet", "--upgrade"], cwd=ROOT, check=True)
    lock = (ROOT / "uv.lock").read_text(encoding="utf-8")
    found = re.findall(r'^\[\[package\]\]\nname = "(.+)"\nversion = "(.+)"\nsource = \{ registry', lock, re.M)
    return sorted(f"{name}=={version}" for name, version in found)


def main() -> None:
    """Rewrite the list between its brackets."""
    path = ROOT / "pyproject.toml"
    head, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    path.write_text(head + BEGIN + END + tail, encoding="utf-8")
    pins = "".join(f'    "{pin}",\n' for pin in resolved())
    path.write_text(head + BEGIN + pins + END + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
