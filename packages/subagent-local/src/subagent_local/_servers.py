"""A server that a person runs: reached, recognised, and asked which models it has.

Only what was asked for is contacted: the address that was given, or, for `auto`, `_discovery`'s ports of this machine.
Redirects are not followed, since the key would go along. Variables of the environment that name a proxy do not count
for this machine. The key goes as a bearer token in a header; where a server repeats it in an error, it is taken out.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

import httpx

from subagent_local._dialects import DIALECTS, Dialect
from subagent_local._faults import ChatFailed, fault
from subagent_local._pages import bounded, fetch
from subagent_local._served import Served
from subagents import Failure

LOOK: Final = 10.0
"""Seconds in which a server has to say what it is and which models it has."""

NOBODY: Final = "nothing answers"
_CONNECT: Final = 5.0
_SECRET: Final = 8  # characters: a shorter key is none, and may be a piece of any word
_TELLING: Final = frozenset({401, 403, 429, 503})
"""Statuses that say something of the server; any other one of a page says that it has no such page."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A server that was looked at."""

    url: str
    dialect: Dialect
    models: tuple[Served, ...]

    def choose(self, wanted: str | None) -> Served:
        """The model that is wanted; else the only one that is loaded, or the only one that there is.

        Raises:
            ChatFailed: of kind `model`, with the names of those that there are.
        """
        if wanted is not None:
            found = [model for model in self.models if model.name == wanted]
            found = found or [model for model in self.models if model.is_called(wanted)]
        else:
            found = [model for model in self.models if model.loaded] or list(self.models)
        if len(found) == 1:
            return found[0]
        if wanted is not None and not self.models:
            return Served(wanted)  # a server that does not list its models may have it all the same
        where = f"{self.dialect.title} at {self.url}"
        if not self.models:
            raise fault("model", f"{where} has no model that answers: load one, or name one with model")
        names = ", ".join(model.name for model in (found if len(found) > 1 else self.models))
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
        ChatFailed: the environment names a proxy that cannot be used.
    """
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    try:
        return httpx.AsyncClient(
            base_url=url,
            headers=headers,
            timeout=httpx.Timeout(None, connect=_CONNECT),
            trust_env=not on_loopback(url),
            verify=url.startswith("https:"),  # else the certificates are loaded for nothing: 20 ms
        )
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
                pages = [await _page(client, path) for path in found.pages]
        except ChatFailed as error:
            if isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout):
                why = f"{NOBODY} at {url}: start the model server there, or give its address as url"
                raise fault("network", why) from error
            raise ChatFailed(hushed(error.failure, key)) from None
    return Seen(url, found, tuple(found.models(pages)))


def hushed(failure: Failure, key: str | None) -> Failure:
    """The failure without the key, which some servers repeat in what they say of it."""
    if key is None or len(key) < _SECRET:
        return failure
    return replace(failure, message=failure.message.replace(key, "[the key]"))


async def _recognise(client: httpx.AsyncClient, url: str, candidates: Iterable[Dialect]) -> Dialect:
    seen: dict[str, object] = {}
    for dialect in candidates:
        path, test = dialect.sign
        if path not in seen:
            seen[path] = await _page(client, path)
        if test(seen[path]):
            return dialect
    pages = ", ".join(seen)
    raise fault(
        "protocol",
        f"what answers at {url} is no model server that is known: none of {pages} is as expected. If it speaks the API "
        "of OpenAI all the same, set dialect=openai and name a model",
    )


async def _page(client: httpx.AsyncClient, path: str) -> object:
    """A page, or None where the server has none that can be understood."""
    try:
        return await fetch(client, path)
    except ChatFailed as error:
        if error.failure.http_status in _TELLING:
            raise
        return None


def known(models: Sequence[Served]) -> str:
    """How many, in words."""
    return f"{len(models)} model{'s' * (len(models) != 1)}"
