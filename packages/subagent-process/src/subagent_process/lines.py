"""Newline-delimited JSON from a child that also writes other things.

The rules: a line ends at LF and nowhere else (not at U+2028, U+0085, VT, FS or a CR inside it); a message is a line
that is a JSON object, and a line of nothing but objects, at most 1,000, is as many; everything else is
noise, which is kept (bounded) for error texts and never joined to another line.  Tolerated around an object: CR, NUL,
blanks, a byte order mark, terminal control sequences, and what a progress bar wrote in front of a CR; between objects
CR, NUL, blanks and a byte order mark.  Tolerated inside it: invalid UTF-8 and lone surrogates (U+FFFD instead), raw
control characters in strings, NaN and infinity (null instead), duplicate names (the last counts).  Noise as well:
nesting that exhausts the parser, integers beyond Python's limit of digits.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Self, cast

import anyio
from anyio.abc import ByteReceiveStream

from .errors import LineTooLong
from .redaction import redact, redact_cut

__all__ = ["LineReader", "Messages"]

LIMIT = 64 * 1024 * 1024  # bytes of one line
_GLUED = 1000  # more is no writer that forgot its line ends, and stalls the loop: 32 million `{}` fit in 64 MiB
_NOISE_LINES = 50
_NOISE_BYTES = 4096  # kept of each
_NOISE_SHOWN = 400  # characters; less than what is kept, so that a secret at the edge is still recognised

_BLANKS = (b"", b"\r")
_BLANK = rb"[\x00-\x20\x7f]|\xef\xbb\xbf"
_ESCAPE = (
    rb"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI … final byte
    rb"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC … BEL or ST
    rb"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"  # the short ones
)
_BETWEEN = " \t\r\0\ufeff"
_FRONT = re.compile(rb"(?:" + _ESCAPE + rb"|" + _BLANK + rb")+")
_BACK = re.compile(rb"(?:" + _ESCAPE + rb"|" + _BLANK + rb")+\Z")


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


_DECODER = json.JSONDecoder(strict=False, parse_float=_finite, parse_constant=lambda _name: None)
# Its scanner, which every JSONDecoder has and no stub names.
_SCAN = cast("Callable[[str, int], tuple[object, int]]", cast("Any", _DECODER).scan_once)


def parse(line: bytes) -> list[dict[str, object]]:
    """The JSON objects that a line is made of; none if it is noise."""
    clean = _strip(line)
    if (message := _object(clean)) is not None:
        return [message]
    if (several := _glued(clean)) is not None:
        return several
    # A progress bar: what a terminal would show is behind the last CR.
    return parse(clean.rpartition(b"\r")[2]) if b"\r" in clean else []


def _glued(line: bytes) -> list[dict[str, object]] | None:
    """The objects of a line that begins with one: none unless it is made of nothing else, and of not too many."""
    text = line.decode("utf-8", "replace") if line.startswith(b"{") else ""
    surrogates = b"\\ud" in line or b"\\uD" in line
    found: list[dict[str, object]] = []
    at = 0
    try:
        while at < len(text) and text[at] == "{" and len(found) < _GLUED:
            value, at = _SCAN(text, at)
            found.append(cast("dict[str, object]", _encodable(value) if surrogates else value))
            while at < len(text) and text[at] in _BETWEEN:
                at += 1
    except (StopIteration, ValueError, RecursionError):
        return [] if found else None
    return (found if at == len(text) else []) if found else None


def _strip(line: bytes) -> bytes:
    front = _FRONT.match(line)
    return _strip_back(line[front.end() :] if front else line)


def _strip_back(line: bytes) -> bytes:
    # The search starts near the end: over the whole of a long line it would be tried at every blank.
    cut = line.rfind(b"}") + 1
    return line[:cut] if cut and _BACK.fullmatch(line, cut) else line


def _object(line: bytes) -> dict[str, object] | None:
    if not line.startswith(b"{"):
        return None
    text = line.decode("utf-8", "replace")
    try:
        # Not decode(), which looks for blanks with a regular expression twice: a third of what a short line costs.
        value, end = _SCAN(text, 0)
        # Two searches in 40 MB take as long as the parser; most lines have no backslash at all.
        if b"\\" in line and (b"\\ud" in line or b"\\uD" in line):
            value = _encodable(value)
    except (StopIteration, ValueError, RecursionError):
        return None
    if end != len(text) and text[end:].strip(" \t\r"):
        return None
    return cast("dict[str, object]", value)


def _encodable(value: object) -> object:
    """The same value without lone surrogates, which no UTF-8 stream takes."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [_encodable(item) for item in cast("list[object]", value)]
        case dict():
            pairs = cast("dict[str, object]", value).items()
            return {cast("str", _encodable(name)): _encodable(item) for name, item in pairs}
        case _:
            return value


class LineReader:
    """Bytes in, messages out.  Linear in its input; holds at most one line of at most ``limit`` bytes.

    Attributes:
        noise_count: lines that were no message, blank ones not counted.
    """

    def __init__(self, *, limit: int = LIMIT) -> None:
        """``limit`` is in bytes of one line, without its line end."""
        if limit < 1:
            raise ValueError(f"limit is {limit}: it is a number of bytes, at least 1.")
        self._limit = limit
        self._parts: list[bytes] = []  # of the line that is not complete; joined once
        self._size = 0
        self._noise: deque[str] = deque(maxlen=_NOISE_LINES)
        self.noise_count = 0

    @property
    def noise(self) -> tuple[str, ...]:
        """The last lines that were no message, each cut to 400 characters, redacted."""
        # As one text, because some secrets (a PEM key) go over several lines.
        text = redact("\n".join(self._noise))
        return tuple(line[:_NOISE_SHOWN] for line in text.split("\n")) if text else ()

    def feed(self, data: bytes) -> list[dict[str, object] | LineTooLong]:
        """What the data completes, in order: messages, and a LineTooLong in the place of each line beyond the limit."""
        *lines, rest = data.split(b"\n") if b"\n" in data else (data,)  # a split copies
        found: list[dict[str, object] | LineTooLong] = []
        for line in lines:
            if not self._size and line in _BLANKS:
                continue
            if not self._size and len(line) <= self._limit and (message := _object(line)) is not None:
                found.append(message)
            else:
                self._grow(line)
                self._complete(found)
        if rest:
            self._grow(rest)
        return found

    def finish(self) -> list[dict[str, object] | LineTooLong]:
        """What the end of the stream completes: a last line without its end counts if it is a whole object."""
        found: list[dict[str, object] | LineTooLong] = []
        self._complete(found)
        return found

    def _grow(self, piece: bytes) -> None:
        self._size += len(piece)
        # One byte of grace: whether a CR at the end belongs to the line's end is known only at its LF.
        if self._size <= self._limit + 1:
            self._parts.append(piece)
        else:
            self._parts.clear()

    def _complete(self, found: list[dict[str, object] | LineTooLong]) -> None:
        line, size = b"".join(self._parts), self._size
        self._parts, self._size = [], 0
        if size == self._limit + 1 and line.endswith(b"\r"):
            size -= 1
        if size > self._limit:
            found.append(LineTooLong(size, self._limit))
        elif messages := parse(line):
            found.extend(messages)
        elif line.strip(b"\0\r\t ") not in (b"", b"\xef\xbb\xbf"):
            self.noise_count += 1
            text = line[:_NOISE_BYTES].decode("utf-8", "replace").rstrip("\r")
            # A line that is cut is redacted here, where that is known; the others together, in `noise`.
            self._noise.append(redact_cut(text, right=_NOISE_BYTES // 4) if len(line) > _NOISE_BYTES else text)


class Messages(AsyncIterator["dict[str, object]"]):
    """The messages of a stream, one after another, until its end.

    A plain iterator: leaving the loop needs no clean-up, and a cancelled step has lost nothing.  LineTooLong is
    raised in the place of such a line; iterating again goes on behind it.
    """

    def __init__(self, stream: ByteReceiveStream, *, limit: int = LIMIT) -> None:
        """``limit`` is in bytes of one line."""
        self._stream, self._reader = stream, LineReader(limit=limit)
        self._found: deque[dict[str, object] | LineTooLong] = deque()
        self._ended = False

    @property
    def noise(self) -> tuple[str, ...]:
        """The last lines that were no message (at most 50 of 400 characters), redacted: for the text of an error."""
        return self._reader.noise

    @property
    def noise_count(self) -> int:
        """How many lines were no message."""
        return self._reader.noise_count

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __anext__(self) -> dict[str, object]:
        """The next message."""
        while not self._found:
            if self._ended:
                raise StopAsyncIteration
            try:
                data = await self._stream.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                self._ended = True
                self._found.extend(self._reader.finish())
            else:
                self._found.extend(self._reader.feed(data))
        item = self._found.popleft()
        if isinstance(item, LineTooLong):
            raise item
        return item
