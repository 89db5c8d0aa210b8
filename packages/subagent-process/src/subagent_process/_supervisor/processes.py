"""Who is there: the one of ``procfs`` and ``sysctl`` that this system answers."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING or sys.platform != "darwin":
    from .procfs import children, environment, name_of, pids, started
else:
    from .sysctl import children, environment, name_of, pids, started

__all__ = ["children", "environment", "name_of", "pids", "started"]
