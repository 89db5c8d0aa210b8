"""`python -m subagents._cli`: the command without its script."""

from __future__ import annotations

import sys

from subagents._cli import main

if __name__ == "__main__":
    sys.exit(main())
