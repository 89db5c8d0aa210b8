"""One question to a server and its answer in JSON, read whole: all that is no conversation."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import anyio
import httpx

from subagent_local._asking.faults import broken, fault, refusal
from subagent_local._http import IDENTITY, form, raw_body
from subagent_local._json import parsed

_PAGE = 16 << 20  # bytes


async def fetch(client: httpx.AsyncClient, path: str, body: object = None) -> object:
    """What a GET, or a POST of `body`, is answered with.

    Raises:
        ChatFailed: by anything but a 200 with JSON of at most 16 MiB.
        httpx.HTTPError: the connection broke.
    """
    method = "GET" if body is None else "POST"
    received = bytearray()
    async with client.stream(method, path, json=body, headers=IDENTITY) as response, raw_body(response) as chunks:
        async for chunk in chunks:
            received += chunk
            if len(received) > _PAGE:
                raise fault("protocol", f"the model server answers {_shown(path)} without an end")
    if response.status_code != 200:
        raise refusal(response.status_code, received.decode("utf-8", "replace"))
    value = parsed(bytes(received))
    if value is None:
        raise fault("protocol", f"the model server answered {_shown(path)} with {form(response)}, not with JSON")
    return value


@contextmanager
def bounded(seconds: float, doing: str) -> Generator[None]:
    """Turn what may happen to a connection meanwhile into `ChatFailed`.

    Args:
        seconds: that it may take in all.
        doing: what the server was to do, as in ``count the prompt``.

    Raises:
        ChatFailed: it took longer, or the connection broke.
    """
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError:
        raise fault("timeout", f"the model server did not {doing} within {seconds:g} s") from None
    except httpx.HTTPError as error:
        raise broken(error) from error


def _shown(path: str) -> str:
    return path.partition("?")[0]
