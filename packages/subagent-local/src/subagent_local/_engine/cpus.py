"""How many threads the engine gets when nobody says.

Its own default was 4 times slower at reading a prompt on a machine of two cores (65 against 245 tokens a second), so
the number is always given. More threads than processors is worse than too few: they wait for each other in a loop
that burns processor time, and one that is not scheduled stops all (observed: 13 against 90 tokens a second on a busy
machine).
"""

from __future__ import annotations

import os
from pathlib import Path

_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def default_threads(quota: Path = _QUOTA) -> int:
    """The processors that this process may use, by affinity and by the limit of its container."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        limit, period = quota.read_text().split()
        usable = min(usable, max(1, int(limit) // int(period)))
    except (OSError, ValueError, ZeroDivisionError):
        pass  # no such file outside of a container, and "max" inside of one without a limit
    return threads_for(usable)


def threads_for(processors: int) -> int:
    """Half of many processors: on larger machines two mostly share a core, and a model gains nothing from that."""
    return processors if processors <= 4 else max(4, processors // 2)
