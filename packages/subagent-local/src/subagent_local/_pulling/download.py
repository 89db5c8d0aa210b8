"""HTTP, as a pull needs it: pages with a bound, and files that are continued where they broke off.

Connecting may take 5 s, so that a source that cannot be reached gives way to the next quickly, and is not tried
again. Neither is one that then says nothing for 30 s. A connection that breaks is: 3 times in a row without a new
byte is the end. Nothing here decides whether bytes are the right ones; the caller's hash does, so that a file that
changed between two tries is found out there.

Trap: httpx quotes pieces of addresses in its errors, also of one that a server redirects to, and a piece may be half a
password. What may be said of an error is decided in one place, `_words`.
"""

from __future__ import annotations

import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
from anyio import to_thread

from subagent_local._http import IDENTITY, raw_body
from subagent_local._pulling.cache import cache_errors
from subagent_local._pulling.urls import Auth, shown, split_auth

_TIMEOUT = httpx.Timeout(30.0, connect=5.0)  # seconds without a byte; seconds for name, connection and TLS
_TRIES = 3
_BACKOFF = 0.25  # seconds before the second try, doubled for each one after it
_BLOCK = 1 << 20  # bytes written at once, in a worker thread
_PAGE_LIMIT = 16 << 20  # bytes of a page of an index
# The last two: an address that no socket takes, such as one with port 99999, from a page of an index or a redirect
_ERRORS = (httpx.HTTPError, httpx.InvalidURL, ValueError, ExceptionGroup)
_FINAL = (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.TooManyRedirects)
_NETWORK = (httpx.NetworkError, httpx.TimeoutException, httpx.ProtocolError, httpx.ProxyError)


class SourceError(Exception):
    """Why a source, or one of its parts, could not be had. Its text may be shown.

    Attributes:
        network: it could not be reached, or was in trouble itself; the same may do better later.
    """

    def __init__(self, reason: str, *, network: bool = False) -> None:
        """Say why."""
        super().__init__(reason)
        self.network = network


class _BrokenError(SourceError):
    """The same request may do better when it is made again."""


@asynccontextmanager
async def open_client(certificate: Path | None) -> AsyncGenerator[httpx.AsyncClient]:
    """A client that honours the proxy variables, and the certificate file that pip or uv is configured with.

    Raises:
        SourceError: the certificate file, or what the proxy variables say, cannot be used.
    """
    try:
        verify = ssl.create_default_context(cafile=str(certificate)) if certificate else True
    except OSError as error:
        raise SourceError(f"the certificate file {certificate} cannot be used: {error}") from error
    try:
        client = httpx.AsyncClient(verify=verify, timeout=_TIMEOUT, follow_redirects=True, max_redirects=10)
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        # The address is left out: it may hold a password.
        kind = "a SOCKS proxy needs: pip install socksio" if isinstance(error, ImportError) else "not an address"
        raise SourceError(f"the proxy that the environment names cannot be used: {kind}") from error
    async with client:
        yield client


async def fetch_page(
    client: httpx.AsyncClient, url: str, accept: str, auth: Auth | None
) -> tuple[str, str, str] | None:
    """A page as (text, content type, address after redirects); None when the server has no such page.

    Raises:
        SourceError: it cannot be had, or is longer than 16 MiB.
    """
    body = bytearray()
    try:
        headers = {"Accept": accept, **IDENTITY}
        async with client.stream("GET", url, headers=headers, auth=_auth(auth)) as answer, raw_body(answer) as chunks:
            if answer.status_code in (404, 410):
                return None
            if answer.status_code != 200:
                raise _refusal(answer, url)
            async for chunk in chunks:
                body += chunk
                _require_short(body, url)
            page = _plain(bytes(body), answer.headers.get("Content-Encoding", ""), url)
            content_type = answer.headers.get("Content-Type", "")
            return page.decode("utf-8", "replace"), content_type, str(answer.url)
    except _ERRORS as error:
        raise SourceError(_reason(error, url), network=isinstance(error, _NETWORK)) from error


def _plain(body: bytes, coding: str, url: str) -> bytes:
    """Undo the compression that some proxies use although nobody asked for it, and no further than the limit."""
    if coding.lower() not in ("gzip", "x-gzip", "deflate"):
        return body
    decoder = zlib.decompressobj(wbits=47)  # either head
    try:
        page = decoder.decompress(body, _PAGE_LIMIT + 1)
    except zlib.error as error:
        raise SourceError(f"the page {shown(url)} is not the {coding} that it is said to be") from error
    _require_short(page, url)
    return page


def _require_short(page: bytes | bytearray, url: str) -> None:
    if len(page) > _PAGE_LIMIT:
        raise SourceError(f"the page {shown(url)} is longer than {_PAGE_LIMIT >> 20} MiB")


async def fetch_file(
    client: httpx.AsyncClient,
    url: str,
    target: Path,
    *,
    size: int | None,
    limit: int,
    auth: Auth | None = None,
    advance: Callable[[int], None],
) -> None:
    """Bring a file to `target`, continuing with what is there.

    Args:
        client: of `open_client`.
        url: its address.
        target: where the bytes go; what has arrived stays there when this is cancelled or fails.
        size: the exact number of bytes, where it is known.
        limit: refuse more bytes than this.
        auth: user and password, sent to this origin only.
        advance: called with the number of bytes that are there.

    Raises:
        SourceError: it cannot be had from here.
        DiskFull, CacheUnusable: `target` cannot be written.
    """
    if size is not None and size > limit:
        raise SourceError(f"{shown(url)} has {size} bytes, more than the {limit} that can belong to this model")
    best, failed = _length(target), 0
    while size is None or _length(target) != size:
        try:
            await _attempt(client, url, target, size=size, limit=limit, auth=auth, advance=advance)
            break
        except _BrokenError:
            # A server without Range starts again each time: only a new farthest byte counts as getting on.
            best, failed = max(best, _length(target)), 0 if _length(target) > best else failed + 1
            if failed == _TRIES:
                raise
            await anyio.sleep(_BACKOFF * 2**failed)
    advance(_length(target))


async def _attempt(
    client: httpx.AsyncClient,
    url: str,
    target: Path,
    *,
    size: int | None,
    limit: int,
    auth: Auth | None,
    advance: Callable[[int], None],
) -> None:
    have = _length(target)
    if size is not None and have > size:
        have = 0
    # identity: a transparent gzip would make the lengths of both sides differ
    headers = IDENTITY | ({"Range": f"bytes={have}-"} if have else {})
    try:
        bare, own = split_auth(url)
        async with client.stream("GET", bare, headers=headers, auth=_auth(own or auth)) as answer:
            if have and not (answer.status_code == 206 and _starts_at(answer, have)):
                if answer.status_code != 200:
                    # 416, or a piece that was not asked for: what is here does not fit what is there
                    _discard_after(answer, target)
                    raise _BrokenError(f"HTTP {answer.status_code} from {shown(url)}", network=True)
                have = 0
            elif not have and answer.status_code != 200:
                raise _refusal(answer, url)
            async with raw_body(answer) as chunks:
                await _write(chunks, target, have, size or limit, advance)
    except _ERRORS as error:
        # Who accepts and says nothing (a proxy that filters) would cost 30 s each time.
        silent = isinstance(error, httpx.ReadTimeout) and _length(target) == have
        final = silent or isinstance(error, _FINAL) or not isinstance(error, httpx.HTTPError)
        kind = SourceError if final else _BrokenError
        raise kind(_reason(error, url), network=isinstance(error, _NETWORK)) from error
    if size is not None and _length(target) < size:
        raise _BrokenError(f"{shown(url)} ended after {_length(target)} of {size} bytes", network=True)


async def _write(
    chunks: AsyncIterator[bytes], target: Path, have: int, limit: int, advance: Callable[[int], None]
) -> None:
    buffer = bytearray()
    with cache_errors(target.parent), await to_thread.run_sync(lambda: target.open("r+b" if have else "wb")) as file:
        file.seek(have)
        try:
            async for chunk in chunks:
                buffer += chunk
                have += len(chunk)
                if have > limit:
                    raise SourceError(f"more than the {limit} bytes come that it should have")
                if len(buffer) >= _BLOCK:
                    block, buffer = bytes(buffer), bytearray()
                    await to_thread.run_sync(file.write, block)
                advance(have)
        finally:
            file.write(buffer)  # what has arrived is kept, also when this is cancelled


def _discard_after(answer: httpx.Response, target: Path) -> None:
    """Keep what has arrived when the server is merely busy; drop it when it does not fit."""
    if answer.status_code < 500 and answer.status_code not in (408, 429):
        target.unlink()


def _refusal(answer: httpx.Response, url: str) -> SourceError:
    again = answer.status_code >= 500 or answer.status_code in (408, 429)
    return (_BrokenError if again else SourceError)(f"HTTP {answer.status_code} from {shown(url)}", network=again)


def _starts_at(answer: httpx.Response, start: int) -> bool:
    return answer.headers.get("Content-Range", "").replace(" ", "").lower().startswith(f"bytes{start}-")


def _auth(auth: Auth | None) -> httpx.BasicAuth | None:
    return httpx.BasicAuth(*auth) if auth else None


def _reason(error: Exception, url: str) -> str:
    return f"{_words(error)} ({shown(url)})"


def _words(error: Exception) -> str:
    """What may be said of it: the system's words, httpx's up to the colon before what it quotes, or our own."""
    if isinstance(error, httpx.ConnectTimeout):
        return "no connection within 5 s"
    if isinstance(error, httpx.TimeoutException):
        return "connected, and then nothing for 30 s"
    if isinstance(error, (httpx.NetworkError, httpx.ProxyError)):
        return str(error) or type(error).__name__
    if isinstance(error, (httpx.RemoteProtocolError, httpx.TooManyRedirects)):
        return str(error).partition(":")[0]
    return "it is, or leads to, an address that cannot be used"


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
