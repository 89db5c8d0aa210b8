"""Who answers a run: the engine that we own, or a server that a person runs. To `Local` they are the same."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import httpx

from subagent_local._asking.chat import Answer, ask
from subagent_local._asking.faults import ChatFailed
from subagent_local._asking.room import Window
from subagent_local._asking.window import measure
from subagent_local._asking.wire import OPENAI, Wire
from subagent_local._ending import explained
from subagent_local._engine.child import start_engine
from subagent_local._files.prompt import Prompt
from subagent_local._found import find
from subagent_local._servers.counting import Wish
from subagent_local._servers.discovery import find_servers
from subagent_local._servers.looking import open_client
from subagents import Event, Failure, Link, NoticeEvent, StartError

if TYPE_CHECKING:
    from subagent_local.options import LocalOptions

Body = Mapping[str, object]
_BAD_REQUEST: Final = frozenset({400, 422})
_SWITCH: Final = re.compile(r"chat_template|enable_thinking|reasoning_effort|support thinking|[\"']think[\"']")
"""In what refuses a switch for thinking."""


@dataclass(frozen=True, slots=True)
class Host:
    """A model that can be asked.

    Attributes:
        client: with the address, and the key where there is one.
        model: its name.
        repeat_penalty: that it needs.
        wire: where it is asked and how it answers.
        measure: the prompt and the window.
        request: a body of the OpenAI API in the words of the server, for this window.
        thinking_off: what a request holds besides, so that the model does not think first.
        explained: a failure, with what else is known of it.
        widen: how its window is made larger, as in ``start it with …``; empty for the engine of our own.
    """

    client: httpx.AsyncClient
    model: str
    measure: Callable[[Prompt], Awaitable[Window]]
    request: Callable[[Body, Window], Body]
    thinking_off: Body
    explained: Callable[[Failure], Awaitable[Failure]]
    repeat_penalty: float = 1.0
    wire: Wire = OPENAI
    widen: str = ""

    async def ask(
        self,
        body: Body,
        window: Window,
        answer: Answer,
        *,
        stall: float,
        accepted: Callable[[], None],
        emit: Callable[[Event], None],
    ) -> None:
        """As `_asking.chat.ask`. A server that refuses the switch for thinking is asked once more without it.

        Some do not know it, and some know no template (vLLM with a tokenizer of Mistral).

        Raises:
            ChatFailed: there is no whole answer.
        """
        request = self.request(body, window)
        more = partial(ask, stall=stall, accepted=accepted, emit=emit, wire=self.wire)
        try:
            await more(self.client, {**request, **self.thinking_off}, answer)
        except ChatFailed as error:
            refused = error.failure.http_status in _BAD_REQUEST and _SWITCH.search(error.failure.message)
            if not (self.thinking_off and refused) or answer.begun:
                raise
            emit(NoticeEvent(f"{self.model} cannot be told not to think", "server"))
            await more(self.client, request, answer)

    def cut(self, window: Window, read: int | None) -> str | None:
        """Why an answer is none, because the server has read only a part of the question; None when it read all.

        Ours refuses what does not fit.
        """
        if not self.widen or not window.cut(read):
            return None
        at_least = "" if window.least is None else "at least "
        return (
            f"the model server says that it has read {read:,} tokens of a prompt of {at_least}{window.surely:,}: "
            f"it has cut it, and the answer is to a part of the question. Shorten the prompt, or {self.widen}"
        )


def open_host(options: LocalOptions, wanted: str | None, link: Link) -> AbstractAsyncContextManager[Host]:
    """The host that the options mean; `wanted` is the model that the task names.

    Raises:
        StartError: there is none, or it does not have the model.
    """
    return _embedded(options, wanted, link) if options.url is None else _served(options, wanted, link)


@asynccontextmanager
async def _embedded(options: LocalOptions, wanted: str | None, link: Link) -> AsyncGenerator[Host]:
    model = await find(wanted or options.model, link.emit, download=options.download)
    link.emit(NoticeEvent(f"loading {model.name}", "loading"))
    context = min(options.context, model.context or options.context)
    async with start_engine(
        model.path, link, context=context, threads=options.threads, ready_timeout=options.ready_timeout
    ) as engine:
        yield Host(
            engine.client,
            model.name,
            lambda prompt: measure(
                engine.client, prompt.messages, files=prompt.expected, timeout=options.stall_timeout
            ),
            lambda body, window: body,
            {},
            lambda failure: explained(failure, engine),
            model.repeat_penalty,
        )


@asynccontextmanager
async def _served(options: LocalOptions, wanted: str | None, link: Link) -> AsyncGenerator[Host]:
    try:
        found = await find_servers(options)
        seen, model = found.choose(wanted or options.named_model)
        client = open_client(seen.url, found.key)
    except ChatFailed as error:
        raise StartError(replace(_told(error.failure, None), stage="start")) from None
    dialect, wish = seen.dialect, Wish(options.context, "context" in options.model_fields_set)
    link.emit(NoticeEvent(f"{model.name} of {dialect.title} at {seen.url}{model.told}", "server"))

    async def explain(failure: Failure) -> Failure:
        return _told(failure, seen.url if options.url == "auto" else None)

    async with client:
        yield Host(
            client,
            model.name,
            lambda prompt: dialect.count(client, model, prompt, wish, options.stall_timeout),
            lambda body, window: dialect.request(body, model, window),
            dialect.thinking_off,
            explain,
            wire=dialect.wire,
            widen=dialect.widen,
        )


def _told(failure: Failure, url: str | None) -> Failure:
    """With what to do about a server that wants a key; `url` is its address where it was found and not given."""
    if failure.kind != "auth":
        return failure
    give = f"Give {url} as url, and the key that it wants" if url else "Give the key that it wants"
    return replace(failure, message=f"{failure.message}. {give} as api_key_env, or api_key")
