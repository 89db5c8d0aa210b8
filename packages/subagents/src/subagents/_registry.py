"""Providers by name: the entry-point group `subagents.providers`, found lazily.

Listing imports nothing of a provider; a broken one says why when it is asked for, and stands in nobody else's way.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from subagent_process import redact
from subagents._provider import Provider, check_name
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
    from importlib.metadata import entry_points  # 10 ms that most programs spend elsewhere, or never

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda p: (p.name, p.value)):
        others = found.get(point.name, ())
        if all(point.value != other.value for other in others):  # one distribution seen through two paths is one
            found[point.name] = (*others, point)
    return found


def provider_type(name: str) -> type[Provider]:
    """The class behind a type name, imported now.

    Raises:
        UnknownProvider: nothing installed offers it; the message says what to install.
        DuplicateProvider: two distributions do.
        Unavailable: it cannot be loaded; the message holds the reason.
    """
    points = installed()
    if name not in points:
        have = f"installed: {', '.join(points) or 'none'}"
        hint = f"install it with: {KNOWN[name]}" if name in KNOWN else have
        raise UnknownProvider(f"no provider named {name!r} is installed ({hint})")
    if len(points[name]) > 1:
        who = " and ".join(f"{p.dist.name if p.dist else '?'} ({p.value})" for p in points[name])
        raise DuplicateProvider(f"the provider name {name!r} is offered by {who}: uninstall one of them")
    (point,) = points[name]
    try:
        found: object = point.load()
    except (Exception, SystemExit) as exc:  # a third party's module may do anything while it is imported
        raise Unavailable(
            f"the provider {name!r} ({point.value}) cannot be loaded: {type(exc).__name__}: {redact(str(exc))}"
        ) from exc
    if not (isinstance(found, type) and issubclass(found, Provider)):
        raise Unavailable(f"the provider {name!r} ({point.value}) is not a subclass of subagents.Provider")
    return found


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
    try:
        check_name(name or kind)
    except TaskError as exc:
        raise ConfigError(str(exc)) from None
    given = dict(options or {})
    if found.options_type is None:
        if given:
            raise ConfigError(f"{kind} has no options, and {', '.join(given)} was given")
    else:
        _check_options(found, kind, given)
    try:
        return cast("Any", found)(name=name or kind, **given)
    except SubagentError:
        raise
    except Exception as exc:  # noqa: BLE001  # a third party's constructor may raise anything
        raise Unavailable(f"the provider {kind!r} cannot be made: {type(exc).__name__}: {redact(str(exc))}") from None


def _check_options(found: type[Provider], kind: str, given: Mapping[str, Any]) -> None:
    from pydantic import ValidationError

    assert found.options_type is not None
    try:
        found.options_type.model_validate(given)
    except ValidationError as exc:
        wrong = "; ".join(
            # The input is left out: an option may be a key.
            f"{'.'.join(map(str, e['loc']))}: {e['msg'][:1].lower() + e['msg'][1:]}"
            for e in exc.errors(include_input=False, include_url=False, include_context=False)
        )
        raise ConfigError(
            f"options of {kind}: {wrong} (options: {', '.join(found.options_type.model_fields)})"
        ) from None
