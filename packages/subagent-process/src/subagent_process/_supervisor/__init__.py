"""The supervisors of owned children: guard, warden, keeper.  Standard library only.

They run as processes of their own, started as ``python -I -S`` with this folder's *parent* appended to ``sys.path``,
and so under the top-level name ``_supervisor``; the library and its tests import the same files as
``subagent_process._supervisor``.  Hence relative imports inside, nothing from outside the standard library, and no
module that is slow to import (``typing``, ``enum`` and with it ``signal`` and ``socket``): every millisecond here is
paid by the first child of a harness.

::

    harness ──socketpair, SCM_RIGHTS {ctl, 0, 1, 2}──► warden ──fork──► keeper ──posix_spawn──► leader ──► tools …
       │ ctl: one socketpair per child                    ▲                 ▲
       ├──────────────────────────────────────────────────┼─────────────────┘
       └──posix_spawn, once──► guard ──fork───────────────┘

All three are child-subreapers.  Who backs up whom: the orphans of a killed keeper re-parent to the warden, which
kills every child that is no keeper; those of a killed warden re-parent to the guard, which kills every child outside
its own session.  The death of any supervisor ends the runs below it; any two may die at the same instant.
Each resumes the one below it when somebody stops that.
"""
