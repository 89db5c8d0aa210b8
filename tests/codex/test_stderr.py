"""The engine's standard error: each complaint once, the end kept."""

from __future__ import annotations

import anyio
import pytest
from anyio.abc import ByteReceiveStream

from subagent_codex._stderr import Stderr, condensed
from subagents import Event, NoticeEvent

LINE = "\x1b[2m2026-12-01T03:58:19.{:06d}Z\x1b[0m \x1b[31mERROR\x1b[0m \x1b[2mcodex_login\x1b[0m\x1b[2m:\x1b[0m {}\n"


class Pieces(ByteReceiveStream):
    def __init__(self, data: bytes, size: int) -> None:
        self._left = [data[at : at + size] for at in range(0, len(data), size)]

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if not self._left:
            raise anyio.EndOfStream
        return self._left.pop(0)

    async def aclose(self) -> None:
        self._left.clear()


@pytest.mark.anyio
@pytest.mark.parametrize("size", [1, 7, 4096])
async def test_five_hundred_complaints_of_one_cause_are_one_notice(size: int) -> None:
    cause = "Failed to refresh token: already used; 한글"
    data = "".join(LINE.format(n, cause) for n in range(500)).encode()
    told: list[Event] = []
    stderr = Stderr(Pieces(data, size), told.append)
    await stderr.run()
    (notice,) = told
    assert isinstance(notice, NoticeEvent)
    assert (notice.text, notice.code, notice.level) == (cause, "stderr", "error")
    assert (await stderr.last_words(1)).count(cause) == 1


@pytest.mark.anyio
async def test_a_secret_in_a_complaint_is_in_no_notice_and_no_last_words() -> None:
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
    told: list[Event] = []
    stderr = Stderr(Pieces(LINE.format(1, f"refused {key}").encode(), 64), told.append)
    await stderr.run()
    assert key not in str(told)
    assert key not in await stderr.last_words(1)


@pytest.mark.anyio
async def test_different_complaints_are_bounded_and_a_line_without_end_is_not_kept() -> None:
    data = "".join(LINE.format(n, f"cause {n}") for n in range(100)).encode() + b"x" * 5_000_000
    told: list[Event] = []
    stderr = Stderr(Pieces(data, 65536), told.append)
    await stderr.run()
    assert len(told) == 20
    assert len(await stderr.last_words(1)) <= 8192


def test_condensed_keeps_the_order_of_first_times() -> None:
    assert condensed("b\na\n\nb\n\x1b[31ma\x1b[0m\n") == "b\na"


def test_what_is_left_of_a_repeated_line_at_both_ends_of_the_tail_is_not_shown() -> None:
    line = "2026-12-01T04:00:0{}.0Z ERROR codex_core: the token is used up"
    whole = "\n".join(line.format(number) for number in range(5))
    assert condensed(f"T04:00:09.0Z ERROR codex_core: the token is used up\n{whole}\n{line[:-8]}") == line.format(0)
    assert condensed(f"is used up\n{whole}") == line.format(0)
    assert condensed("one\ntwo\none") == "one\ntwo"
    assert condensed("") == ""
