"""Scripted servers of every kind: llama.cpp as it was observed, the others as their documentation has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from local_kit import CHAT, Reply, Site, piece, sse

MODEL = "qwen3:8b"
JSON = {"Content-Type": "application/json"}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def page(value: object, status: int = 200) -> Reply:
    return Reply(json.dumps(value).encode(), status, headers=JSON)


def lines(*values: object) -> Reply:
    body = "".join(f"{json.dumps(value)}\n" for value in values)
    return Reply(body.encode(), headers={"Content-Type": "application/x-ndjson"}, length=False)


# -- their pages -----------------------------------------------------------------------------------------------------


def llama_pages(context: int = 4096, tokens: int = 20, name: str = MODEL) -> dict[str, Reply]:
    meta = {"n_ctx": context, "n_ctx_train": 32768, "size": 96576768}
    entry = {"id": name, "aliases": [name], "object": "model", "owned_by": "llamacpp", "meta": meta}
    return {
        "/v1/models": page({"models": [{"name": name}], "object": "list", "data": [entry]}),
        "/props": page({"default_generation_settings": {"n_ctx": context}}),
        "/apply-template": page({"prompt": "x"}),
        "/tokenize": page({"tokens": list(range(tokens))}),
    }


def vllm_pages(context: int = 4096, tokens: int = 20, name: str = MODEL) -> dict[str, Reply]:
    entry = {"id": name, "object": "model", "owned_by": "vllm", "root": name, "max_model_len": context}
    return {
        "/v1/models": page({"object": "list", "data": [entry]}),
        "/tokenize": page({"count": tokens, "max_model_len": context, "tokens": list(range(tokens))}),
    }


def ollama_pages(context: int | None = 4096, name: str = MODEL, most: int = 40960) -> dict[str, Reply]:
    """With a `context` the model is loaded."""
    entry = {"name": name, "model": name, "size": 5_000_000_000, "details": {"family": "qwen3"}}
    loaded = [{"name": name, "model": name, "context_length": context}] if context else []
    return {
        "/api/version": page({"version": "0.34.0"}),
        "/v1/models": page({"object": "list", "data": [{"id": name, "object": "model", "owned_by": "library"}]}),
        "/api/tags": page({"models": [entry, {"name": "nomic-embed-text:latest", "size": 1}][:1]}),
        "/api/ps": page({"models": loaded}),
        "/api/show": page({"model_info": {"general.architecture": "qwen3", "qwen3.context_length": most}}),
    }


def lm_studio_pages(context: int | None = 4096, name: str = MODEL, most: int = 32768) -> dict[str, Reply]:
    """With a `context` the model is loaded."""
    loaded = [{"id": name, "config": {"context_length": context}}] if context else []
    model = {
        "type": "llm",
        "key": name,
        "display_name": "Qwen3 8B",
        "size_bytes": 5_000_000_000,
        "loaded_instances": loaded,
        "max_context_length": most,
    }
    embedding: dict[str, object] = {
        "type": "embedding",
        "key": "text-embedding-nomic",
        "loaded_instances": [],
        "max_context_length": 2048,
    }
    return {
        "/v1/models": page({"object": "list", "data": [{"id": name, "owned_by": "organization_owner"}]}),
        "/api/v1/models": page({"models": [model, embedding]}),
        # It answers 200 to what it does not know.
        "/api/version": page({"error": "Unexpected endpoint or method. (GET /api/version)"}),
    }


def old_lm_studio_pages(context: int | None = 4096, name: str = MODEL) -> dict[str, Reply]:
    state = {"state": "loaded", "loaded_context_length": context} if context else {"state": "not-loaded"}
    models = [
        {"id": name, "object": "model", "type": "llm", "max_context_length": 32768, **state},
        {"id": "text-embedding-nomic", "object": "model", "type": "embeddings", "state": "not-loaded"},
    ]
    unknown = page({"error": "Unexpected endpoint or method. (GET /api/…)"})
    return {
        "/v1/models": page({"object": "list", "data": [{"id": name, "owned_by": "organization_owner"}]}),
        "/api/v0/models": page({"object": "list", "data": models}),
        "/api/v1/models": unknown,
        "/api/version": unknown,
    }


def openai_pages(context: int | None = None, name: str = MODEL) -> dict[str, Reply]:
    window = {} if context is None else {"context_length": context}
    return {"/v1/models": page({"object": "list", "data": [{"id": name, "object": "model", **window}]})}


# -- their answers ---------------------------------------------------------------------------------------------------


def openai_answer(*texts: str, finish: str | None = "stop", read: int | None = 20, thought: str = "") -> Reply:
    """`read` is what it says of the tokens of the prompt."""
    thoughts = [{"choices": [{"index": 0, "delta": {"reasoning_content": thought}}]}] if thought else []
    usage: list[dict[str, object]] = (
        [{"choices": [], "usage": {"prompt_tokens": read, "completion_tokens": 2}}] if read else []
    )
    return sse(*thoughts, *map(piece, texts), piece("", finish), *usage)


def ollama_answer(*texts: str, finish: str | None = "stop", read: int | None = 20, thought: str = "") -> Reply:
    def line(content: str, thinking: str = "") -> dict[str, object]:
        message = {"role": "assistant", "content": content, **({"thinking": thinking} if thinking else {})}
        return {"model": MODEL, "created_at": "2026-12-01T00:00:00Z", "message": message, "done": False}

    thoughts = [line("", thought)] if thought else []
    numbers = {"prompt_eval_count": read, "eval_count": 2, "prompt_eval_cached_count": 3} if read else {}
    end = {**line(""), "done": True, **({"done_reason": finish} if finish else {}), **numbers}
    return lines(*thoughts, *map(line, texts), end)


@dataclass(frozen=True)
class Kind:
    """A kind of server.

    dialect: its name in the options.
    title: its name for people.
    pages: what it says of itself; every one takes a `context`.
    answer: of texts.
    chat: where it is asked.
    off: what of a request keeps a model from thinking.
    counts: it counts a prompt when it is asked.
    """

    dialect: str
    title: str
    pages: Callable[..., Mapping[str, Reply]]
    answer: Callable[..., Reply]
    chat: str
    off: Mapping[str, object]
    counts: bool = False

    def serve(self, site: Site, *replies: Reply, **more: object) -> None:
        """Answer a chat with these, one after another."""
        site.scripts.update(self.pages(**more))
        site.scripts[self.chat] = replies or self.answer("Hello", "!")

    def asked(self, site: Site) -> Sequence[dict[str, object]]:
        """What it was asked."""
        return [json.loads(seen.body) for seen in site.asked(self.chat)]


_TEMPLATE = {"chat_template_kwargs": {"enable_thinking": False}}
_EFFORT = {"reasoning_effort": "none"}

KINDS = {
    "llama.cpp": Kind("llama.cpp", "llama-server", llama_pages, openai_answer, CHAT, _TEMPLATE, counts=True),
    "vllm": Kind("vllm", "vLLM", vllm_pages, openai_answer, CHAT, _TEMPLATE, counts=True),
    "ollama": Kind("ollama", "Ollama", ollama_pages, ollama_answer, "/api/chat", {"think": False}),
    "lm-studio": Kind("lm-studio", "LM Studio", lm_studio_pages, openai_answer, CHAT, _EFFORT),
    "lm-studio before 0.4": Kind("lm-studio", "LM Studio", old_lm_studio_pages, openai_answer, CHAT, _EFFORT),
    "openai": Kind("openai", "an OpenAI-compatible server", openai_pages, openai_answer, CHAT, {}),
}


def without_end(reply: Reply) -> Reply:
    """What came before the last word of a stream; the connection ends in order."""
    mark = b'"done": true' if b'"done": true' in reply.body else b'"finish_reason": "stop"'
    end = reply.body.index(mark)
    return Reply(reply.body[: reply.body.rindex(b"\n", 0, end) + 1], headers=reply.headers, length=False)
