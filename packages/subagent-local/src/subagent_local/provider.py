"""`Local`: a model on this machine, as a provider of subagents.

A run is: the model's file (pulled when that is allowed), a child with the engine, the prompt counted, one streamed
answer, the end of the child. The child has accepted the work when the first event of its answer arrives; everything
before that fails as a `StartError`. The verdict stands as soon as the server has said why it stopped; ending the
child comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Unpack

from pydantic import BaseModel

from subagent_local._cache import Cache
from subagent_local._notices import announced, progress_notice, refused
from subagent_local._pull import pull
from subagent_local.errors import BadModelFile, CacheUnusable, PullError, SourcesFailed, UnknownModel
from subagent_local.models import MODELS, LocalModel, find_model
from subagent_local.options import LocalFields, LocalOptions
from subagents import (
    Evidence,
    Failure,
    Link,
    Model,
    NoticeEvent,
    Probe,
    Provider,
    Result,
    StartError,
    StopReason,
    Task,
    Usage,
    UsageEvent,
)

if TYPE_CHECKING:
    from subagent_local._chat import Answer
    from subagent_local._engine import Engine

# The words after which an answer is whole, those that say why it is not, and nothing else: an answer that ends with
# any other one ("abort", "error", "tool_calls") may be half of one.
_STOP: dict[str, StopReason] = {
    "stop": "completed",
    "eos": "completed",
    "stop_sequence": "completed",
    "length": "max-tokens",
    "content_filter": "refusal",
}


@dataclass(frozen=True, slots=True)
class _Model:
    """What a run needs to know of its model; of a file of one's own that is the file."""

    name: str
    path: Path
    context: int | None = None
    repeat_penalty: float = 1.0


class Local(Provider):
    """A small model in a child process of its own.

        Local(model="smollm2-135m", max_tokens=500)

    Capabilities: `model` (a name of the table or a path to a GGUF file), `output_schema` (by constrained output) and
    `instructions`. It answers; it has no tools, reads no files and changes none.

    Attributes:
        options: what it was told.
    """

    capabilities: frozenset[str] = frozenset({"model", "output_schema", "instructions"})
    options_type: ClassVar[type[BaseModel] | None] = LocalOptions

    def __init__(self, name: str = "local", **options: Unpack[LocalFields]) -> None:
        """Configure; nothing starts, and no file is touched.

        Args:
            name: of this instance, kebab-case.
            options: fields of `LocalOptions`.

        Raises:
            pydantic.ValidationError: an option is unknown or wrong.
        """
        self.name = name
        self.options = LocalOptions.model_validate(options)

    async def drive(self, task: Task, link: Link) -> None:
        """Ask the model once. See the module for what counts when."""
        # Not at the top: httpx costs 60 ms to import, and whoever only lists providers needs none of it.
        from subagent_local._chat import Answer, ask, chat_body
        from subagent_local._engine import start_engine
        from subagent_local._faults import ChatFailed
        from subagent_local._window import measure

        options = self.options
        model = await self._model(task.model or options.model, link.emit)
        body = chat_body(
            task.prompt,
            instructions=task.instructions,
            schema=task.output_schema,
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            repeat_penalty=model.repeat_penalty,
        )
        answer, accepted = Answer(), False

        def accept() -> None:
            nonlocal accepted
            accepted = True
            link.ready(model=model.name)

        link.emit(NoticeEvent(f"loading {model.name}", "loading"))
        context = min(options.context, model.context or options.context)
        async with start_engine(
            model.path, link, context=context, threads=options.threads, ready_timeout=options.ready_timeout
        ) as engine:
            try:
                window = await measure(engine.client, body["messages"], timeout=options.stall_timeout)
                if not window.holds(options.max_tokens):
                    raise StartError(Failure("model", "start", window.refusal(options.max_tokens)))
                stall = options.stall_timeout
                await ask(engine.client, body, answer, stall=stall, accepted=accept, emit=link.emit)
            except ChatFailed as error:
                failure = await _explained(error.failure, engine)
                if not accepted:
                    raise StartError(replace(failure, stage="start")) from error
                link.finish(_result(answer, model.name, failure))
            else:
                if answer.usage is not None:
                    link.emit(UsageEvent(answer.usage))
                link.finish(_result(answer, model.name, None))

    async def models(self) -> Sequence[Model]:
        """The table; `present` says what is in the cache.

        Raises:
            CacheUnusable: the configured place of the cache means nothing.
        """
        cache = Cache()
        return [
            Model(
                model.name,
                model.title,
                context=model.context,
                size=model.size,
                present=cache.find(model) is not None,
                default=model.name == str(self.options.model),
                licence=model.licence,
            )
            for model in MODELS.values()
        ]

    async def pull(self, model: str, *, progress: Callable[[NoticeEvent], object] | None = None) -> str:
        """Bring a model into the cache; its path.

        Raises:
            UnknownModel, BadModelFile, PullError: as `subagent_local.pull`.
        """
        tell = progress or _ignore
        return str(await pull(model, progress=lambda news: tell(progress_notice(news))))

    async def _probe(self) -> Probe:
        from subagent_local._engine import INSTALL, engine_version

        installed = engine_version()
        if installed is None:
            return Probe(False, detail="the embedded engine (xllamacpp) is not installed", fix=INSTALL)
        try:
            found = find_model(self.options.model)
        except (UnknownModel, BadModelFile) as error:
            return Probe(False, installed, detail=str(error), fix=f"set model to {' or '.join(MODELS)}")
        try:
            path = found if isinstance(found, Path) else Cache().find(found)
        except CacheUnusable as error:
            return Probe(False, installed, detail=str(error), fix="set SUBAGENTS_CACHE to a folder that can be written")
        if path is not None:
            return Probe(True, installed, str(path), detail=f"{self.options.model} is on this machine")
        assert isinstance(found, LocalModel)
        size = f"{found.size / 1e6:,.0f} MB"
        if self.options.download:
            detail = f"{found.name} ({size}) will be downloaded when it is first used"
            return Probe(True, installed, detail=detail, fix=f"subagents models pull {found.name}")
        detail = f"{found.name} ({size}) is not here, and downloading is off"
        return Probe(False, installed, detail=detail, fix=f"subagents models pull {found.name}")

    async def _model(self, wanted: str | Path, emit: Callable[[NoticeEvent], object]) -> _Model:
        try:
            found = find_model(wanted)
            if isinstance(found, Path):
                return _Model(found.name, found)
            path = Cache().find(found)
            if path is None and not self.options.download:
                raise StartError(Failure("launch", "start", refused(found)))
            if path is None:
                emit(announced(found))
                path = await pull(found, progress=lambda news: emit(progress_notice(news)))
            return _Model(found.name, path, found.context, found.repeat_penalty)
        except (UnknownModel, BadModelFile) as error:
            raise StartError(Failure("model", "start", str(error))) from error
        except PullError as error:
            network = isinstance(error, SourcesFailed) and error.network
            kind = "network" if network else "launch"
            raise StartError(Failure(kind, "start", str(error), retryable=network)) from error


async def _explained(failure: Failure, engine: Engine) -> Failure:
    """A connection that broke because the child ended is the child's exit, and its last words belong to it."""
    if failure.kind not in ("network", "protocol") or failure.http_status is not None:
        return failure
    code = await engine.child.exit_code()
    if code is None:
        return failure
    message = f"the engine ended with exit code {code} before the answer was whole"
    return Failure("exit", "run", message + await engine.child.last_words(), exit_code=code)


def _result(answer: Answer, model: str, failure: Failure | None) -> Result:
    terminal = f"finish_reason={answer.finish}" if answer.finish else None
    stop = "error" if failure else _STOP.get(answer.finish or "", "error")
    if stop == "error" and failure is None:
        word = repr((answer.finish or "")[:40])
        reason = f"the model server stopped with {word}, which does not say that the answer is whole"
        failure = Failure("protocol", "run", reason)
    if stop == "completed" and not answer.text.strip():
        stop = "error"
        empty = "the model thought about it and gave no answer" if answer.thought else "the model gave an empty answer"
        failure = Failure("output", "run", empty)
    return Result(
        stop,
        answer.text,
        failure=failure,
        usage=answer.usage or Usage(),
        model=model,
        evidence=Evidence(terminal=terminal),
    )


def _ignore(news: NoticeEvent) -> None:
    pass
