"""`python -m subagents` is the command `subagents`."""

import sys

from subagents._cli import main

sys.exit(main())
