"""What a `Local` can be told: one frozen model, from which names, defaults, errors and help come."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from pydantic import BaseModel, ConfigDict, Field, model_validator

from subagent_local.models import DEFAULT_MODEL, MODELS


class LocalOptions(BaseModel):
    """The options of `Local`. Every time is in seconds, as a float."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | Path = Field(
        default=DEFAULT_MODEL, description=f"{', '.join(MODELS)}, or a path to a .gguf file of your own"
    )
    context: int = Field(default=8192, ge=256, description="tokens of the window: prompt and answer together")
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
        if self.max_tokens >= self.context:
            raise ValueError(f"max_tokens ({self.max_tokens}) must be smaller than context ({self.context})")
        return self


class LocalFields(TypedDict, total=False):
    """The options as keywords of `Local`, for type checkers; `LocalOptions` says what they mean."""

    model: str | Path
    context: int
    threads: int | None
    max_tokens: int
    temperature: float
    download: bool
    protected: tuple[str, ...]
    secret: tuple[str, ...]
    ready_timeout: float
    stall_timeout: float
