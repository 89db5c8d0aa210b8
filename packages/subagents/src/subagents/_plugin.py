"""One entry point of a distribution: loaded, and looked at before anybody relies on it.

A distribution that was made for another version of the seam is told here, by what its class is and not by a number: a
number says what somebody believed when they wrote it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from subagent_process import redact
from subagents._provider import Provider, check_name
from subagents._verdict import told
from subagents.errors import TaskError, Unavailable

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

_CALLS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = MappingProxyType(
    {
        "drive": (("task", "link"), ()),
        "check": (("task",), ()),
        "_probe": ((), ()),
        "models": ((), ()),
        "pull": (("model",), ("progress",)),
    }
)
"""How the seam calls what a backend may write: the arguments by position, and those by name."""

_FINAL: Final = ("start", "probe")
_OURS: Final = ("subagents", "subagent_process", "subagent_workspace")
_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9._-]+)(\s*\[[^\]]*\])?\s*([^;]*)(?:;(.*))?")
_EXTRA: Final = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


def origin(point: EntryPoint) -> tuple[str | None, str | None]:
    """Name and version of the distribution that offers it; None where its metadata is broken."""
    with suppress(Exception):  # a folder that somebody half removed
        if point.dist is not None:
            return point.dist.name, point.dist.version
    return None, None


def load(point: EntryPoint) -> type[Provider]:
    """Import it, and see that it is a provider of this seam.

    Raises:
        Unavailable: it is not; the message holds the reason, and what to do.
    """
    what = f"the provider {point.name!r} ({point.value})"
    try:
        check_name(point.name)
    except TaskError as exc:
        raise Unavailable(f"{what}, an entry point of {origin(point)[0] or 'a distribution'}: {exc}") from None
    if not point.pattern.match(point.value):
        raise Unavailable(f"{what}, an entry point of {origin(point)[0] or 'a distribution'}, is not MODULE:CLASS")
    try:
        found: object = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # a third party's module may do anything while it is imported
        why = f"{what} cannot be loaded: {redact(told(exc))}"
        raise Unavailable(_sentence(why, _advice(exc, point))) from exc
    if not (isinstance(found, type) and issubclass(found, Provider)):
        raise Unavailable(f"{what} is not a subclass of subagents.Provider")
    if misfit := _misfit(found):
        raise Unavailable(_sentence(f"{what} was made for another version of subagents: {misfit}", _upgrade(point)))
    return found


def _sentence(why: str, advice: str) -> str:
    return f"{why}; {advice}" if advice else why


def _misfit(found: type[Provider]) -> str:
    """Why the seam cannot work with the class; empty when it can, as far as can be told without calling it."""
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        return f"it does not write {', '.join(missing)}"
    for name in _FINAL:
        if getattr(found, name) is not getattr(Provider, name):
            return f"it writes its own {name}, which belongs to the seam"
    for name, (positional, named) in _CALLS.items():
        if not _callable_with(inspect.getattr_static(found, name), positional, named):
            return f"its {name} cannot be called with ({', '.join((*positional, *(f'{word}=' for word in named)))})"
    if inspect.isasyncgenfunction(found.drive):
        return "its drive yields, and it is awaited"
    if not _callable_with(found.__init__, (), ("name",)):
        return "its constructor takes no name"
    declared: Any = found  # by somebody else, whatever the types say
    words = inspect.getattr_static(found, "capabilities")
    computed = hasattr(words, "__get__")  # a property: each instance has its own
    if not computed and not (
        isinstance(words, set | frozenset) and all(isinstance(word, str) for word in cast("set[object]", words))
    ):
        return "its capabilities are no set of words"
    if declared.options_type is not None:
        from pydantic import BaseModel, RootModel

        kind = declared.options_type
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)) or issubclass(kind, RootModel):
            return "its options_type is no pydantic model with fields"
    return ""


def _callable_with(raw: object, positional: tuple[str, ...], named: tuple[str, ...]) -> bool:
    """Whether a function takes these; of what is no plain function nothing can be said."""
    function: Any = getattr(raw, "__func__", raw)
    if not inspect.isfunction(function):
        return True
    this = () if isinstance(raw, staticmethod) else (None,)
    keywords = dict.fromkeys(named)
    signature = inspect.signature(function)
    with suppress(TypeError):
        # A constructor may want more, which its options give: that is told when it is made.
        bind = signature.bind_partial if function.__name__ == "__init__" else signature.bind
        bind(*this, *positional, **keywords)
        return True
    return False


def _advice(exc: BaseException, point: EntryPoint) -> str:
    """What to do about a module that could not be imported; empty where nobody knows."""
    module = (exc.name or "").partition(".")[0] if isinstance(exc, ImportError) else ""
    if isinstance(exc, AttributeError):
        module = str(getattr(exc.obj, "__name__", "")).partition(".")[0]
    if module in _OURS:
        return f"it was made for another version of subagents: {_upgrade(point)}"
    if isinstance(exc, ModuleNotFoundError) and module and point.dist is not None:
        with suppress(Exception):  # metadata of somebody else
            return _missing(module, point, point.dist)
    return ""


def _missing(module: str, point: EntryPoint, dist: Distribution) -> str:
    """Which extra brings the module; else all extras that there are, else the distribution anew."""
    extras = list(point.extras)
    if not extras:
        optional = {
            (_normal(found[1]), extra[1])
            for text in dist.requires or ()
            if (found := _REQUIREMENT.match(text)) and (extra := _EXTRA.search(found[4] or ""))
        }
        extras = sorted({extra for name, extra in optional if name == _normal(module)} or {e for _, e in optional})
    what = f"{dist.name}[{','.join(extras)}]" if extras else dist.name
    return f"install what it needs: pip install '{what}'" if extras else f"install {module}, or {what} anew"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _upgrade(point: EntryPoint) -> str:
    """Upgrade it; with the versions that it asks for, where it says so."""
    from importlib.metadata import version

    name, _ = origin(point)
    if name is None or point.dist is None:
        return "install a version of it that fits"
    asks = ""
    with suppress(Exception):  # metadata of somebody else
        found = [_REQUIREMENT.match(text) for text in point.dist.requires or ()]
        wanted = [one[3].strip(" ()") for one in found if one and _normal(one[1]) == "subagents"]
        if wanted and wanted[0]:
            asks = f"{name} asks for subagents{wanted[0]}, and {version('subagents')} is here; "
    return f"{asks}upgrade it: pip install --upgrade {name}"
