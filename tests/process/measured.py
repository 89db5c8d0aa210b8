"""The supervisors under measurement, where the tests are."""

from __future__ import annotations

from pathlib import Path

import coverage

from subagent_process import _launcher as launcher  # pyright: ignore[reportPrivateUsage]

# The supervisors run as `python -I -S`, where coverage cannot start by itself.  When the tests are measured, this boot
# text is used in place of the library's: the same, with a measurement around each process of theirs.  What a SIGKILL
# ends writes nothing.
MEASURED = """
import os, sys
sys.path.append(sys.argv[1])
sys.path.append({site!r})
import coverage

def begin():
    global measured
    only = [sys.argv[1] + "/_supervisor/*"]
    measured = coverage.Coverage({data!r}, True, branch=True, include=only, config_file=False)
    measured.start()

def leave(code, leave=os._exit):
    measured.stop()
    measured.save()
    leave(code)

os._exit = leave
begin()
os.register_at_fork(after_in_child=lambda: (measured.stop(), begin()))
from _supervisor.guard import main
main(int(sys.argv[2]), sys.argv[3] == "1")
"""


def measure_supervisors() -> None:
    """Of this process: the tests, or a harness of theirs."""
    current = coverage.Coverage.current()
    if current is not None:
        site = str(Path(coverage.__file__).parent.parent)
        data = str(Path(current.config.data_file).absolute())
        launcher._BOOT = MEASURED.format(site=site, data=data)  # pyright: ignore[reportPrivateUsage]
