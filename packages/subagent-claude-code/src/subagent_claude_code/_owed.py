"""Whether the engine owes us a turn: which of our messages a result has answered, and what it says of itself.

Each message of ours has a name, and a result says which ones it answers (`user_message_uuids`: several where the engine
put a message into the turn that ran). A result with an `origin` and without such names answers nobody: it is that of a
turn which the engine began by itself. Where neither is there a result answers the oldest one, unless the engine has
named some before (older ones never do).
"""

from __future__ import annotations

from subagents.backend.values import JsonObject, object_in, texts_in


class Owed:
    """The messages of one run, and the turns that answer them.

    Attributes:
        asked: the first message has gone out.
        busy: a turn has begun behind the last result.
        results: how many turns have ended.
        lost: how many messages were given up.
    """

    def __init__(self) -> None:
        self.asked = self.busy = False
        self.results = self.lost = 0
        self._open: dict[str, None] = {}  # no result has answered them; in order
        self._state = ""
        self._named = False  # the engine names what it answers

    def sent(self, name: str) -> None:
        """A message goes out under this name."""
        self.asked = True
        self._open[name] = None

    def state(self, word: str) -> None:
        """What the engine says of itself: `running`, `requires_action`, `idle`."""
        self._state, self.busy = word, word != "idle"

    def answered(self, result: JsonObject) -> None:
        """A turn has ended with this."""
        self.results += 1
        self.busy = False
        told = texts_in(result, "user_message_uuids")
        names = [name for name in told if name in self._open]
        if not told and not self._named and not object_in(result, "origin"):
            names = [*self._open][:1]
        self._named = self._named or bool(told)
        for name in names:
            del self._open[name]

    def give_up(self) -> None:
        """Whatever is not answered will not be."""
        self.lost += len(self._open)
        self._open.clear()

    @property
    def pending(self) -> bool:
        """No result has answered one of our messages yet."""
        return bool(self._open)

    @property
    def resting(self) -> bool:
        """The engine is at nothing, although a message of ours may be on its way to it."""
        return self.results > 0 and not self.busy and self._state in ("", "idle")

    @property
    def settled(self) -> bool:
        """Nothing has begun behind the last result, and no message waits."""
        return self.results > 0 and not self.busy and not self.pending
