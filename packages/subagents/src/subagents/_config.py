"""Named providers from a TOML file.

[providers.coder]
type = "local"              # optional: the name of the table when left out
model = "smollm2-135m"      # the rest are the engine's options

What is wrong with it is told as `FILE:LINE: KEY: …`, and without a value of the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self, cast

from subagent_process import child_env, redact
from subagents._options import Fault, option_faults
from subagents._provider import Provider
from subagents._registry import create, make, provider_type
from subagents._task import StrPath
from subagents._toml_lines import KeyPath, key_lines, line_of
from subagents.errors import ConfigError, SubagentError, UnknownProvider

_TOLD: Final = 20  # faults
_LIMIT: Final = 1024 * 1024  # bytes; also where somebody names a device that never ends
_PLACE: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)\Z")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


class Config:
    """A configuration file that was read; providers are made when they are asked for.

    Attributes:
        path: of the file.
        providers: the tables by the names of the instances, as the file has them.
    """

    def __init__(self, path: StrPath) -> None:
        """Read the file.

        Raises:
            ConfigError: it cannot be read, is no TOML, or holds something else than `[providers.NAME]` tables.
        """
        self.path = Path(path)
        self._text = self._read()
        data = self._parsed()
        tables: object = data.pop("providers", {})
        if data or not isinstance(tables, dict):
            raise self._error((next(iter(data), "providers"),), "only [providers.NAME] tables belong here")
        self.providers = cast("dict[str, Any]", tables)
        for name, table in self.providers.items():
            if not isinstance(table, dict):
                says = f"a provider is a table of options, not {type(table).__name__}"
                raise self._error(("providers", name), says)

    @classmethod
    def find(cls) -> Self | None:
        """The person's own file; None where there is none.

        `$SUBAGENTS_CONFIG`, else `$XDG_CONFIG_HOME/subagents/config.toml`, else `~/.config/subagents/config.toml`. A
        file of a project is never looked for: it names programs, and whoever wrote the project is not whoever runs it.

        Raises:
            ConfigError: as `Config`; also when `SUBAGENTS_CONFIG` names a file that is not there.
        """
        chosen, usual = _places()
        if chosen is not None:
            return cls(chosen)
        return cls(usual) if usual is not None and os.path.exists(usual) else None  # not Path.exists, which may raise

    def kind(self, name: str) -> str:
        """The type name of the provider of that name.

        Raises:
            ConfigError: it is no text.
        """
        kind = self.providers[name].get("type", name)
        if not isinstance(kind, str):
            raise self._error(("providers", name, "type"), f"is the name of a provider, not {type(kind).__name__}")
        return kind

    def provider(self, name: str, /, **options: Any) -> Provider:
        """The provider of that name, `options` on top of the file's.

        A name that the file does not have is that of an installed provider.

        Raises:
            RegistryError, ConfigError: as `create`; the message names the file, the line and the key.
        """
        if name not in self.providers:
            return create(name, options=options)
        kind, own = self.kind(name), self.providers[name]
        table = {key: value for key, value in own.items() if key != "type"} | options
        try:
            found = provider_type(kind)
        except UnknownProvider as exc:
            more = "" if "type" in own else f"; say of which type {name} is: type = …"
            raise self._of(UnknownProvider(f"{exc}{more}"), ("providers", name, "type")) from None
        except SubagentError as exc:
            raise self._of(exc, ("providers", name, "type")) from None
        if found.options_type is not None and (faults := option_faults(found.options_type, table)):
            there = f"(options of {kind}: {', '.join(found.options_type.model_fields)})"
            faults.sort(key=lambda fault: line_of(self._lines, ("providers", name, *fault.path))[0])
            told = [self._fault(name, fault, options) for fault in faults[:_TOLD]]
            if len(faults) > _TOLD:
                told.append("and more")
            raise ConfigError("\n".join((*told, there)))
        try:
            return make(found, kind, name, table)
        except SubagentError as exc:
            raise self._of(exc, ("providers", name)) from None

    def _fault(self, name: str, fault: Fault, options: Mapping[str, Any]) -> str:
        """One line; what was given beside the file is not in it."""
        if fault.path and fault.path[0] in options:
            return str(fault)
        return str(self._error(("providers", name, *fault.path), fault.says, shown=3))

    def _of(self, exc: SubagentError, path: KeyPath) -> SubagentError:
        """The same error, with the place."""
        return type(exc)(str(self._error(path, str(exc))))

    def _error(self, path: KeyPath, says: str, *, shown: int = 0) -> ConfigError:
        """With the nearest key that the file has; `shown` names of the path are told whether it has them or not."""
        line, named = line_of(self._lines, path)
        return ConfigError(redact(f"{self.path}:{line}: {_dotted(path[: max(shown, len(named))])}: {says}"))

    @cached_property
    def _lines(self) -> Mapping[KeyPath, int]:
        return key_lines(self._text)

    def _read(self) -> str:
        try:
            # It would wait for whoever writes into it; those of a shell's <(…) have somebody.
            if not str(self.path).startswith(("/dev/", "/proc/")) and self.path.is_fifo():
                raise ConfigError(f"{self.path}: a pipe, which may never end: give a file")
            with self.path.open("rb") as file:
                data = file.read(_LIMIT + 1)
        except (OSError, ValueError) as exc:  # ValueError: a null character
            raise ConfigError(f"{self.path}: {getattr(exc, 'strerror', None) or exc}") from None
        if len(data) > _LIMIT:
            raise ConfigError(f"{self.path}: longer than {_LIMIT:,} bytes: that is no configuration")
        try:
            return data.decode("utf-8-sig")  # some editors put a BOM in front, which TOML does not know
        except UnicodeDecodeError as exc:
            line = data[: exc.start].count(b"\n") + 1
            raise ConfigError(f"{self.path}:{line}: not UTF-8 text: {exc.reason}") from None

    def _parsed(self) -> dict[str, Any]:
        import tomllib

        try:
            return tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as exc:
            says = str(exc)
            place = _PLACE.search(says)
            line = place[1] if place and place[1] else self._text.count("\n") + 1
            raise ConfigError(redact(f"{self.path}:{line}: no TOML: {_PLACE.sub('', says)}")) from None
        except (ValueError, RecursionError) as exc:  # a number of 5,000 digits; 1,000 arrays in each other
            raise ConfigError(f"{self.path}: no TOML that can be read: {exc}") from None


def _places() -> tuple[Path | None, Path | None]:
    """The file that `SUBAGENTS_CONFIG` names, and the usual one: None where there is no home."""
    env = child_env(passing=("SUBAGENTS_CONFIG", "XDG_CONFIG_HOME", "HOME"))
    try:
        if chosen := env.get("SUBAGENTS_CONFIG"):
            return Path(chosen).expanduser(), None
        folder = env.get("XDG_CONFIG_HOME", "")
        root = Path(folder) if os.path.isabs(folder) else Path.home() / ".config"  # XDG: a relative one is ignored
    except RuntimeError as exc:
        if env.get("SUBAGENTS_CONFIG"):
            raise ConfigError(f"SUBAGENTS_CONFIG: {exc}") from None
        return None, None
    return None, root / "subagents" / "config.toml"


def usual_place() -> Path | None:
    """Where a person's own file would be."""
    chosen, usual = _places()
    return chosen or usual


def _dotted(path: KeyPath) -> str:
    r"""As TOML writes it: `providers."a b".roots[0]`."""
    import json

    text = ""
    for one in path:
        if isinstance(one, int):
            text += f"[{one}]"
        else:
            text += ("." if text else "") + (one if _BARE.fullmatch(one) else json.dumps(one, ensure_ascii=False))
    return text
