"""`Local`: a model on this machine, as a provider of subagents.

A run is: the files of the task, somebody to ask (`_hosts`), the prompt counted, one streamed answer, the files written
where the task asks for that. To ask is a child with the engine, for which the model's file is pulled when that is
allowed, or a server that a person runs. Either has accepted the work when the first event of its answer arrives;
everything before that fails as a `StartError`. The verdict stands as soon as the server has said why it stopped and the
files are written. Ending the child comes after it; a server is left by closing the connection, which ends its work too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Unpack, cast

from pydantic import BaseModel

from subagent_local._ending import result_of
from subagent_local._files.change import Progress, carry_out
from subagent_local._files.loading import check_files, load_files
from subagent_local._notices import left_out, progress_notice
from subagent_local._pulling.cache import Cache
from subagent_local._pulling.pull import pull
from subagent_local.errors import BadModelFile, CacheUnusable, UnknownModel
from subagent_local.models import MODELS, LocalModel, find_model
from subagent_local.options import LocalFields, LocalOptions
from subagents import Failure, Link, Model, NoticeEvent, Probe, Provider, StartError, Task, UsageEvent


class Local(Provider):
    """A small model in a child process of its own, or a server that a person runs.

        Local(model="smollm2-135m", max_tokens=500)
        Local(url="http://127.0.0.1:11434", model="qwen3:8b")
        Local(url="auto")

    Capabilities: `model` (a name of the table or a path to a GGUF file; with `url` a model of the server),
    `output_schema` (by constrained output), `instructions`, `read` and `write`. It has no tools. A task with `read`
    gets an answer about these files; one with `write` is a change: whole files, written together or not at all, nothing
    else touched; where the disk fails half-way it is said of each file. `Result.output` is then what the model has to
    say, and a line for each file; its diff is the `output` of the `ToolEvent` of kind `edit`.

    Attributes:
        options: what it was told.
    """

    capabilities: frozenset[str] = frozenset({"model", "output_schema", "instructions", "read", "write"})
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

    def check(self, task: Task) -> None:
        """Refuse files that the model cannot be given, each with its reason, and what has no room in its window.

        Reads the files that the task names, unless it asks for a worktree: there they are read when it stands.

        Raises:
            TaskError: with all reasons.
        """
        if task.read or task.write:
            check_files(task, self.options)

    async def drive(self, task: Task, link: Link) -> None:
        """Ask the model once, and write the files that it was asked for. See the module for what counts when."""
        # Not at the top: httpx costs 60 ms to import, and whoever only lists providers needs none of it.
        from subagent_local._asking.chat import Answer, chat_body
        from subagent_local._asking.faults import ChatFailed, fault
        from subagent_local._hosts import open_host

        options = self.options
        sources, prompt = await load_files(task, options)
        for news in left_out(prompt):
            link.emit(news)
        answer = Answer()
        emit = Progress(link.emit, len(prompt.expected)) if task.write else link.emit

        async with open_host(options, task.model, link) as host:
            accept = partial(link.ready, model=host.model)
            try:
                window = await host.measure(prompt)
                if (reason := window.refusal(options.max_tokens, host.widen)) is not None:
                    raise StartError(Failure("model", "start", reason))
                body = chat_body(
                    prompt.messages,
                    schema=prompt.schema,
                    max_tokens=window.room(options.max_tokens),
                    temperature=options.temperature,
                    repeat_penalty=host.repeat_penalty,
                )
                await host.ask(body, window, answer, stall=options.stall_timeout, accepted=accept, emit=emit)
                if (reason := host.cut(window, answer.usage and answer.usage.input_tokens)) is not None:
                    raise fault("model", reason)
            except ChatFailed as error:
                failure = await host.explained(error.failure)
                if not answer.begun:
                    raise StartError(replace(failure, stage="start")) from None
                link.finish(result_of(answer, host.model, failure))
                return
            if answer.usage is not None:
                link.emit(UsageEvent(answer.usage))
            result = result_of(answer, host.model, None)
            if task.write:
                result = await carry_out(result, sources, prompt.boundary, link, folder=cast("str", task.cwd))
            link.finish(result)

    async def models(self) -> Sequence[Model]:
        """The table, and `present` says what is in the cache; with `url` the models of the server.

        Raises:
            CacheUnusable: the configured place of the cache means nothing.
            ServerUnusable: there is no server where `url` says.
        """
        if self.options.url is not None:
            from subagent_local._servers.survey import list_models

            return await list_models(self.options)
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
        if self.options.url is not None:
            from subagent_local._servers.survey import probe_server

            return await probe_server(self.options)
        from subagent_local._engine.child import INSTALL, OR_A_SERVER, engine_version

        installed = engine_version()
        if installed is None:
            fix = f"{INSTALL}, or {OR_A_SERVER}"
            return Probe(False, detail="the embedded engine (xllamacpp) is not installed", fix=fix)
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


def _ignore(news: NoticeEvent) -> None:
    pass
