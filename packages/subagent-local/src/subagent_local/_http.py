"""Reading the body of an answer so that it can be left at any point.

httpx hands a body out through five async generators, one inside the other. Leaving the outermost one early drops the
inner ones unfinished: asyncio closes them some time later in another task, and trio warns that nobody did. What does
close them all, in order and here, is an exception from the innermost one, and a cancelled scope brings it there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import anyio
import httpx

IDENTITY = {"Accept-Encoding": "identity"}
"""Sent with every request whose body is read raw."""


def form(response: httpx.Response) -> str:
    """In which form a body comes, for an error."""
    kind = response.headers.get("Content-Type", "no Content-Type")
    encoding = response.headers.get("Content-Encoding")
    return f"{kind} in {encoding}" if encoding else kind


@asynccontextmanager
async def raw_body(response: httpx.Response) -> AsyncGenerator[AsyncIterator[bytes]]:
    """The body as it comes, without decompression; its generators have ended when the context is left."""
    stream = response.aiter_raw()
    try:
        yield stream
    finally:
        with anyio.CancelScope() as scope:
            scope.cancel()
            async for _ in stream:
                pass
