"""What a `Codex` can be told: one frozen model, from which names, defaults, errors and help come."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from subagents.backend.fields import ApiKey, BaseUrl, Folder, Home, HomeKind, KeyVariable, Limit, Seconds

Sandbox: TypeAlias = Literal["read-only", "workspace-write", "danger-full-access"]
ApprovalPolicy: TypeAlias = Literal["never", "on-request", "untrusted"]

_PLAIN_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}")
_OF_OUR_HOMES = frozenset({"tool_home", "web_search"})
_OF_OUR_SERVER = frozenset({"request_max_retries", "stream_max_retries", "stream_idle_timeout"})


class CodexOptions(BaseModel):
    """The options of `Codex`. Every time is in seconds, as a float."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    model: str | None = Field(
        default=None,
        description="the model; by default gpt-5.5, and in an inherited home the one that is configured there",
    )
    effort: str | None = Field(
        default=None, description="how hard to think, in the model's word (low, medium, high, …)"
    )
    sandbox: Sandbox = Field(default="read-only", description="what commands of the task may write, as Codex names it")
    approval_policy: ApprovalPolicy = Field(
        default="never", description="when Codex asks before it acts; the answer is the run's permission"
    )
    home: Home = Field(
        default="isolated",
        description="isolated: a private one for each run; inherit: your own sign-in and settings; a path: that"
        " CODEX_HOME, made if missing, used by one run at a time, never removed",
    )
    tool_home: Literal["private", "real"] | None = Field(
        default=None,
        description="HOME of the commands of a task, by default private; real shows them everything in yours, tokens in"
        " its files included. With home=inherit commands get what your own configuration says",
    )
    api_key: ApiKey | None = Field(
        default=None, description="an API key, of OpenAI or for base_url; never in a variable or a file of the child"
    )
    api_key_env: KeyVariable | None = Field(
        default=None, description="the variable of this process that holds the API key"
    )
    base_url: BaseUrl | None = Field(default=None, description="a Responses API of your own (…/v1) instead of OpenAI's")
    executable: Folder | None = Field(
        default=None, description="the codex to run; else the bundled one, else that on PATH"
    )
    writable_roots: tuple[Folder, ...] = Field(
        default=(), description="folders that workspace-write may write beside cwd"
    )
    network_access: bool = Field(
        default=False, description="whether commands may use the network under workspace-write"
    )
    git_writable: bool | None = Field(
        default=None,
        description="whether .git is open under workspace-write, so that a task can commit; by default where its"
        " configuration and hooks stay closed, which is everywhere but in a plain repository with home=inherit;"
        " branches, index and history are then the task's to change",
    )
    project_instructions: bool = Field(
        default=False,
        description="whether the AGENTS.md of the project is read; with home=inherit, what your configuration says"
        " about the folder counts instead, where it says something",
    )
    web_search: bool = Field(default=False, description="whether the model may search the web through its provider")
    max_refusals: int = Field(
        default=8, ge=1, description="after so many refused requests a run fails with kind policy"
    )
    request_max_retries: int = Field(
        default=1, ge=0, le=100, description="how often the engine repeats a failed request"
    )
    stream_max_retries: int = Field(default=2, ge=0, le=100, description="how often the engine repeats a broken stream")
    stream_idle_timeout: Limit = Field(
        default=120.0, description="without a word in an answer of the model server that has begun, for the engine"
    )
    silence_timeout: Limit | None = Field(
        default=1800.0,
        description="without a word from the engine while only the model can be the cause; none waits for ever. A model"
        " that thinks, or writes a long call, can be silent for minutes",
    )
    ready_timeout: Limit = Field(
        default=30.0, description="for each answer of the app-server before the task is accepted"
    )
    interrupt_grace: Seconds = Field(
        default=2.0, description="for the engine to interrupt the turn and end its commands"
    )
    eof_grace: Seconds = Field(default=1.0, description="from the end of its input to SIGTERM")
    term_grace: Seconds = Field(default=1.0, description="from SIGTERM to SIGKILL")

    @field_validator("model", "effort")
    @classmethod
    def _plain(cls, value: str | None) -> str | None:
        if value is not None:
            check_model(value)
        return value

    @model_validator(mode="after")
    def _together(self) -> CodexOptions:
        if self.api_key is not None and self.api_key_env is not None:
            raise ValueError("give api_key or api_key_env, not both")
        if self.sandbox != "workspace-write":
            for name in ("writable_roots", "network_access", "git_writable"):
                if getattr(self, name):
                    raise ValueError(f"{name} needs sandbox='workspace-write'")
        if self.home == "inherit":
            if self.base_url is None and (self.api_key or self.api_key_env):
                raise ValueError("home='inherit' is your own sign-in: give a key with base_url, or with another home")
            ignored = _OF_OUR_HOMES if self.base_url else _OF_OUR_HOMES | _OF_OUR_SERVER
            if refused := sorted(ignored & self.model_fields_set):
                raise ValueError(f"with home='inherit' your own configuration decides about {', '.join(refused)}")
        return self


def check_model(value: str) -> None:
    """Refuse what is no plain name of a model or an effort.

    Raises:
        ValueError: it is not.
    """
    if not _PLAIN_MODEL.fullmatch(value):
        raise ValueError(
            f"{value[:80]!r} is no plain name: letters, digits and . _ : / @ + - are allowed, at most 128 characters,"
            " a letter or digit first"
        )


class CodexFields(TypedDict, total=False):
    """The options as keywords of `Codex`, for type checkers; `CodexOptions` says what they mean."""

    model: str | None
    effort: str | None
    sandbox: Sandbox
    approval_policy: ApprovalPolicy
    home: HomeKind | str | Path
    tool_home: Literal["private", "real"] | None
    api_key: str | SecretStr | None
    api_key_env: str | None
    base_url: str | None
    executable: str | Path | None
    writable_roots: tuple[str | Path, ...]
    network_access: bool
    git_writable: bool | None
    project_instructions: bool
    web_search: bool
    max_refusals: int
    request_max_retries: int
    stream_max_retries: int
    stream_idle_timeout: float
    silence_timeout: float | None
    ready_timeout: float
    interrupt_grace: float
    eof_grace: float
    term_grace: float
