"""How each kind of server speaks, as data: one row for each, of constants and small functions.

A row says by which page the server is known, where it lists its models and what that list says of each, how the size of
the window is learned and a prompt counted, what the request looks like (thinking off, held to a schema), and what to do
about a window that is too small. What is the same for all is not in here: a key goes as a bearer token, temperature is
always sent, answers are always streamed.

Sources: llama.cpp observed (llama-server 7e4c0a9; the router's `status` read); Ollama 0.34, LM Studio 0.4 and vLLM 0.22
read, in their documentation and sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from subagent_local._asking.room import Window
from subagent_local._asking.wire import OLLAMA, OPENAI, Wire
from subagent_local._json import at, count, items
from subagent_local._servers.counting import TEMPLATE_OFF, Count, count_by_eye, count_llama, count_ollama, count_vllm
from subagent_local._servers.served import (
    Served,
    llama_models,
    lm_studio_models,
    old_lm_studio_models,
    ollama_models,
    openai_models,
    vllm_models,
)

_TEMPLATE: Final = 256  # tokens that the template of a model may put around two messages
Body: TypeAlias = Mapping[str, object]


def _plain(body: Body, model: Served, window: Window) -> Body:
    """Without what only llama.cpp knows: strict servers refuse a field that they do not."""
    return {**{name: value for name, value in body.items() if name != "return_progress"}, "model": model.name}


def _with_progress(body: Body, model: Served, window: Window) -> Body:
    return {**body, "model": model.name}


def _native_ollama(body: Body, model: Served, window: Window) -> Body:
    """Its `/v1` has no field for the window and drops old messages silently; this one refuses what does not fit."""
    schema = at(body.get("response_format"), "json_schema", "schema")
    return {
        "model": model.name,
        "messages": body["messages"],
        "stream": True,
        "truncate": False,
        **({} if _surely_fits(body, window) else {"shift": False}),
        "options": {
            "temperature": body["temperature"],
            "num_predict": body["max_tokens"],
            "num_ctx": window.context,
        },
        **({} if schema is None else {"format": schema}),
    }


def _surely_fits(body: Body, window: Window) -> bool:
    """Whether prompt and answer have room by any tokenizer: none makes more tokens of a text than it has bytes.

    What fits needs no `shift`, with which Ollama loads a model anew that somebody else uses without it.
    """
    texts = "".join(f"{at(message, 'role')}{at(message, 'content')}" for message in items(body["messages"]))
    size = len(texts.encode("utf-8", "replace")) + window.beside + _TEMPLATE + (count(body["max_tokens"]) or 0)
    return size <= window.context


@dataclass(frozen=True, slots=True)
class Dialect:
    """A kind of server.

    Attributes:
        name: in the options.
        title: for people.
        port: its usual one.
        sign: the page by which it is known, and what that looks like.
        pages: that list its models.
        models: from these pages.
        count: the prompt, and learn the window, within so many seconds.
        request: the body of the OpenAI API for a model and a window, in its own words.
        thinking_off: what a request holds so that the model does not think first.
        widen: how its window is made larger.
        wire: where it is asked and how it answers.
    """

    name: str
    title: str
    port: int | None
    sign: tuple[str, Callable[[object], bool]]
    pages: tuple[str, ...]
    models: Callable[[Sequence[object]], Iterable[Served]]
    count: Count
    widen: str
    thinking_off: Body = field(default_factory=dict[str, object])
    request: Callable[[Body, Served, Window], Body] = _plain
    wire: Wire = OPENAI


def _holds(name: str) -> Callable[[object], bool]:
    return lambda page: isinstance(at(page, name), list)


def _owned_by(owner: str) -> tuple[str, Callable[[object], bool]]:
    return "/v1/models", lambda page: at(page, "data", 0, "owned_by") == owner


_LM_STUDIO = Dialect(
    name="lm-studio",
    title="LM Studio",
    port=1234,
    sign=("/api/v1/models", _holds("models")),
    pages=("/api/v1/models",),
    models=lm_studio_models,
    count=count_by_eye,
    thinking_off={"reasoning_effort": "none"},
    widen="load the model with a larger context length in LM Studio",
)

DIALECTS: Final[tuple[Dialect, ...]] = (
    Dialect(
        name="llama.cpp",
        title="llama-server",
        port=8080,
        sign=_owned_by("llamacpp"),
        pages=("/v1/models",),
        models=llama_models,
        count=count_llama,
        request=_with_progress,
        thinking_off=TEMPLATE_OFF,
        widen="start llama-server with a larger --ctx-size, or a smaller --parallel, which divides it",
    ),
    Dialect(
        name="vllm",
        title="vLLM",
        port=8000,
        sign=_owned_by("vllm"),
        pages=("/v1/models",),
        models=vllm_models,
        count=count_vllm,
        thinking_off=TEMPLATE_OFF,
        widen="start vLLM with a larger --max-model-len",
    ),
    Dialect(
        name="ollama",
        title="Ollama",
        port=11434,
        sign=("/api/tags", _holds("models")),
        pages=("/api/tags", "/api/ps"),
        models=ollama_models,
        count=count_ollama,
        request=_native_ollama,
        thinking_off={"think": False},
        widen="raise the option context, which Ollama is sent as num_ctx",
        wire=OLLAMA,
    ),
    _LM_STUDIO,
    replace(
        _LM_STUDIO,  # before 0.4
        sign=("/api/v0/models", _holds("data")),
        pages=("/api/v0/models",),
        models=old_lm_studio_models,
    ),
    Dialect(
        name="openai",
        title="an OpenAI-compatible server",
        port=None,
        sign=("/v1/models", _holds("data")),
        pages=("/v1/models",),
        models=openai_models,
        count=count_by_eye,
        widen="give the server a larger window, and say how large it is with the option context",
    ),
)
"""In the order in which they are looked for: the most particular sign first, since many servers have `/v1/models`."""
