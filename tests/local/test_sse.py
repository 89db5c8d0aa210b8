"""The decoder of server-sent events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subagent_local._asking.sse import EventTooLong, ServerEvent, SseDecoder

CASES: dict[str, tuple[bytes, list[str]]] = {
    "one event": (b"data: a\n\n", ["a"]),
    "no blank after the colon": (b"data:a\n\n", ["a"]),
    "one blank is taken, the second is data": (b"data:  a\n\n", [" a"]),
    "several data lines are joined": (b"data: a\ndata: b\n\n", ["a\nb"]),
    "CRLF": (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
    "CRLF between data lines": (b"data: a\r\ndata: b\r\n\r\n", ["a\nb"]),
    "lone CR": (b"data: a\r\rdata: b\r\r", ["a", "b"]),
    "comments and unknown fields pass": (b": ping\nid: 3\nretry: 9\nfoo\ndata: a\n\n", ["a"]),
    "a comment alone is no event": (b": ping\n\n", []),
    "a byte order mark at the start": (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
    "bytes that are no UTF-8 are replaced": (b"data: \xff\n\n", ["�"]),
    "line separators of Unicode are text": ("data: a\u2028b\x85c\n\n".encode(), ["a\u2028b\x85c"]),
    "what the end cuts off is dropped": (b'data: a\n\ndata: {"half', ["a"]),
    "an empty data line is an event": (b"data\n\n", [""]),
}


@pytest.mark.parametrize("case", CASES)
def test_decoding(case: str) -> None:
    text, expected = CASES[case]
    assert [event.data for event in SseDecoder().feed(text)] == expected


@pytest.mark.parametrize("case", CASES)
def test_the_same_comes_out_however_it_is_cut(case: str) -> None:
    text, expected = CASES[case]
    decoder = SseDecoder()
    assert [event.data for byte in text for event in decoder.feed(bytes([byte]))] == expected


@given(st.lists(st.text().filter(lambda text: "\r" not in text and "\n" not in text)), st.integers(1, 9))
def test_whatever_was_sent_arrives(texts: list[str], step: int) -> None:
    sent = "".join(f"data: {text}\r\n\r\n" for text in texts).encode("utf-8", "replace")
    decoder = SseDecoder()
    pieces = [sent[start : start + step] for start in range(0, len(sent), step)]
    assert [event.data for piece in pieces for event in decoder.feed(piece)] == [
        text.encode("utf-8", "replace").decode() for text in texts
    ]


def test_the_name_of_an_event_is_kept_for_that_event_alone() -> None:
    assert SseDecoder().feed(b"event: error\ndata: a\n\ndata: b\n\n") == [ServerEvent("a", "error"), ServerEvent("b")]


def test_an_event_without_end_is_refused_and_many_small_ones_are_not() -> None:
    decoder = SseDecoder(limit=1000)
    for _ in range(100):
        decoder.feed(b"data: 0123456789\n\n")
    decoder.feed(b"data: ")
    decoder.feed(b"0" * 990)
    with pytest.raises(EventTooLong, match="1000"):
        decoder.feed(b"0" * 10)


def test_a_long_line_in_many_pieces_costs_time_in_proportion() -> None:
    decoder = SseDecoder()
    for _ in range(200_000):  # a decoder that joins at each piece would take minutes
        decoder.feed(b"0123456789012345678901234567890123456789")
