"""A fake `claude`: a program that speaks the stream of JSON lines of 2.1.332, and follows a script if one is given.

    from subagent_testing import FakeClaude

    with FakeClaude({"turn": [{"tool": {"name": "Bash", "ask": True}}, {"text": "done"}]}) as fake:
        ...  # configure the provider with fake.executable
        fake.wait_for("user")
    assert not [v for v in fake.verdicts if v.wrong]

Without a script it answers each message of the user with one text.  With one it also does what the real one cannot be
made to do.  The steps of a script are listed in `docs/testing.md`.

Traps: it asks for permission when its script says so, whatever its command line says of permissions; no tool of it does
anything but `Write`.  Whoever lives after the test ends with it, since it holds a socket whose other end is here, and
is killed where it does not hear that (stopped, or writing to who does not read); close this after what is under test
has ended.
"""

from __future__ import annotations

from typing import ClassVar

from subagent_testing._fake_claude.play import VERBS
from subagent_testing._fake_program import FakeProgram


class FakeClaude(FakeProgram):
    """A `claude` that follows a script; a plain context manager, at home in any event loop or none.

    Args:
        script: `{"turn": […], "on": {OCCURRENCE: [[…], […]]}, …}`, as `docs/testing.md` says; plain JSON.

    Attributes:
        executable: the program, for a provider's configuration.  It may run many times, also at once.
        heard: all that happened in all its processes, in order.  What comes before something that a client sees is here
            when the client sees it.

    Raises:
        ValueError: the script has a member or a step that does not exist; or this Python's path is too long or has a
            space, so that no program can start with it.
    """

    _name: ClassVar[str] = "claude"
    _package: ClassVar[str] = "_fake_claude"
    _members: ClassVar[frozenset[str]] = frozenset({"turn", "on", "version", "signed_in"})
    _verbs: ClassVar[frozenset[str]] = VERBS
