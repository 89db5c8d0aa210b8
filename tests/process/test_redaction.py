"""Secrets do not get into texts."""

from __future__ import annotations

import json
from urllib.parse import quote

import anyio
import anyio.abc
import pytest

from subagent_process import LineReader, StderrTail, redact, redaction
from subagent_process.redaction import redact_cut, remember

SECRET = 'Tr0ub4dor & "three"\nlines'


@pytest.mark.parametrize("spelling", [SECRET, json.dumps(SECRET), quote(SECRET, safe="")])
def test_values_of_credential_variables_are_redacted_in_every_spelling(
    spelling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKECORP_PASSWORD", SECRET)
    text = redact(f"before {spelling} after")
    assert "Tr0ub4dor" not in text
    assert text.startswith("before ")
    assert text.endswith(" after")


def test_a_password_inside_a_variables_url_is_redacted_alone_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://app:p%40ssw0rd1@db/app")
    assert redact("login with p@ssw0rd1 and p%40ssw0rd1 failed") == "login with [redacted] and [redacted] failed"


@pytest.mark.parametrize(
    "url", ["https://p%40ssw0rd1@h/simple", "https://p%40ssw0rd1:@h/simple", "https://h/?key=p%40ssw0rd1"]
)
def test_a_token_inside_a_variables_url_is_redacted_alone_too(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", url)
    assert redact("login with p@ssw0rd1 and p%40ssw0rd1 failed") == "login with [redacted] and [redacted] failed"


@pytest.mark.parametrize(
    ("secret", "replaced"),
    [
        ("bytes-\udcff-secret", "bytes-\ufffd-secret"),
        ("bytes-\udcff-secret", "bytes-%FF-secret"),
        ("half-\ud800-secret", "half-\ufffd\ufffd\ufffd-secret"),
    ],
)
def test_a_secret_that_is_no_utf_8_is_redacted_and_breaks_nothing(secret: str, replaced: str) -> None:
    remember([secret])
    assert redact(f"x {secret} y") == "x [redacted] y"
    assert redact(f"x {replaced} y") == "x [redacted] y"


def test_short_values_and_harmless_variables_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKECORP_TOKEN", "abcdefg")
    monkeypatch.setenv("FAVOURITE_ANIMAL", "hippopotamus")
    assert redact("abcdefg hippopotamus") == "abcdefg hippopotamus"


def test_a_secret_that_holds_another_is_redacted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "zebracrossing")
    monkeypatch.setenv("B_TOKEN", "zebracrossing-extended")
    assert redact("x zebracrossing-extended x") == "x [redacted] x"


@pytest.mark.parametrize(
    "secret",
    [
        "sk-abcdefghijklmnop1234",
        "sk-ant-api03-AbCd_efgh-ijkl0123456789",
        "sk-proj-abc_DEF-0123456789abcdef",
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "github_pat_11ABCDEFG0abcdefghijkl_mnop",
        "glpat-abcdefghijkl0123-_",
        "xoxb-123456789012-abcdefABCDEF",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyA-0123456789abcdefghijklmnopqrstu",
        "npm_0123456789abcdefghijABCDEFGHIJ012345",
        "hf_abcdefghijklmnopqrstuvwxyz",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r\n-----END OPENSSH PRIVATE KEY-----",
    ],
)
@pytest.mark.parametrize("frame", ["{}", "key is {}.", '"{}"', "({})", "token={},", "x {}\n"])
def test_keys_of_well_known_shapes_are_redacted(secret: str, frame: str) -> None:
    text = redact(frame.format(secret))
    assert text == frame.format("[redacted]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abcdefgh1234", "Authorization: Bearer [redacted]"),
        ('{"Authorization": "Bearer abcdefgh-token"}', '{"Authorization": "Bearer [redacted]"}'),
        ("proxy-authorization: basic dXNlcjpwYXNz", "proxy-authorization: basic [redacted]"),
        ("sent Bearer abc123def456 to it", "sent Bearer [redacted] to it"),
        ("x-api-key: 0123456789abcdef", "x-api-key: [redacted]"),
        ('"api_key":"0123456789abcdef"', '"api_key":"[redacted]"'),
        ("FAKE_API_KEY=zzzzzzzzzzzz", "FAKE_API_KEY=[redacted]"),
        ("password=correcthorse;x=1", "password=[redacted];x=1"),
        ("client_secret=correcthorse&x=1", "client_secret=[redacted]&x=1"),
        ("set-cookie: session=abcdefghij; path=/", "set-cookie: [redacted]"),
        ("fetch https://anna:hunter2@example.org/x failed", "fetch https://anna:[redacted]@example.org/x failed"),
        ("redis://:pw@cache", "redis://:[redacted]@cache"),
        ("GET https://abcdef@h/simple", "GET https://[redacted]@h/simple"),
        ("GET https://abcdef:@h/simple", "GET https://[redacted]:@h/simple"),
        ("at https://abcdef:x-oauth-basic@h/x", "at https://[redacted]:[redacted]@h/x"),
        ("at https://anna@corp.org:hunter2@h/x", "at https://[redacted]@corp.org:[redacted]@h/x"),
        ("https://h/?page=2&key=abcdefgh#top", "https://h/?page=2&key=[redacted]#top"),
        ("https://h/?token=abcdefgh&x=1", "https://h/?token=[redacted]&x=1"),
    ],
)
def test_headers_settings_and_urls_lose_their_secret(text: str, expected: str) -> None:
    assert redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a basic understanding of bearer authentication",
        "task-management-with-subagents is a risk-free thing",
        "sk-learn is short",
        "see https://example.org:8080/path@foo and git@example.org:a/b",
        "clone ssh://git@example.org:22/a/b and postgres://app@db/app",
        '{"url":"https://example.org","mail":"anna@example.org"}',
        "https://example.org/?key=short&monkey=hippopotamus",
        "Unexpected token: identifier",
        "ratio 16:9, time 12:30:45",
        "password: unset",
    ],
)
def test_ordinary_prose_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "piece",
    [
        *("x", "a:", "://", "sk-", "eyJa-", "Bearer ", "http://u:", "https://", "a@b:", "https://a@b:", "?key="),
        *("password=", "AKIA", "-----BEGIN PRIVATE KEY-----"),
    ],
)
def test_no_text_makes_it_slow(piece: str) -> None:
    # 200 kB in well under the suite's time limit; a search that is quadratic takes minutes.
    redact(piece * (200_000 // len(piece)))


def test_without_any_secret_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_secrets", set[str])
    assert redact("a text") == "a text"


def test_only_the_most_recent_secrets_given_to_children_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_given", dict[str, None]())  # so many make every later test slow
    remember(f"given-secret-{number}" for number in range(5000))
    assert redact("given-secret-4999.") == "[redacted]."
    assert redact("given-secret-10.") == "given-secret-10."


LONG_SECRET = "k1" + "abcdefghij" * 23


class Chunks(anyio.abc.ByteReceiveStream):
    """A stream of what it is given."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks = chunks

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if not self.chunks:
            raise anyio.EndOfStream
        return self.chunks.pop(0)

    async def aclose(self) -> None:
        pass


@pytest.mark.anyio
async def test_half_a_secret_at_the_edge_of_a_tail_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAMPLE_API_KEY", LONG_SECRET)
    for text in (f"sent {LONG_SECRET}\n" * 400, LONG_SECRET * 100, f"{LONG_SECRET} " * 100):
        for cut in range(0, 300, 7):
            tail = StderrTail(Chunks([text[cut:].encode()]))
            await tail.run()
            assert "abcdefghij" not in tail.text


def test_half_a_private_key_at_the_edge_of_a_tail_is_left_out() -> None:
    body = "MIIEvQIBADANBgkqhkiG9w0B\n" * 60
    for size in range(4100, 5600, 100):
        whole = f"x\n-----BEGIN PRIVATE KEY-----\n{body}-----END PRIVATE KEY-----\nafter\n" + "y\n" * 100
        assert "MIIE" not in redact_cut(
            whole[-size:] if size < len(whole) else whole, left=4096 if size < len(whole) else 0
        )
    assert "MIIE" not in redact(f"-----BEGIN PRIVATE KEY-----\n{body}")


def test_half_a_secret_at_the_end_of_a_cut_line_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAMPLE_API_KEY", LONG_SECRET)
    for text in (f" k={LONG_SECRET}" * 100, LONG_SECRET * 100):
        reader = LineReader()
        reader.feed(text.encode() + b"\n")
        assert "abcdefghij" not in reader.noise[0]


def test_a_cut_keeps_what_is_no_secret() -> None:
    assert redact_cut("half whole words", left=4096) == "whole words"
    assert redact_cut("whole words hal", right=1024) == "whole words "
    assert redact_cut("x" * 5000, left=4096) == "x" * 904
    assert redact_cut("x" * 5000, right=1024) == "x" * 3976


def test_the_rest_of_a_private_key_at_the_cut_goes_with_its_last_line() -> None:
    assert redact_cut("BADANBgkq\n-----END RSA PRIVATE KEY-----\nafter it", left=4096) == "\nafter it"
