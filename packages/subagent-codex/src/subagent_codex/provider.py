"""`Codex`: OpenAI Codex, through its app-server, as a provider of subagents.

A run is: a home and its settings, one `codex app-server` that we own, one thread, one turn. The engine has accepted
the work with `turn/started` or the answer to `turn/start`, whichever comes first; everything before that fails as a
`StartError`. `turn/completed` is the verdict; without it the exit of the process is an `error`. Ending the process
comes after the verdict and cannot change it.
"""

from __future__ import annotations

from typing import ClassVar, Final, Unpack

from pydantic import BaseModel

from subagent_codex.options import CodexFields, CodexOptions, check_model
from subagents import Failure, Link, Probe, Provider, StartError, Task, TaskError
from subagents.backend.fields import read_key

_PROMPT_LIMIT: Final = 1_048_576  # characters of the input of a turn (codex 0.163.0: input_too_large)


class Codex(Provider):
    """OpenAI Codex in a process of its own.

        Codex(home="inherit", sandbox="workspace-write")

    Capabilities: `model`, `effort`, `instructions`, `output_schema`, `send` (steers the running turn), and `resume`
    where the home lasts.

    Attributes:
        options: what it was told.
    """

    options_type: ClassVar[type[BaseModel] | None] = CodexOptions

    def __init__(self, name: str = "codex", **options: Unpack[CodexFields]) -> None:
        """Configure; nothing starts, and no file is touched.

        Args:
            name: of this instance, kebab-case.
            options: fields of `CodexOptions`.

        Raises:
            pydantic.ValidationError: an option is unknown or wrong.
        """
        self.name = name
        self.options = CodexOptions.model_validate(options)
        lasting = {"resume"} if self.options.home != "isolated" else set[str]()
        self.capabilities = frozenset({"model", "effort", "instructions", "output_schema", "send"} | lasting)

    def check(self, task: Task) -> None:
        """Refuse what Codex does not take: see `Provider.check`."""
        if len(task.prompt) > _PROMPT_LIMIT:
            raise TaskError(f"the prompt has {len(task.prompt):,} characters, and Codex takes {_PROMPT_LIMIT:,}")
        for field in ("model", "effort"):
            value: str | None = getattr(task, field)
            try:
                check_model(value or "none")
            except ValueError as error:
                raise TaskError(f"{field} {error}") from None

    async def drive(self, task: Task, link: Link) -> None:
        """Do one task. See the module for what counts when."""
        from subagent_codex._binary import locate
        from subagent_codex._drive import Drive
        from subagent_codex._home import open_home
        from subagent_codex._session import sign_in

        options, key = self.options, read_key(self.options.api_key, self.options.api_key_env)
        binary = await locate(options)
        if options.home == "isolated" and key is None and options.base_url is None:
            raise StartError(Failure("auth", "start", sign_in(binary.path)))
        async with open_home(options, link) as home:
            await Drive(task, link, options, key, binary, home).run()

    async def _probe(self) -> Probe:
        from subagent_codex._binary import probe

        return await probe(self.options)
