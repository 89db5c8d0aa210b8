"""What has to fit into the window, counted by the server's own template and tokenizer before the model sees anything.

Silent truncation is the fault that this prevents: the answer to half a question looks like an answer, and half a file
like a file. Paths and shapes of llama.cpp (observed with xllamacpp 2026.10.11549): ``/apply-template`` gives
``{"prompt": "…"}``, ``/tokenize`` ``{"tokens": [1, 2]}``, ``/props`` and ``/v1/models`` the sizes of the window.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import quote

import httpx

from subagent_local._asking.faults import fault
from subagent_local._asking.pages import bounded, fetch
from subagent_local._asking.room import Window
from subagent_local._json import at, count, items


async def measure(
    client: httpx.AsyncClient,
    messages: object,
    *,
    files: str = "",
    timeout: float,
    model: str = "",
    template: Mapping[str, object] = MappingProxyType({}),
) -> Window:
    """Count what the prompt needs and what the window has.

    Args:
        client: with the address of the server and the key.
        messages: of the prompt.
        files: an answer that writes the files as they are now.
        timeout: seconds, for all of it.
        model: whose window it is.
        template: what the request will say to the template of the model, which makes the prompt longer or shorter.

    Raises:
        ChatFailed: the server does not answer these questions in time, or not in this shape.
    """
    # A llama-server that serves one model ignores the name, one that has several (a router) goes by it.
    named = {"model": model} if model else {}
    with bounded(timeout, "count the prompt"):
        prompt = at(await fetch(client, "/apply-template", {"messages": messages, **template, **named}), "prompt")
        # The special tokens of the template count once each, as they do when the prompt is read.
        question = {"content": prompt, "add_special": True, "parse_special": True, **named}
        tokens = at(await fetch(client, "/tokenize", question), "tokens")
        answer = at(await fetch(client, "/tokenize", {"content": files, **named}), "tokens") if files else None
        props = await fetch(client, f"/props?model={quote(model, safe='')}" if model else "/props")
        listed = items(at(await fetch(client, "/v1/models"), "data"))
    mine = [entry for entry in listed if not model or at(entry, "id") == model]
    sizes = [at(props, "default_generation_settings", "n_ctx"), at(mine, 0, "meta", "n_ctx_train")]
    known = [number for size in sizes if (number := count(size))]
    if not items(tokens) or not known or (files and not items(answer)):
        raise fault("protocol", "the model server did not say how long the prompt is and how much fits")
    return Window(len(items(tokens)), min(known), len(items(answer)))
