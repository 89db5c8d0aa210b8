"""What a `Local` can be told: one frozen model, from which names, defaults, errors and help come."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias, TypedDict

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from subagent_local.models import DEFAULT_MODEL, MODELS
from subagents.backend.fields import ApiKey, KeyVariable, plain_url

DialectName: TypeAlias = Literal["llama.cpp", "ollama", "lm-studio", "vllm", "openai"]

_PAGE: Final = re.compile(r"(/v1(/(models|completions|chat/completions|responses))?|/api/(chat|tags|generate))/?\Z")
_OURS: Final = ("threads", "ready_timeout")  # of the engine that we own
_THEIRS: Final = ("dialect", "api_key", "api_key_env")  # of a server


def _address(value: str) -> str:
    """Of a server, without the page of it that people paste along."""
    return value if value == "auto" else _PAGE.sub("", plain_url(value, option="url", word="auto, or ")).rstrip("/")


ServerUrl: TypeAlias = Annotated[str, AfterValidator(_address)]


class LocalOptions(BaseModel):
    """The options of `Local`. Every time is in seconds, as a float."""

    # Errors without the input: it may be the key.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    model: str | Path = Field(
        default=DEFAULT_MODEL,
        description=f"{', '.join(MODELS)}, or a path to a .gguf file of your own; with url a model of that server, by"
        " default the one that it has loaded",
    )
    url: ServerUrl | None = Field(
        default=None,
        description="a model server that runs already, instead of the engine of our own: its address, or auto, which"
        " looks for one on the usual ports of this machine",
    )
    dialect: DialectName | None = Field(
        default=None, description="what kind of server it is; found out when it is not said"
    )
    api_key: ApiKey | None = Field(default=None, description="the key that the server wants")
    api_key_env: KeyVariable | None = Field(
        default=None, description="the variable of this process that holds that key"
    )
    context: int = Field(
        default=8192,
        ge=256,
        description="tokens of the window: prompt and answer together. With url it is what the server says, and this is"
        " the most of it that is used where it is given",
    )
    threads: int | None = Field(
        default=None, ge=1, description="CPU threads of the engine; by default as many as it may use"
    )
    max_tokens: int = Field(
        default=2048, ge=1, description="the most tokens of an answer; this much of the window is kept free"
    )
    temperature: float = Field(
        default=0.0, ge=0, le=2, description="0 gives the likeliest answer, and the same one each time"
    )
    download: bool = Field(
        default=True, description="whether a model that is not here may be downloaded when it is first used"
    )
    protected: tuple[str, ...] = Field(
        default=(),
        description="patterns of files that may only be read, after the usual ones; !PATTERN is an exception",
    )
    secret: tuple[str, ...] = Field(
        default=(),
        description="patterns of files that are neither read nor written, after the usual ones; the same",
    )
    ready_timeout: float = Field(
        default=120.0, gt=0, allow_inf_nan=False, description="for the engine to load the model"
    )
    stall_timeout: float = Field(default=120.0, gt=0, allow_inf_nan=False, description="without a word from the engine")

    @model_validator(mode="after")
    def _answer_fits(self) -> LocalOptions:
        known = self.url is None or "context" in self.model_fields_set
        if known and self.max_tokens >= self.context:
            raise ValueError(f"max_tokens ({self.max_tokens}) must be smaller than context ({self.context})")
        return self

    @model_validator(mode="after")
    def _one_or_the_other(self) -> LocalOptions:
        foreign = _THEIRS if self.url is None else _OURS
        if wrong := [name for name in foreign if name in self.model_fields_set and getattr(self, name) is not None]:
            owner = "a server: give its url too" if self.url is None else "the engine of our own: leave it out, or url"
            raise ValueError(f"{wrong[0]} is of {owner}")
        if self.api_key is not None and self.api_key_env is not None:
            raise ValueError("api_key and api_key_env are two ways to say the same: give one")
        if self.url == "auto" and (self.api_key or self.api_key_env or self.dialect):
            raise ValueError(
                "url=auto takes neither a dialect nor a key, which would go to whoever listens: give an address as url"
            )
        return self

    @property
    def named_model(self) -> str | None:
        """The model that a server is asked for; None where none was named."""
        return str(self.model) if "model" in self.model_fields_set else None


class LocalFields(TypedDict, total=False):
    """The options as keywords of `Local`, for type checkers; `LocalOptions` says what they mean."""

    model: str | Path
    url: str | None
    dialect: DialectName | None
    api_key: str | SecretStr | None
    api_key_env: str | None
    context: int
    threads: int | None
    max_tokens: int
    temperature: float
    download: bool
    protected: tuple[str, ...]
    secret: tuple[str, ...]
    ready_timeout: float
    stall_timeout: float
