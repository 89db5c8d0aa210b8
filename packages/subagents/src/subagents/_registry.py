"""Providers by name: the entry-point group `subagents.providers`, found lazily.

Listing imports nothing of a provider; a broken one says why when it is asked for, and stands in nobody else's way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from subagent_process import redact
from subagents import _plugin
from subagents._options import option_faults
from subagents._provider import Provider, check_name
from subagents._verdict import told
from subagents.errors import ConfigError, DuplicateProvider, SubagentError, TaskError, Unavailable, UnknownProvider

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "subagents.providers"
KNOWN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "claude-code": "pip install 'subagent-claude-code[sdk]'",
        "codex": "pip install 'subagent-codex[cli]'",
        "local": "pip install 'subagent-local[embedded]'",
    }
)
"""What to do to get a provider that is not installed."""


def installed() -> dict[str, tuple[EntryPoint, ...]]:
    """What the installed distributions offer: type name -> its entry points, one unless two claim the name.

    Nothing is imported.
    """
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in sorted(_points(), key=lambda p: (p.name, p.value)):
        others = found.get(point.name, ())
        if all(point.value != other.value for other in others):  # one distribution seen through two paths is one
            found[point.name] = (*others, point)
    return found


def _points() -> list[EntryPoint]:
    from importlib.metadata import entry_points  # 10 ms that most programs spend elsewhere, or never

    try:
        return list(entry_points(group=GROUP))
    except Exception:  # noqa: BLE001  # one distribution with broken metadata, and all are without any
        _spend_failure_of_pydantic()
        found: list[EntryPoint] = []
        with suppress(Exception):  # a finder of somebody's that fails: what was found before it is there
            for points, _ in _distributions():
                found += points
        return found


def unreadable() -> list[str]:
    """The distributions whose entry points cannot be read, each with its reason."""
    return [redact(why) for _, why in _distributions() if why]


def _distributions() -> Iterator[tuple[list[EntryPoint], str]]:
    """Of every distribution its entry points, or why they cannot be read."""
    from importlib.metadata import distributions

    seen: set[str] = set()
    for dist in distributions():
        name: str | None = getattr(dist, "_normalized_name", None)  # as importlib tells them apart: no file is read
        if name is not None and name in seen:  # the first on the path hides the others
            continue
        seen.add(name or "")
        try:
            yield list(dist.entry_points.select(group=GROUP)), ""
        except Exception as exc:  # noqa: BLE001  # as above
            yield [], f"{getattr(dist, '_path', None) or 'a distribution'}: {told(exc)}"


def _spend_failure_of_pydantic() -> None:
    """Pydantic looks for plug-ins of its own when the first model is made: that one time it fails for the same reason.

    Without this, the failure would hit whichever provider is loaded first.
    """
    with suppress(Exception):
        from pydantic import create_model

        create_model("Spent")


def provider_type(name: str) -> type[Provider]:
    """The class behind a type name, imported now.

    Raises:
        UnknownProvider: nothing installed offers it; the message says what to install.
        DuplicateProvider: two distributions do.
        Unavailable: it cannot be loaded, or was made for another version of the seam; the message holds the reason.
    """
    points = installed()
    if name not in points:
        have = f"installed: {', '.join(points) or 'none'}"
        near = get_close_matches(name, [*points, *KNOWN], n=1)
        hint = f"install it with: {KNOWN[name]}" if name in KNOWN else have
        meant = f"; did you mean {near[0]}?" if near and name not in KNOWN else ""
        raise UnknownProvider(redact(f"no provider named {name!r} is installed ({hint}){meant}"))
    if len(points[name]) > 1:
        who = " and ".join(f"{_plugin.origin(p)[0] or '?'} ({p.value})" for p in points[name])
        raise DuplicateProvider(f"the provider name {name!r} is offered by {who}: uninstall one of them")
    return _plugin.load(points[name][0])


def create(kind: str, /, *, name: str | None = None, options: Mapping[str, Any] | None = None) -> Provider:
    """An instance of an installed provider.

    Args:
        kind: the name under which its distribution offers it.
        name: of the instance; None takes `kind`.
        options: the engine's options by name; text is converted to the type that the option has.

    Raises:
        RegistryError: as `provider_type`; also when its constructor fails.
        ConfigError: an option is unknown or wrong; the message names it and what there is.
    """
    found = provider_type(kind)
    given = dict(options or {})
    if found.options_type is not None and (faults := option_faults(found.options_type, given)):
        wrong = "; ".join(map(str, faults))
        raise ConfigError(f"options of {kind}: {wrong} (options: {', '.join(found.options_type.model_fields)})")
    return make(found, kind, name or kind, given)


def make(found: type[Provider], kind: str, name: str, given: Mapping[str, Any]) -> Provider:
    """An instance of the class, its options checked before where it has any.

    Raises:
        ConfigError: the name is none, or it has no options.
        Unavailable: its constructor fails.
    """
    try:
        check_name(name)
    except TaskError as exc:
        raise ConfigError(str(exc)) from None
    if found.options_type is None and given:
        raise ConfigError(f"{kind} has no options, and {', '.join(given)} was given")
    try:
        made = cast("Provider", cast("Any", found)(name=name, **given))
        if (kept := getattr(made, "name", None)) != name:
            raise Unavailable(f"the provider {kind!r} was given the name {name!r} and has {kept!r}")
        return made
    except (SubagentError, KeyboardInterrupt):
        raise
    except BaseException as exc:  # noqa: BLE001  # a third party's constructor may raise anything
        raise Unavailable(f"the provider {kind!r} cannot be made: {redact(told(exc))}") from None
