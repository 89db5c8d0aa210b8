"""A server that a person runs: reached, recognised, and asked which models it has.

Only what was asked for is contacted: the address that was given, or, for `auto`, `discovery`'s ports of this machine.
Redirects are not followed, since the key would go along. Variables of the environment that name a proxy do not count
for this machine. The key goes as a bearer token in a header; `read_key` remembers it, so that it is taken out where a
server repeats it (from 8 characters on).
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import httpx

from subagent_local._asking.faults import ChatFailed, fault, is_redirect
from subagent_local._asking.pages import bounded, fetch
from subagent_local._servers.dialects import DIALECTS, Dialect
from subagent_local._servers.served import Served

LOOK: Final = 10.0
"""Seconds in which a server has to say what it is and which models it has."""

_CONNECT: Final = 5.0
_TELLING: Final = frozenset({401, 403, 429, 503})
"""Statuses that say something of the whole server, whichever page it was asked for."""

_WRONG: Final = _TELLING | frozenset((*range(300, 400), *range(500, 600))) - {501}
"""Those that say that a page, which is there, could not be had."""


class NobodyThere(ChatFailed):
    """Nothing answers at the address."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A server that was looked at; `missing` is which of its pages could not be read, in words."""

    url: str
    dialect: Dialect
    models: tuple[Served, ...]
    missing: str = ""

    def choose(self, wanted: str | None) -> Served:
        """The model that is wanted; else the only one that is loaded, or the only one that there is.

        Raises:
            ChatFailed: of kind `model`, with the names of those that there are.
        """
        if wanted is not None:
            found = [model for model in self.models if model.name == wanted]
            found = found or [model for model in self.models if model.is_called(wanted)]
        else:
            suited = [model for model in self.models if model.unasked]
            found = [model for model in suited if model.loaded] or suited
        if len(found) == 1:
            return found[0]
        if wanted is not None and not self.models:
            return Served(wanted)  # a server that does not list its models may have it all the same
        where = f"{self.dialect.title} at {self.url}"
        if not self.models:
            raise fault("model", f"{where} lists no model{self.missing}: load one, or name one with model")
        names = ", ".join(model.name for model in (found if len(found) > 1 else self.models))
        if wanted is None and not found:
            raise fault("model", f"{where} has no model that is taken unasked: name one with model: {names}")
        if wanted is None:
            raise fault("model", f"{where} has {len(found)} models: name one with model: {names}")
        many = "more than one model" if found else "no model"
        raise fault("model", f"{where} has {many} that is called {wanted!r}: it has {names}")


def on_loopback(url: str) -> bool:
    """Whether an address leads to this machine and needs no network."""
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified  # Ollama's own variable says 0.0.0.0 for every interface


def open_client(url: str, key: str | None) -> httpx.AsyncClient:
    """A client for the address, with the key.

    Raises:
        ChatFailed: the address is none, or the environment names a proxy or certificates that cannot be used.
    """
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    try:
        verify = httpx.URL(url).scheme == "https"  # else the certificates are loaded for nothing: 20 ms
    except httpx.InvalidURL as error:
        raise fault("protocol", f"{url} is no address: {error}") from error
    try:
        return httpx.AsyncClient(
            base_url=url,
            headers=headers,
            timeout=httpx.Timeout(None, connect=_CONNECT),
            verify=verify,
            # With a transport of its own it asks no proxy; SSL_CERT_FILE counts all the same.
            transport=httpx.AsyncHTTPTransport(verify=verify) if on_loopback(url) else None,
        )
    except OSError as error:  # those of TLS are among them
        why = f"the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be used: {error.strerror or error}"
        raise fault("network", why) from error
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        # The address is left out: it may hold a password.
        kind = "a SOCKS proxy needs: pip install socksio" if isinstance(error, ImportError) else "not an address"
        raise fault("network", f"the proxy that the environment names cannot be used: {kind}") from error


async def look(url: str, key: str | None, dialect: str | None = None, *, within: float | None = None) -> Seen:
    """What answers at an address; `dialect` says that already where it is given.

    Raises:
        ChatFailed: nothing answers, no server that is known, or not without another key.
    """
    candidates = [row for row in DIALECTS if dialect in (None, row.name)]
    async with open_client(url, key) as client:
        try:
            with bounded(within or LOOK, "say which models it has"):
                found = candidates[0] if len(candidates) == 1 else await _recognise(client, url, candidates)
                pages = {path: await _page(client, path) for path in found.pages}
                missing = {path: page for path, page in pages.items() if isinstance(page, ChatFailed)}
        except ChatFailed as error:
            if isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout):
                raise _unreached(url, error.__cause__) from error
            raise
    models: dict[str, Served] = {}
    for model in found.models(list(pages.values())):
        models.setdefault(model.name, model)
    if not models:
        _judge(missing.values(), _WRONG)
    unread = ", ".join(f"{path}: {_answered(page)}" for path, page in missing.items())
    return Seen(url, found, tuple(models.values()), f" ({unread})" if unread else "")


def _unreached(url: str, error: BaseException) -> ChatFailed:
    """Why there is no connection, and what to do."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return fault(
            "network",
            f"the certificate of {url} is not accepted: {cause.verify_message}. Where it is by an authority of your "
            "own, name the file with that one's certificate in SSL_CERT_FILE",
        )
    if cause is not None:
        why = f"there is no TLS with {url} ({cause.reason or cause}): where it speaks plain HTTP, write http://"
        return fault("network", why)
    why = f"nothing answers at {url}: start the model server there, or give its address as url"
    return NobodyThere(fault("network", why).failure)


async def _recognise(client: httpx.AsyncClient, url: str, candidates: Iterable[Dialect]) -> Dialect:
    seen: dict[str, object] = {}
    for dialect in candidates:
        path, test = dialect.sign
        if path not in seen:
            seen[path] = await _page(client, path)
        if test(seen[path]):
            return dialect
    # Only now: a gateway may refuse the pages of others, and answer its own.
    _judge(seen.values(), _TELLING)
    pages = ", ".join(f"{path} ({_answered(page)})" for path, page in seen.items())
    raise fault(
        "protocol",
        f"what answers at {url} is no model server that is known: none of {pages} is as expected. If it speaks the API "
        "of OpenAI all the same, set dialect=openai and name a model",
    )


async def _page(client: httpx.AsyncClient, path: str) -> object:
    """A page, or why there is none that can be understood."""
    try:
        return await fetch(client, path)
    except ChatFailed as error:
        return error


def _answered(page: object) -> str:
    if not isinstance(page, ChatFailed):
        return "something else"
    status = page.failure.http_status
    if status is None:
        return "no JSON"
    return f"HTTP {status}, a redirect" if is_redirect(status) else f"HTTP {status}"


def _judge(pages: Iterable[object], telling: Collection[int]) -> None:
    """Raise what one of them was refused with, where that says something of the server."""
    for page in pages:
        if isinstance(page, ChatFailed) and page.failure.http_status in telling:
            raise page
