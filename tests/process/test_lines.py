"""The line reader: what is a message, what is noise, and what never happens."""

from __future__ import annotations

import json
import sys

import anyio
import anyio.abc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subagent_process import LineReader, LineTooLong, Messages

ONE = b'{"id":1}\n'


def read(data: bytes, *, chunk: int | None = None, limit: int = 1 << 20) -> list[dict[str, object]]:
    """All messages of the data, fed in chunks."""
    reader = LineReader(limit=limit)
    size = chunk or len(data) or 1
    found = [item for at in range(0, len(data), size) for item in reader.feed(data[at : at + size])]
    found += reader.finish()
    assert not any(isinstance(item, LineTooLong) for item in found)
    return [item for item in found if not isinstance(item, LineTooLong)]


@pytest.mark.parametrize("size", [70_000, 131_072, 1_048_577, 12_000_000])
def test_a_long_line_arrives_whole_and_the_next_one_intact(size: int) -> None:
    line = json.dumps({"text": "x" * size}).encode() + b"\n"
    first, second = read(line + ONE, chunk=65_536, limit=16_000_000)
    assert first == {"text": "x" * size}
    assert second == {"id": 1}


def test_the_limit_counts_one_line_and_not_the_stream() -> None:
    reader = LineReader(limit=2_000_000)
    line = json.dumps({"text": "x" * 1000}).encode() + b"\n"
    assert sum(len(reader.feed(line)) for _ in range(30_000)) == 30_000


@pytest.mark.parametrize("over", [1, 2, 70_000])
@pytest.mark.parametrize("chunk", [1000, 65_536, 10**7])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_over_the_limit_reports_its_real_size_and_the_rest_goes_on(over: int, chunk: int, end: bytes) -> None:
    limit = 100_000
    reader = LineReader(limit=limit)
    data = b'{"a":1}\n' + b"x" * (limit + over) + end + b'{"b":2}\n'
    found = [item for at in range(0, len(data), chunk) for item in reader.feed(data[at : at + chunk])]
    assert found[0] == {"a": 1}
    assert found[2] == {"b": 2}
    error = found[1]
    assert isinstance(error, LineTooLong)
    # A CR in front of the LF is part of the line's end only where nothing was dropped.
    assert error.size in (limit + over, limit + over + len(end) - 1)
    assert error.limit == limit
    assert f"{error.size:,}" in str(error)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_of_exactly_the_limit_is_read(end: bytes) -> None:
    line = b'{"a":"' + b"x" * 92 + b'"}'
    assert len(line) == 100
    assert read(line + end, limit=100) == [{"a": "x" * 92}]


def test_memory_stays_at_the_limit_while_an_endless_line_is_dropped() -> None:
    reader = LineReader(limit=1000)
    for _ in range(100):
        reader.feed(b"x" * 65_536)
    assert sys.getsizeof(b"".join(reader._parts)) < 2000  # pyright: ignore[reportPrivateUsage]
    (error,) = reader.feed(b"\n")
    assert isinstance(error, LineTooLong)
    assert error.size == 100 * 65_536


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 7])
def test_characters_split_over_chunks_are_put_together(chunk: int) -> None:
    text = "한글 ≤ 🧪 é"
    assert read(json.dumps({"t": text}, ensure_ascii=False).encode() + b"\n", chunk=chunk) == [{"t": text}]


def test_a_character_split_exactly_at_a_pipes_buffer_is_put_together() -> None:
    prefix = b'{"t":"' + b"x" * (65_536 - 6 - 1)
    data = prefix + "한".encode() + b'"}\n'
    (message,) = read(data, chunk=65_536)
    assert str(message["t"]).endswith("x한")


@pytest.mark.parametrize(
    "inside", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r", "\t", "\x1b"]
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_only_lf_ends_a_line(inside: str, end: bytes) -> None:
    line = f'{{"t":"a{inside}b"}}'.encode()
    assert read(line + end + ONE) == [{"t": f"a{inside}b"}, {"id": 1}]


def test_an_escaped_line_end_stays_in_its_string() -> None:
    assert read(b'{"t":"a\\r\\nb"}\r\n') == [{"t": "a\r\nb"}]


NOISE = [
    b"Now using node v22.9.1 (npm v10.9.0)",
    b"direnv: export +FOO",
    b"npm warn exec The following package was not found",
    b"[1,2]",
    b'"text"',
    b"{not json",
    b"null",
    b"42",
    b"{",
    b"}",
    b'{"half":',
    b'{"a":1}{"b":',
    b'{"a":1}{"b":2}3',
    b'{"a":1},{"b":2}',
    b'{"a":1} trailing words',
    b'DEBUG {"a":1}',
    b'data: {"a":1}',
    b"\xff\xfe\x00broken",
    b"{" * 200_000,
    b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"n":' + b"9" * 5000 + b"}",
]


@pytest.mark.parametrize("noise", NOISE, ids=lambda noise: repr(noise[:24]))
def test_noise_is_kept_apart_and_never_joined(noise: bytes) -> None:
    reader = LineReader()
    found = reader.feed(b'{"id":0}\n' + noise + b"\n" + b'{"id":1}\n')
    assert found == [{"id": 0}, {"id": 1}]
    assert reader.noise_count == 1
    assert reader.noise[0] == noise.decode("utf-8", "replace")[:400]


@pytest.mark.parametrize(
    "line",
    [
        b'{"a":1}{"b":2}',
        b'\x1b[0m{"a":1} \t{"b":2}\r',
        b'\xef\xbb\xbf{"a":1}{"b":2} ',
        b'{"a":1}\r{"b":2}',
        b'\0{"a":1}\r\xef\xbb\xbf{"b":2}\r',
        b'{"a":1}\0\0{"b":2}\x1b[0m',
    ],
)
def test_a_line_of_nothing_but_objects_is_as_many_messages(line: bytes) -> None:
    reader = LineReader()
    assert reader.feed(line + b'\n{"c":3}\n') == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert reader.noise_count == 0


def test_a_progress_bar_that_begins_like_an_object_hides_none() -> None:
    assert read(b'{"half":\r{"a":1}\n' + b'10%\r{"a":2}{"a":3}\n') == [{"a": 1}, {"a": 2}, {"a": 3}]


@pytest.mark.parametrize("line", [b'{"x":1} 10%\r{"a":2}', b"{}\r" * 1001 + b"{}"])
def test_no_object_in_front_of_a_cr_is_lost_without_being_counted(line: bytes) -> None:
    reader = LineReader()
    assert reader.feed(line + b"\n" + ONE) == [{"id": 1}]
    assert reader.noise_count == 1


def test_glued_objects_may_be_long_and_hold_no_surrogates_either() -> None:
    long = json.dumps({"text": "x" * 1_200_000}).encode()
    for between in (b"", b"\r"):
        assert read(long + between + b'{"b":2}\n', limit=16_000_000) == [{"text": "x" * 1_200_000}, {"b": 2}]
    assert read(b'{"a":"\\ud800"}{"b":"\\uDC00"}\n') == [{"a": "\ufffd"}, {"b": "\ufffd"}]


def test_more_objects_on_a_line_than_a_writer_forgets_are_noise() -> None:
    reader = LineReader()
    assert len(reader.feed(b"{}" * 1000 + b"\n")) == 1000
    assert reader.feed(b"{}" * 1001 + b"\n" + ONE) == [{"id": 1}]
    assert reader.noise_count == 1


def test_a_line_of_nothing_but_small_objects_does_not_hold_up_the_loop() -> None:
    # 60 MB in well under the suite's time limit; as messages they take a minute.
    assert LineReader().feed(b"{}" * 30_000_000 + b"\n" + ONE) == [{"id": 1}]


@pytest.mark.parametrize("blank", [b"", b"\r", b"  ", b"\t\r", b"\0\0", b"\xef\xbb\xbf"])
def test_blank_lines_are_nothing_at_all(blank: bytes) -> None:
    reader = LineReader()
    assert reader.feed(blank + b"\n" + ONE) == [{"id": 1}]
    assert reader.noise_count == 0


@pytest.mark.parametrize(
    "front",
    [
        b"\xef\xbb\xbf",
        b"\xef\xbb\xbf\xef\xbb\xbf ",
        b"\0",
        b"  \t",
        b"\x1b[0m",
        b"\x1b[?25l\x1b[2K\x1b[1G",
        b"\x1b[38;2;1;2;3m",
        b"\x1b]0;a title\x07",
        b"\x1b]8;;https://example.org\x1b\\",
        b"\x1b(B\x1b=",
        b"\x1bP1$r\x1b\\",
        b"Loading 10%\rLoading 100%\r",
        b"\x1b[32mspinner\r\x1b[2K",
    ],
)
@pytest.mark.parametrize("back", [b"", b"\r", b" \x1b[0m", b"\0", b"\x1b]0;\x07\r"])
def test_what_terminals_and_windows_put_around_a_message_is_taken_off(front: bytes, back: bytes) -> None:
    line = b'{"id":0,"t":"\\u001b[0m{}"}'
    assert read(front + line + back + b"\n" + ONE) == [{"id": 0, "t": "\x1b[0m{}"}, {"id": 1}]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"a":NaN,"b":Infinity,"c":-Infinity,"d":1e999}', {"a": None, "b": None, "c": None, "d": None}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"n":123456789012345678901234567890}', {"n": 123456789012345678901234567890}),
        (b'{"t":"\xff\xfe"}', {"t": "\ufffd\ufffd"}),
        (b'{"t":"\\ud83d"}', {"t": "\ufffd"}),
        (b'{"\\uD83D":["\\udc00", {"x": 1}]}', {"\ufffd": ["\ufffd", {"x": 1}]}),
        (b'{"t":"\\ud83e\\uddea"}', {"t": "🧪"}),
        (b"{}", {}),
        (b'{"t":"\\u0000"}', {"t": "\0"}),
    ],
)
def test_hostile_values_become_harmless_ones(line: bytes, message: dict[str, object]) -> None:
    assert read(line + b"\n" + ONE) == [message, {"id": 1}]
    json.dumps(message, allow_nan=False, ensure_ascii=False).encode()


def test_a_last_line_without_its_end_counts_only_if_it_is_whole() -> None:
    assert read(b'{"a":1}\n{"b":2}') == [{"a": 1}, {"b": 2}]
    assert read(b'{"a":1}\n{"b":') == [{"a": 1}]


def test_noise_is_bounded_in_lines_and_in_length() -> None:
    reader = LineReader()
    for number in range(1000):
        reader.feed(b"noise %d " % number + b"x" * 10_000 + b"\n")
    assert reader.noise_count == 1000
    assert len(reader.noise) == 50
    assert max(map(len, reader.noise)) == 400
    assert reader.noise[-1].startswith("noise 999")


def test_noise_is_redacted_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKECORP_API_KEY", "zebra-crossing-77")
    reader = LineReader()
    reader.feed(b"your key is zebra-crossing-77\n" + b"x" * 390 + b"zebra-crossing-77\n")
    assert "zebra" not in "".join(reader.noise)


def test_a_limit_below_one_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="limit is 0"):
        LineReader(limit=0)


@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3), max_size=5), st.integers(1, 50))
def test_what_was_written_is_read_whatever_the_chunks(messages: list[dict[str, str]], chunk: int) -> None:
    data = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    assert read(data, chunk=chunk) == messages


@given(st.binary(max_size=200), st.integers(1, 20))
def test_no_bytes_make_it_raise(data: bytes, chunk: int) -> None:
    assert read(data + b"\n" + ONE, chunk=chunk)[-1] == {"id": 1}


@pytest.mark.anyio
async def test_messages_raises_in_the_place_of_a_long_line_and_goes_on_behind_it() -> None:
    send, receive = anyio.create_memory_object_stream[bytes](10)
    for data in (b'{"a":1}\nxxxxxxxxxxxxxxxx', b'xxxxxx\n{"b":2}\n', b'noise\n{"c":3}'):
        send.send_nowait(data)
    send.close()
    with receive:
        messages = Messages(_Bytes(receive), limit=20)
        assert await anext(messages) == {"a": 1}
        with pytest.raises(LineTooLong, match="22 bytes"):
            await anext(messages)
        assert [message async for message in messages] == [{"b": 2}, {"c": 3}]
        with pytest.raises(StopAsyncIteration):
            await anext(messages)
        assert messages.noise == ("noise",)
        assert messages.noise_count == 1


class _Bytes(anyio.abc.ByteReceiveStream):
    """A byte stream over chunks that are cut as the test says."""

    def __init__(self, chunks: anyio.abc.ObjectReceiveStream[bytes]) -> None:
        self._chunks = chunks

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        return await self._chunks.receive()

    async def aclose(self) -> None:
        await self._chunks.aclose()


def test_nesting_below_a_surrogate_is_noise_and_loses_no_neighbour() -> None:
    deep = b'{"a":' + b"[" * 900 + b"1" + b"]" * 900 + b',"x":"\\ud800"}'
    found = LineReader().feed(b'{"id":1}\n' + deep + b'\n{"id":2}\n')
    assert [message["id"] for message in found if isinstance(message, dict) and "id" in message] == [1, 2]


def test_blank_lines_cost_next_to_nothing() -> None:
    assert LineReader().feed(b"\n" * 3_000_000 + b"\r\n" * 1_000_000) == []
