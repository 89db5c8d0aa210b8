"""What the model said in a turn: pieces as they come, and which of the messages is the answer."""

from __future__ import annotations

from collections import Counter
from typing import Final, TypeAlias

from subagents import TextEvent, ThoughtEvent

Piece: TypeAlias = type[TextEvent] | type[ThoughtEvent]
Key: TypeAlias = tuple[str | None, str]
"""The step whose sub-agent speaks, and the id of the item."""

_FIRST: Final = ("final_answer", "")


class Text:
    """A message or a thought that is being written.

    Attributes:
        id: of its events.
        parts: what was told of it.
    """

    __slots__ = ("_make", "id", "parent", "parts", "phase")

    def __init__(self, make: Piece, id: str, parent: str | None, phase: str) -> None:  # noqa: A002  # as in the event
        self._make, self.id, self.parent, self.phase = make, id, parent, phase
        self.parts: list[str] = []

    def piece(self, delta: str) -> TextEvent | ThoughtEvent:
        """The event of one more piece."""
        self.parts.append(delta)
        return self._make(delta, self.id, self.parent)

    @property
    def message(self) -> bool:
        """It is no thought."""
        return self._make is TextEvent

    @property
    def whole(self) -> str:
        """What there is of it."""
        return "".join(self.parts)


class Said:
    """The texts of a turn."""

    def __init__(self) -> None:
        self._open: dict[Key, Text] = {}
        self._times: Counter[Key] = Counter()  # how often an item of that id has ended
        self._whole: set[tuple[Key, str]] = set()  # what ended as what
        self._unsettled: list[tuple[Key, str]] = []  # of these, what belongs to the response under way
        self._messages: list[tuple[str, str]] = []  # phase and text of those that may be the answer
        self._settled = 0  # so many of them belong to responses that are whole
        self._superseded = ""

    def find(self, item: str, parent: str | None) -> Text | None:
        """The open text of that item."""
        return self._open.get((parent, item))

    def open(self, make: Piece, item: str, parent: str | None, phase: str = "") -> Text:
        """A text that begins; one that has begun stays as it is.

        A server that repeats a response may repeat the id of a message: the second one gets an id of its own, for
        pieces of one id are one message.
        """
        found = self._open.get((parent, item))
        if found is None:
            times = self._times[parent, item]
            found = self._open[parent, item] = Text(make, f"{item}~{times + 1}" if times else item, parent, phase)
        return found

    def close(
        self, make: Piece, item: str, parent: str | None, whole: str, phase: str
    ) -> TextEvent | ThoughtEvent | None:
        """A text that is complete; the event of what was not told of it, if anything was not."""
        key = (parent, item)
        if key not in self._open and (key, whole) in self._whole:
            return None  # said again
        text = self.open(make, item, parent, phase)
        del self._open[key]
        told = text.whole
        self._times[key] += 1
        self._whole.add((key, whole))
        self._unsettled.append((key, whole))
        if make is TextEvent and text.parent is None:
            self._messages.append((phase or text.phase, whole or told))
        if make is ThoughtEvent and told:
            return None  # its summary is told in parts, which a complete one joins in another way
        return text.piece(whole[len(told) :]) if len(whole) > len(told) and whole.startswith(told) else None

    @property
    def speaking(self) -> bool:
        """A message or a thought has begun, and is not complete."""
        return bool(self._open)

    def responded(self) -> None:
        """A response of the model is whole: what it said stays."""
        self._settled = len(self._messages)
        self._unsettled.clear()

    def retried(self) -> None:
        """The response under way will be repeated: what came of it is no answer."""
        partial = [*self._messages[self._settled :], *self._unfinished()]
        if partial:
            self._superseded = _chosen(partial)
        del self._messages[self._settled :]
        self._whole.difference_update(self._unsettled)  # it may be said again, word for word
        self._unsettled.clear()
        for key in [key for key in self._open if key[0] is None]:
            del self._open[key]
            self._times[key] += 1

    @property
    def answer(self) -> str:
        """The answer of a turn that completed; of the complete messages if there are any."""
        return _chosen(self._messages) or _chosen(self._unfinished())

    @property
    def so_far(self) -> str:
        """What there is of an answer in a turn that did not complete: what was being said counts too."""
        return _chosen([*self._messages, *self._unfinished()]) or self._superseded

    def _unfinished(self) -> list[tuple[str, str]]:
        return [(text.phase, text.whole) for text in self._open.values() if text.message and text.parent is None]


def _chosen(messages: list[tuple[str, str]]) -> str:
    for wanted in _FIRST:
        for phase, text in reversed(messages):
            if phase == wanted:
                return text
    return messages[-1][1] if messages else ""
