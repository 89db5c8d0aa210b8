"""What has to fit into the window, counted by the server's own template and tokenizer before the model sees anything.

Silent truncation is the fault that this prevents: the answer to half a question looks like an answer, and half a file
like a file. Paths and shapes of llama.cpp (observed with xllamacpp 2026.10.11549): ``/apply-template`` gives
``{"prompt": "…"}``, ``/tokenize`` ``{"tokens": [1, 2]}``, ``/props`` and ``/v1/models`` the sizes of the window.
"""

from __future__ import annotations

import anyio
import httpx

from subagent_local._faults import fault, refusal
from subagent_local._json import at, count, items, parsed
from subagent_local._room import Window


async def measure(client: httpx.AsyncClient, messages: object, *, files: str = "", timeout: float) -> Window:
    """Count; `files` is an answer that writes the files as they are now.

    Raises:
        ChatFailed: the server does not answer these questions in time, or not in this shape.
    """
    try:
        with anyio.fail_after(timeout):
            prompt = at(await _get(client, "/apply-template", {"messages": messages}), "prompt")
            # The special tokens of the template count once each, as they do when the prompt is read.
            question = {"content": prompt, "add_special": True, "parse_special": True}
            tokens = at(await _get(client, "/tokenize", question), "tokens")
            answer = at(await _get(client, "/tokenize", {"content": files}), "tokens") if files else None
            sizes = [at(await _get(client, "/props"), "default_generation_settings", "n_ctx")]
            sizes.append(at(await _get(client, "/v1/models"), "data", 0, "meta", "n_ctx_train"))
    except TimeoutError:
        raise fault("timeout", f"the model server did not count the prompt within {timeout:g} s") from None
    except httpx.HTTPError as error:
        raise fault("network", f"the connection to the model server broke: {error or type(error).__name__}") from error
    known = [number for size in sizes if (number := count(size))]
    if not items(tokens) or not known or (files and not items(answer)):
        raise fault("protocol", "the model server did not say how long the prompt is and how much fits")
    return Window(len(items(tokens)), min(known), len(items(answer)))


async def _get(client: httpx.AsyncClient, path: str, body: object = None) -> object:
    response = await (client.get(path) if body is None else client.post(path, json=body))
    if response.status_code != 200:
        raise refusal(response.status_code, response.text)
    return parsed(response.content)
