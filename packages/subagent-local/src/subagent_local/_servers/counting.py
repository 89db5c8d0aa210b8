"""What of a prompt fits into the window of a server, learned as each kind of server allows.

llama.cpp and vLLM count by their own tokenizer. The others have no page that counts: their prompts are estimated, by
their characters, and what the server says afterwards that it has read is compared with that (`Window.cut`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, TypeAlias

import httpx

from subagent_local._asking.faults import ChatFailed
from subagent_local._asking.pages import bounded, fetch
from subagent_local._asking.room import Window, estimate, least
from subagent_local._asking.window import measure
from subagent_local._files.prompt import Prompt
from subagent_local._json import at, count, items, table
from subagent_local._servers.served import Served

UNKNOWN_WINDOW: Final = 4096
"""Tokens that a window is taken to have where neither the server nor the options say: what most of them load with."""


TEMPLATE_OFF: Final[Mapping[str, object]] = MappingProxyType({"chat_template_kwargs": {"enable_thinking": False}})
"""Keeps models from thinking that are told so by their template; the prompt is another one with it."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the options say of the window.

    Attributes:
        context: tokens; where they were not given, the usual number.
        given: they were.
    """

    context: int
    given: bool

    def within(self, *known: int | None) -> int:
        """The smallest of what is known of the window, the options' word included where it was given."""
        sizes = [size for size in known if size]
        return min([*sizes, self.context] if self.given or not sizes else sizes)


Count: TypeAlias = Callable[[httpx.AsyncClient, Served, Prompt, Wish, float], Awaitable[Window]]
"""Count the prompt for a model, within so many seconds."""


def _estimated(prompt: Prompt, context: int) -> Window:
    text = "\n".join(message["content"] for message in prompt.messages)
    return Window(estimate(text), context, estimate(prompt.expected), least(text))


async def count_llama(client: httpx.AsyncClient, model: Served, prompt: Prompt, wish: Wish, timeout: float) -> Window:
    window = await measure(
        client, prompt.messages, files=prompt.expected, timeout=timeout, model=model.name, template=TEMPLATE_OFF
    )
    return replace(window, context=wish.within(window.context))


async def count_vllm(client: httpx.AsyncClient, model: Served, prompt: Prompt, wish: Wish, timeout: float) -> Window:
    context = wish.within(model.context or UNKNOWN_WINDOW)
    try:
        with bounded(timeout, "count the prompt"):
            numbers = [
                count(at(await fetch(client, "/tokenize", {"model": model.name, **question}), "count"))
                for question in (
                    {"messages": prompt.messages, "add_generation_prompt": True, **TEMPLATE_OFF},
                    {"prompt": prompt.expected, "add_special_tokens": False},
                )
            ]
    except ChatFailed as error:
        if error.failure.kind in ("auth", "network", "timeout"):
            raise
        numbers = [None]  # it can be started without this page
    if None in numbers:
        return _estimated(prompt, context)
    tokens, files = [number or 0 for number in numbers]
    return Window(tokens, context, files if prompt.expected else 0)


async def count_ollama(client: httpx.AsyncClient, model: Served, prompt: Prompt, wish: Wish, timeout: float) -> Window:
    with bounded(timeout, "describe the model"):
        try:
            about = table(await fetch(client, "/api/show", {"model": model.name}))
        except ChatFailed:
            if not model.context:
                raise
            about = table(None)  # it is loaded, which says enough
    info = table(about.get("model_info"))
    most = count(info.get(f"{info.get('general.architecture')}.context_length"))
    # A loaded model keeps the window that it has: another one would load it anew, under the feet of who uses it.
    kept = model.context if not wish.given else None
    # What the model's own file puts in front of every conversation.
    texts = (about.get("system"), *(at(message, "content") for message in items(about.get("messages"))))
    own = "".join(text for text in texts if isinstance(text, str))
    window = _estimated(prompt, kept or min(wish.context, most or wish.context))
    return replace(window, prompt=window.prompt + estimate(own), beside=len(own.encode("utf-8", "replace")))


async def count_by_eye(client: httpx.AsyncClient, model: Served, prompt: Prompt, wish: Wish, timeout: float) -> Window:
    known = model.context or (None if wish.given else UNKNOWN_WINDOW)
    return _estimated(prompt, wish.within(known, model.most))
