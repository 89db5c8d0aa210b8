"""What the tests of the Claude Code engine share."""

from __future__ import annotations

import sys
from pathlib import Path

# pytest's importlib mode puts no folder on the path, and the helpers of this area are of no use to another one.
sys.path.insert(0, str(Path(__file__).parent))
