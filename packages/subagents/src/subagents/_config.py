"""Named providers from a TOML file.

[providers.coder]
type = "local"              # optional: the name of the table when left out
model = "smollm2-135m"      # the rest are the engine's options
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from subagents._provider import Provider
from subagents._registry import create
from subagents._task import StrPath
from subagents.errors import ConfigError


class Config:
    """A configuration file that was read; providers are made when they are asked for."""

    def __init__(self, path: StrPath) -> None:
        """Read the file.

        Raises:
            ConfigError: it cannot be read, is no TOML, or holds something else than `[providers.NAME]` tables.
        """
        import tomllib

        self.path = Path(path)
        try:
            data = tomllib.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
            raise ConfigError(f"{self.path}: {exc}") from None
        tables: object = data.pop("providers", {})
        if data or not isinstance(tables, dict):
            raise ConfigError(f"{self.path}: {next(iter(data), 'providers')}: only [providers.NAME] tables belong here")
        self.providers = cast("dict[str, Any]", tables)
        for name, table in self.providers.items():
            if not isinstance(table, dict):
                raise ConfigError(f"{self.path}: providers.{name} is a table of options, not {type(table).__name__}")

    def provider(self, name: str, **options: Any) -> Provider:
        """The provider of that name, `options` on top of the file's.

        A name that the file does not have is that of an installed provider.

        Raises:
            RegistryError, ConfigError: as `create`; the message names the file and the table.
        """
        if name not in self.providers:
            return create(name, options=options)
        table = {**self.providers[name], **options}
        kind = table.pop("type", name)
        if not isinstance(kind, str):
            raise ConfigError(f"{self.path}: providers.{name}.type is the name of a provider, not {kind!r}")
        try:
            return create(kind, name=name, options=table)
        except ConfigError as exc:
            raise ConfigError(f"{self.path}: [providers.{name}]: {exc}") from None
