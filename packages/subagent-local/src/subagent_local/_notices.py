"""What is said about a model that is not here, on its way or refused, and about what a model is not shown."""

from __future__ import annotations

from collections.abc import Iterator

from subagent_local._files.prompt import Prompt
from subagent_local._pulling.pull import PullProgress
from subagent_local.models import DEFAULT_MODEL, MODELS, SMALL_MODEL, LocalModel
from subagents import NoticeEvent


def announced(model: LocalModel) -> NoticeEvent:
    """Before the first byte: what comes, how much, from where, under which licence."""
    size = f"{model.size / 1e6:,.0f} MB"
    sources = ", else ".join(map(str, model.sources))
    text = f"{model.title} is not here yet: {size} from {sources}; licence {model.licence}{_quick_way(model)}"
    return NoticeEvent(text, "pull")


def refused(model: LocalModel) -> str:
    """It is not here, and must not be downloaded."""
    size = f"{model.size / 1e6:,.0f} MB"
    return (
        f"{model.title} ({size}) is not here, and downloading is off. "
        f"Get it with: subagents models pull {model.name}{_quick_way(model)}"
    )


def _quick_way(model: LocalModel) -> str:
    small = MODELS[SMALL_MODEL]
    if model.name != DEFAULT_MODEL:
        return ""
    return f". The quick way to try things out is --model {small.name} ({small.size / 1e6:,.0f} MB)"


def progress_notice(news: PullProgress) -> NoticeEvent:
    """One step of a pull, for a progress bar."""
    data = {"done": news.done, "total": news.total, "unit": "bytes", "source": news.source}
    return NoticeEvent(news.note or f"downloading from {news.source}", "progress", data=data)


def left_out(prompt: Prompt) -> Iterator[NoticeEvent]:
    """For each file, how much of it the model does not see as it is."""
    for path, count in prompt.left_out.items():
        some = f"{count:,} character{'s' * (count != 1)} that {'do' if count != 1 else 'does'} not show"
        yield NoticeEvent(f"{path}: {some} {'were' if count != 1 else 'was'} left out", "left-out", level="warning")
    for path, count in prompt.broken.items():
        some = f"{count:,} mark{'s' * (count != 1)} of chat templates {'were' if count != 1 else 'was'}"
        yield NoticeEvent(f"{path}: {some} broken by a space", "left-out", level="warning")
