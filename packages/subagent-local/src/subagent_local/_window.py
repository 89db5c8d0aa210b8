"""Whether a prompt fits: counted by the server's own template and tokenizer, before anything is sent to the model.

Silent truncation is the fault that this prevents: the answer to half a question looks like an answer. Paths and
shapes of llama.cpp (observed with xllamacpp 2026.10.11549): ``/apply-template`` gives ``{"prompt": "…"}``,
``/tokenize`` ``{"tokens": [1, 2]}``, ``/props`` and ``/v1/models`` the sizes of the window.
"""

from __future__ import annotations

from dataclasses import dataclass

import anyio
import httpx

from subagent_local._faults import fault, refusal
from subagent_local._json import at, count, items, parsed


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens of the whole prompt, and how many prompt and answer may have together."""

    prompt: int
    context: int

    def holds(self, room: int) -> bool:
        """Whether an answer of `room` tokens fits beside the prompt."""
        return self.prompt + room <= self.context

    def refusal(self, room: int) -> str:
        """Why not, with the numbers."""
        return (
            f"the prompt has {self.prompt:,} tokens and {room:,} are kept for the answer (max_tokens), together more "
            f"than the {self.context:,} of the window: shorten the prompt, lower max_tokens, or raise context"
        )


async def measure(client: httpx.AsyncClient, messages: object, *, timeout: float) -> Window:
    """Count.

    Raises:
        ChatFailed: the server does not answer these questions in time, or not in this shape.
    """
    try:
        with anyio.fail_after(timeout):
            prompt = at(await _get(client, "/apply-template", {"messages": messages}), "prompt")
            # The special tokens of the template count once each, as they do when the prompt is read.
            question = {"content": prompt, "add_special": True, "parse_special": True}
            tokens = at(await _get(client, "/tokenize", question), "tokens")
            sizes = [at(await _get(client, "/props"), "default_generation_settings", "n_ctx")]
            sizes.append(at(await _get(client, "/v1/models"), "data", 0, "meta", "n_ctx_train"))
    except TimeoutError:
        raise fault("timeout", f"the model server did not count the prompt within {timeout:g} s") from None
    except httpx.HTTPError as error:
        raise fault("network", f"the connection to the model server broke: {error or type(error).__name__}") from error
    known = [number for size in sizes if (number := count(size))]
    if not items(tokens) or not known:
        raise fault("protocol", "the model server did not say how long the prompt is and how much fits")
    return Window(len(items(tokens)), min(known))


async def _get(client: httpx.AsyncClient, path: str, body: object = None) -> object:
    response = await (client.get(path) if body is None else client.post(path, json=body))
    if response.status_code != 200:
        raise refusal(response.status_code, response.text)
    return parsed(response.content)
