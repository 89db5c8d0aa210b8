"""Take secrets out of a text before it goes to a log, an error or a person."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote

from .removal import KEY_SHAPES, URL_KEY, URL_PASSWORD, URL_TOKEN, removal_reason

__all__ = ["redact", "remember"]

MARK = "[redacted]"
_SHORTEST = 8  # a shorter value would be found in ordinary words
_REMEMBERED = 4096

_HEADER = re.compile(
    r"""(?ix)
    (?P<front>
      \b (?:proxy-)?authorization ["']? \s* [:=] \s* ["']? (?:[a-z]+\s+)?
    | api[-_]?key ["']? \s* [:=] \s* ["']?
    | (?: password | passwd | passphrase | (?:client|app)[-_]?secret | secret[-_]?(?:access[-_]?)?key
        | (?:access|auth|refresh|id)[-_]?token ) ["']? \s* [:=] \s* ["']?
    )
    [^\s"'&;,]{8,}"""
)
_COOKIE = re.compile(r"""(?i)(?P<front>\b(?:set-)?cookie["']?\s*:\s*["']?)[^\r\n"']{8,}""")
# With a digit in it: "basic understanding" is no secret.
_BEARER = re.compile(r"(?i)(?P<front>\b(?:bearer|basic)\s+)(?=[^\s\"',;]*[0-9=])[^\s\"',;]{8,}")

_IN_URLS = ((URL_TOKEN, "token"), (URL_PASSWORD, "password"), (URL_KEY, "key"))

_lock = threading.Lock()
_given: dict[str, None] = {}  # secrets that were given to children, most recent last; bounded


def remember(secrets: Iterable[str]) -> None:
    """Redact these too, from now on: secrets that reach a child by another way than `child_env`.

    The last 4,096 are kept, those that `child_env` gave among them.
    """
    with _lock:
        for secret in secrets:
            _given.pop(secret, None)
            _given[secret] = None
        for old in list(_given)[:-_REMEMBERED]:
            del _given[old]


def _spellings(secret: str) -> Iterator[str]:
    """How a secret may be written down: as it is, in JSON, in a URL; and alone what a URL holds of it."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield repr(secret)[1:-1]
    data = _bytes(secret)
    yield data.decode("utf-8", "replace")
    for quoted in (quote(data, safe=""), quote(data), quote_plus(data)):
        yield quoted
        yield re.sub("%..", lambda found: found[0].lower(), quoted)
    for pattern, part in _IN_URLS:
        for found in pattern.finditer(secret):
            yield found[part]
            yield unquote(found[part])


def _bytes(secret: str) -> bytes:
    """As the system holds it: a variable may hold bytes that are no UTF-8."""
    try:
        return os.fsencode(secret)
    except UnicodeEncodeError:  # half of a surrogate pair, which no variable holds
        return secret.encode("utf-8", "surrogatepass")


def _secrets() -> set[str]:
    values = [value for name, value in os.environ.items() if removal_reason(name, value) == "credential"]
    with _lock:
        values += _given
    return {form for value in values for form in _spellings(value.strip()) if len(form) >= _SHORTEST}


def redact(text: str) -> str:
    """The text without secrets, ``[redacted]`` in their place.

    Found are the values (from 8 characters on) of the credential variables of this process and of those that
    ``child_env`` gave to a child, the passwords of URLs, a user alone in one of http(s), keys in its query,
    authorization headers, and keys of well-known shapes (``sk-…``, ``ghp_…``, JWT, PEM …).  A secret of another shape
    that came by another way is not found.
    """
    for pattern, _ in _IN_URLS:  # first: what stands beside a token says that it is one
        text = pattern.sub(lambda found: found["front"] + MARK, text)
    if secrets := _secrets():
        longest_first = sorted(secrets, key=len, reverse=True)
        text = re.sub("|".join(map(re.escape, longest_first)), MARK, text)
    text = KEY_SHAPES.sub(MARK, text)
    text = _COOKIE.sub(lambda found: found["front"] + MARK, text)
    text = _HEADER.sub(lambda found: found["front"] + MARK, text)
    return _BEARER.sub(lambda found: found["front"] + MARK, text)


_PEM_END = re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----")


def redact_cut(text: str, *, left: int = 0, right: int = 0) -> str:
    """Redact a text that was cut out of a longer one, at its start (`left`) or at its end (`right`).

    Half a secret at the edge has no shape: the word that an edge cuts through is left out, up to a secret that is found
    in it and at most so many characters; and what is left of a PEM key.
    """
    if left and (ending := _PEM_END.search(text)) and "-----BEGIN" not in text[: ending.start()]:
        text, left = text[ending.end() :], 0
    text = redact(text)
    if left:
        end = min((i for i in map(text.find, " \t\n\r") if i >= 0), default=len(text))
        mark = text.find(MARK, 0, end)
        text = text[mark if mark >= 0 else min(end + 1, left) :]
    if right:
        start = max(map(text.rfind, " \t\n\r")) + 1
        mark = text.rfind(MARK, start)
        text = text[: mark + len(MARK) if mark >= 0 else max(start, len(text) - right)]
    return text
