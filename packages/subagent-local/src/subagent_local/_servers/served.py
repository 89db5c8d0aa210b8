"""The models that a server has, from the pages on which each kind of server lists them.

What cannot answer a question (models for embeddings) is left out. What is not of the expected shape is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from subagent_local._json import at, count, items, table


@dataclass(frozen=True, slots=True)
class Served:
    """A model that a server has.

    Attributes:
        name: by which a request asks for it.
        loaded: it is in memory; None where the server does not say.
        context: tokens of its window as it is now; None where that is not known.
        most: tokens of the window that it was made for.
        also: other names by which people may ask for it.
        elsewhere: the machine that runs it, where that is not the server's own.
        unasked: it may be taken where nobody named one.
    """

    name: str
    title: str = ""
    loaded: bool | None = None
    context: int | None = None
    most: int | None = None
    size: int | None = None
    also: tuple[str, ...] = ()
    elsewhere: str = ""
    unasked: bool = True

    @property
    def told(self) -> str:
        """Behind its name, where people have to know it: that what they ask leaves the server."""
        return f", which has it run by {self.elsewhere}" if self.elsewhere else ""

    def is_called(self, name: str) -> bool:
        """Whether somebody who says this name means it."""
        names = (self.name, *self.also)
        last = [one.rpartition("/")[2] for one in names]
        return name in (*names, *last, *(one.removesuffix(".gguf") for one in last))


def _names(*values: object) -> tuple[str, ...]:
    return tuple(value for value in values if isinstance(value, str) and value)


def _entries(page: object, under: str) -> Iterable[dict[str, object]]:
    """What a list holds, without what answers no questions."""
    return (entry for entry in map(table, items(at(page, under))) if not _embeds(entry))


def _embeds(entry: dict[str, object]) -> bool:
    """Whether a model turns text into numbers and answers nothing, as LM Studio (`type`) and Ollama tell it."""
    kind, family, skills = entry.get("type"), at(entry, "details", "family"), items(entry.get("capabilities"))
    return (
        (isinstance(kind, str) and kind.startswith("embedding"))
        or (isinstance(family, str) and "bert" in family)
        or ("embedding" in skills and "completion" not in skills)
    )


def openai_models(pages: Sequence[object]) -> Iterable[Served]:
    for entry in _entries(pages[0], "data"):
        for name in _names(entry.get("id")):
            sizes = (entry.get("max_model_len"), entry.get("context_length"), at(entry, "meta", "n_ctx"))
            context = next((size for size in map(count, sizes) if size), None)
            yield Served(name, context=context)


def llama_models(pages: Sequence[object]) -> Iterable[Served]:
    for entry in _entries(pages[0], "data"):
        for name in _names(entry.get("id")):
            meta = table(entry.get("meta"))
            yield Served(
                name,
                loaded=at(entry, "status", "value") in (None, "loaded"),  # only a router has models that are not
                context=count(meta.get("n_ctx")),
                most=count(meta.get("n_ctx_train")),
                size=count(meta.get("size")),
                also=_names(*items(entry.get("aliases"))),
            )


def vllm_models(pages: Sequence[object]) -> Iterable[Served]:
    return (replace(model, loaded=True) for model in openai_models(pages))


def ollama_models(pages: Sequence[object]) -> Iterable[Served]:
    loaded = {
        name: count(entry.get("context_length"))
        for entry in _entries(pages[1], "models")
        for name in _names(entry.get("name"))
    }
    for entry in _entries(pages[0], "models"):
        elsewhere = "".join(_names(entry.get("remote_host")))
        for name in _names(entry.get("name")):
            yield Served(
                name,
                loaded=name in loaded,
                context=loaded.get(name),
                size=count(entry.get("size")),
                also=_names(name.removesuffix(":latest")),
                elsewhere=elsewhere,
                unasked=not elsewhere and "embed" not in name,
            )


def lm_studio_models(pages: Sequence[object]) -> Iterable[Served]:
    for entry in _entries(pages[0], "models"):
        instances = [table(instance) for instance in items(entry.get("loaded_instances"))]
        key = _names(entry.get("key"))
        base = Served(
            key[0] if key else "",
            str(entry.get("display_name") or ""),
            loaded=False,
            most=count(entry.get("max_context_length")),
            size=count(entry.get("size_bytes")),
        )
        for instance in instances:
            for name in _names(instance.get("id")):
                context = count(at(instance, "config", "context_length"))
                yield replace(base, name=name, loaded=True, context=context, also=key if len(instances) == 1 else ())
        if key and not instances:
            yield base


def old_lm_studio_models(pages: Sequence[object]) -> Iterable[Served]:
    for entry in _entries(pages[0], "data"):
        for name in _names(entry.get("id")):
            loaded = entry.get("state") == "loaded"
            context = count(entry.get("loaded_context_length"))
            yield Served(name, loaded=loaded, context=context, most=count(entry.get("max_context_length")))
