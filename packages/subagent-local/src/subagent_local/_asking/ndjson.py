"""Newline-delimited JSON as Ollama streams it, decoded as the bytes come, in the shape of `sse`.

Linear in its input and bounded like `sse`. Blank lines pass. What is on a line is not looked at here: a line that is
no JSON is the reader's to refuse, because in an answer it may stand for half of one. The last line may lack its end.
"""

from __future__ import annotations

from subagent_local._asking.sse import LIMIT, EventTooLong, ServerEvent


class NdjsonDecoder:
    """Feed it what was read; it gives the lines that are complete."""

    def __init__(self, limit: int = LIMIT) -> None:
        """`limit` is the most bytes of one line."""
        self._limit = limit
        self._rest: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Decode the next bytes.

        Raises:
            EventTooLong: there is no end of a line in sight.
        """
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join([*self._rest, lines[0]])
            self._rest, self._size = [], 0
        self._rest.append(rest)
        self._size += len(rest)
        if self._size > self._limit:
            raise EventTooLong(f"a line of more than {self._limit} bytes")
        return [ServerEvent(line.decode("utf-8", "replace")) for line in lines if line.strip()]

    def close(self) -> list[ServerEvent]:
        """What the end of the stream completes."""
        return self.feed(b"\n")
