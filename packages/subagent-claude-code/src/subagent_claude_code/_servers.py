"""MCP servers of a run: as configuration, and as the private files from which the engine starts them.

The engine gives a server its own environment, the API key and its messaging token with it, puts its variables into
`${NAME}` in what it is told, and takes all of it from a file or from an argument, which `ps` shows (observed, 2.1.332).
So a stdio server is started by a script in the home of the run, readable by nobody else: it sources what commands get
(`CLAUDE_ENV_FILE`), then exports what the server is given, and becomes the server. The engine is told of the script
alone.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypedDict
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, SecretStr, StringConstraints, Tag

_OWN: Final = frozenset({"claude-in-chrome", "computer-use", "ide", "workspace"})


def _free(name: str) -> str:
    if name in _OWN:
        raise ValueError(f"{name!r} is the name of a server of Claude Code's own, which hides yours: take another one")
    return name


# The engine joins the names of a server and of its tool with `__`, and takes none but these characters.
ServerName: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9-]*(_[A-Za-z0-9-]+)*$", max_length=64),
    AfterValidator(_free),
]
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_Variable: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def _whole(what: str, value: str) -> None:
    if "\0" in value:
        raise ValueError(f"{what} holds no null character")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise ValueError(f"{what} holds half of a surrogate pair, which cannot be written") from None


def _word(value: str) -> str:
    _whole("a word of a command", value)
    return value


def _program(value: str) -> str:
    if not value.strip():
        raise ValueError("command is the name or the path of a program")
    return _word(value)


def _secret(value: SecretStr) -> SecretStr:
    _whole("a variable", value.get_secret_value())
    return value


def _literal(text: str) -> None:
    if "${" in text:
        raise ValueError("Claude Code would put a variable into ${…}: give the value itself")


def _url(value: str) -> str:
    _literal(value)
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or not value.isprintable() or " " in value:
        raise ValueError("url is http://… or https://… with a host")
    if parts.username or parts.password:
        raise ValueError("url holds no user and no password: give them as a header")
    return value


def _header(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    _literal(text)
    if not text.isprintable() or not text.isascii():
        raise ValueError("a header is printable ASCII")
    return value


def _header_name(value: str) -> str:
    if not _HEADER.fullmatch(value):
        raise ValueError(f"{value[:80]!r} is no name of a header")
    return value


class StdioServer(BaseModel):
    """A program that the engine starts, and that ends with the run."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    type: Literal["stdio"] = "stdio"
    command: Annotated[str, AfterValidator(_program)] = Field(description="the program, a path or a name on PATH")
    args: tuple[Annotated[str, AfterValidator(_word)], ...] = Field(
        default=(), description="its arguments, as they are; everybody on the machine can see them"
    )
    env: Mapping[_Variable, Annotated[SecretStr, AfterValidator(_secret)]] = Field(
        default_factory=dict[str, SecretStr], description="variables beside those that commands of the task get"
    )


class HttpServer(BaseModel):
    """A server that runs somewhere else."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    type: Literal["http", "sse"] = "http"
    url: Annotated[str, AfterValidator(_url)] = Field(repr=False, description="its address; a query may be a secret")
    headers: Mapping[Annotated[str, AfterValidator(_header_name)], Annotated[SecretStr, AfterValidator(_header)]] = (
        Field(default_factory=dict[str, SecretStr], description="what each request carries, as authorization")
    )


def _kind(value: object) -> str:
    if isinstance(value, Mapping):
        return "stdio" if "command" in value else "http"
    return "stdio" if isinstance(value, StdioServer) else "http"


Server: TypeAlias = Annotated[
    Annotated[StdioServer, Tag("stdio")] | Annotated[HttpServer, Tag("http")], Discriminator(_kind)
]


class StdioFields(TypedDict, total=False):
    """A `StdioServer` as a table, for type checkers: `{"command": "my-server", "args": ("--quiet",)}`."""

    type: Literal["stdio"]
    command: str
    args: tuple[str, ...]
    env: Mapping[str, str | SecretStr]


class HttpFields(TypedDict, total=False):
    """An `HttpServer` as a table, for type checkers: `{"url": "https://…", "headers": {"Authorization": "…"}}`."""

    type: Literal["http", "sse"]
    url: str
    headers: Mapping[str, str | SecretStr]


def servers_of(
    servers: Mapping[str, StdioServer | HttpServer], tools: tuple[str, ...] | None
) -> dict[str, StdioServer | HttpServer]:
    """Those that a task with these `tools` may use; the others are not started."""
    return {name: server for name, server in servers.items() if tools is None or f"mcp__{name}" in tools}


def secrets_of(servers: Mapping[str, StdioServer | HttpServer]) -> list[str]:
    """What must not be told: the values of variables and headers."""
    hidden = (server.env if isinstance(server, StdioServer) else server.headers for server in servers.values())
    return [value.get_secret_value() for values in hidden for value in values.values()]


def write_servers(folder: Path, servers: Mapping[str, StdioServer | HttpServer], sourced: Path) -> Path:
    """Write what `--mcp-config` names, and the scripts of which it tells.

    Args:
        folder: a private one, removed after the run.
        servers: by name.
        sourced: the file of what commands get, which is there before a server is started.
    """
    told: dict[str, dict[str, Any]] = {}
    for name, server in servers.items():
        if isinstance(server, HttpServer):
            headers = {key: value.get_secret_value() for key, value in server.headers.items()}
            told[name] = {"type": server.type, "url": server.url, "headers": headers}
        else:
            script = folder / f"server-{name}.sh"
            _write(script, _script(server, sourced))
            told[name] = {"type": "stdio", "command": "/bin/sh", "args": [str(script)]}
    config = folder / "servers.json"
    _write(config, json.dumps({"mcpServers": told}))
    return config


def _script(server: StdioServer, sourced: Path) -> str:
    given = [f"export {name}={shlex.quote(value.get_secret_value())}" for name, value in server.env.items()]
    return "\n".join(
        [f". {shlex.quote(str(sourced))}", *given, f"exec {shlex.join([server.command, *server.args])}", ""]
    )


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
