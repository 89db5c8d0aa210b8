"""One conversation with an OpenAI-compatible server, streamed: the same code for our own child and for any other one.

Contract: `ask` returns when the server has said why it stopped (`finish_reason`), or raises `ChatFailed`. A stream
that ends without that word is a failure, however much text came before it: half an answer never looks like a whole
one. With that word the verdict stands, whatever breaks after it; but more of the answer after it, and it was not whole.

Traps: always streamed, because a closed connection stops the work only then; `return_progress` makes llama.cpp look
for a closed connection while it reads the prompt, too; temperature is always sent, because servers have defaults of
their own; neither a keep-alive comment nor an event without news is a sign of life of the model, so only events that
bring something count against the time limit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
import httpx

from subagent_local._asking.faults import ChatFailed, broken, error_inside, fault, quoted, refusal
from subagent_local._asking.sse import EventTooLong, ServerEvent
from subagent_local._asking.wire import OPENAI, Wire
from subagent_local._http import IDENTITY, form, raw_body
from subagent_local._json import at, count, items, parsed, table
from subagents import Event, NoticeEvent, TextEvent, ThoughtEvent, Usage

_AFTER_FINISH = 2.0  # seconds for the usage that follows the end of an answer; the verdict does not depend on it
_ERROR_BYTES = 64 << 10  # read of the body of a refusal
_ANSWER_LIMIT = 16 << 20  # characters, of thoughts too: no model of this size means more, a broken server may
_TALKATIVE = 512  # tokens of a prompt from which on its progress is worth telling


@dataclass(slots=True)
class Answer:
    """What has come so far.

    Attributes:
        pieces: of the text.
        size: characters that came, those of thoughts included.
        begun: the server has taken the work: something came that is no error.
        thought: something of the model's reasoning came.
        finish: `finish_reason`, the server's word for why it stopped; None until it said so.
        went_on: more of it came after that word, which cannot have been right.
        usage: tokens, where the server said how many.
        unknown: events that could not be understood; they pass and are counted.
    """

    pieces: list[str] = field(default_factory=list[str])
    size: int = 0
    begun: bool = False
    thought: bool = False
    finish: str | None = None
    went_on: bool = False
    usage: Usage | None = None
    unknown: int = 0

    @property
    def text(self) -> str:
        """The pieces joined."""
        return "".join(self.pieces)


def chat_body(
    messages: Sequence[Mapping[str, str]],
    *,
    schema: Mapping[str, object] | None,
    max_tokens: int,
    temperature: float,
    repeat_penalty: float = 1.0,
) -> dict[str, object]:
    """The request: ``{"messages": […], "stream": true, …}``, with ``response_format`` where a schema is asked for.

    Nothing is penalised for its repetition there: JSON repeats itself.
    """
    body: dict[str, object] = {
        "messages": messages,
        "max_tokens": max_tokens,
        "temperature": temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
    }
    if schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema, "strict": True},
        }
    elif repeat_penalty != 1.0:
        body["repeat_penalty"] = repeat_penalty
    return body


async def ask(
    client: httpx.AsyncClient,
    body: Mapping[str, object],
    answer: Answer,
    *,
    stall: float,
    accepted: Callable[[], None],
    emit: Callable[[Event], None],
    wire: Wire = OPENAI,
) -> None:
    """Fill `answer` until the server has finished it.

    Args:
        client: with the address of the server and the key.
        body: of `chat_body`, in the words of the server.
        answer: what came stands there, also when this raises.
        stall: seconds without news after which the server counts as hanging.
        accepted: called at the first event.
        emit: called with each piece.
        wire: where it is asked, and in which form the answer comes.

    Raises:
        ChatFailed: there is no whole answer; `failure` says why.
    """
    try:
        with anyio.fail_after(stall) as clock:
            stream = client.stream("POST", wire.path, json=body, headers=IDENTITY)
            async with stream as response, raw_body(response) as chunks:
                if response.status_code != 200:
                    schema = not body.keys().isdisjoint(("response_format", "format"))
                    raise refusal(response.status_code, await _head(chunks), schema=schema)
                await _Reader(answer, clock, stall, accepted, emit, wire).read(response, chunks)
    except (TimeoutError, httpx.HTTPError, EventTooLong, ChatFailed) as error:
        if answer.finish is not None:
            return
        if isinstance(error, ChatFailed):
            raise
        raise _failed(error, stall) from error
    if answer.finish is None:
        raise fault("protocol", "the stream ended before the model server said that the answer is whole")


def _failed(error: Exception, stall: float) -> ChatFailed:
    if isinstance(error, TimeoutError):
        return fault("timeout", f"the model server said nothing for {stall:g} s")
    if isinstance(error, EventTooLong):
        return fault("protocol", f"the model server sent {error}")
    return broken(error)


class _Reader:
    def __init__(
        self,
        answer: Answer,
        clock: anyio.CancelScope,
        stall: float,
        accepted: Callable[[], None],
        emit: Callable[[Event], None],
        wire: Wire,
    ) -> None:
        self.answer, self.clock, self.stall = answer, clock, stall
        self.accepted, self.emit, self.wire = accepted, emit, wire
        self.events = 0
        self.processed = 0  # tokens of the prompt

    async def read(self, response: httpx.Response, chunks: AsyncIterator[bytes]) -> None:
        decoder, head = self.wire.decoder(), bytearray()
        async for chunk in chunks:
            if not self.events:
                head += chunk[: _ERROR_BYTES - len(head)]
            if self._take(decoder.feed(chunk)):
                return
            await anyio.lowlevel.checkpoint()  # one turn for the followers, however much is buffered
        self._take(decoder.close())
        if not self.events:
            text = head.decode("utf-8", "replace")
            says = f"the model server answered with {form(response)}, not with {self.wire.says}"
            raise error_inside(parsed(text)) or fault("protocol", says)

    def _take(self, events: Iterable[ServerEvent]) -> bool:
        """Take events in; whether the server says that it was the last one."""
        for event in events:
            self.events += 1
            if event.data.strip() == "[DONE]":
                return True
            finished = self.answer.finish is not None
            if self._event(event) and not finished:
                patience = self.stall if self.answer.finish is None else min(self.stall, _AFTER_FINISH)
                self.clock.deadline = anyio.current_time() + patience
        return False

    def _event(self, event: ServerEvent) -> bool:
        """Take one event in; whether it brought news."""
        chunk = self.wire.piece(parsed(event.data))
        if failed := error_inside(chunk):
            raise failed
        if event.name == "error":  # of LM Studio, whose error may be any text
            raise error_inside({"error": event.data}) or fault("protocol", "the model server reported an error")
        if not chunk:
            raise fault("protocol", f"the model server sent what is no piece of an answer: {quoted(event.data, 200)!r}")
        self.answer.begun = True
        self.accepted()
        news = self._progress(table(chunk.get("prompt_progress")))
        # Nobody asked for a second choice, but one that comes is not this answer.
        choices = [table(choice) for choice in items(chunk.get("choices"))]
        choice = next((choice for choice in choices if choice.get("index") in (0, None)), table(None))
        ended = self.answer.finish is not None
        if self._text(table(choice.get("delta"))):
            news, self.answer.went_on = True, ended
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish and self.answer.finish is None:
            self.answer.finish, news = quoted(finish, 40), True
        if usage := table(chunk.get("usage")):
            self.answer.usage = _usage(usage)
        if not choice and not usage:
            self.answer.unknown += 1
        return news

    def _text(self, delta: Mapping[str, object]) -> bool:
        # llama.cpp and LM Studio; Ollama and vLLM
        thought = _joined(delta.get("reasoning_content")) or _joined(delta.get("reasoning"))
        text = _joined(delta.get("content"))
        self.answer.size += len(thought) + len(text)
        if self.answer.size > _ANSWER_LIMIT:
            raise fault("protocol", f"the answer has more than {_ANSWER_LIMIT:,} characters and no end")
        if thought:
            self.answer.thought = True
            self.emit(ThoughtEvent(thought))
        if text:
            self.answer.pieces.append(text)
            self.emit(TextEvent(text))
        return bool(thought or text)

    def _progress(self, progress: Mapping[str, object]) -> bool:
        total, done = count(progress.get("total")), count(progress.get("processed"))
        if total is None or done is None or not self.processed < done <= total:
            return False
        self.processed = done
        if total >= _TALKATIVE:
            data = {"done": done, "total": total, "unit": "tokens"}
            self.emit(NoticeEvent("the model reads the prompt", "progress", data=data))
        return True


def _joined(content: object) -> str:
    """Text, or a list of parts ``{"type": "text", "text": "…"}``, of which some servers make it; else nothing."""
    if isinstance(content, str):
        return content
    texts = [table(part).get("text") for part in items(content)]
    return "".join(text for text in texts if isinstance(text, str))


async def _head(chunks: AsyncIterator[bytes]) -> str:
    body = bytearray()
    with anyio.move_on_after(_AFTER_FINISH):  # the status stands, whatever becomes of its explanation
        async for chunk in chunks:
            body += chunk
            if len(body) >= _ERROR_BYTES:
                break
    return body[:_ERROR_BYTES].decode("utf-8", "replace")


def _usage(usage: Mapping[str, object]) -> Usage:
    cached = at(usage, "prompt_tokens_details", "cached_tokens")
    # No prompt has 0 tokens: a server that says so does not count, or not those that it had in its cache.
    return Usage(count(usage.get("prompt_tokens")) or None, count(usage.get("completion_tokens")), count(cached))
